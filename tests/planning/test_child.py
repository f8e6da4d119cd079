"""A question to a process of its own: its answer, and how it may end."""

import io
import json
import os
import time

import pytest

from jepa_text.planning import child


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Says what is run in place of Python."""
    path = tmp_path / 'python'
    monkeypatch.setattr(child.sys, 'executable', str(path))

    def does(text):
        path.write_text(f'#!/bin/sh\n{text}\n')
        path.chmod(0o700)

    return does


def test_the_last_line_is_the_answer(program):
    program('read question; echo noise; printf \'["%s", %s]\' $SAYS "$question"')
    assert child.ask('m', 7, 'it', environ={'SAYS': 'here'}) == ['here', 7]


@pytest.mark.parametrize(
    ('does', 'error', 'words'),
    [
        ('exit 1', RuntimeError, 'it failed; its traceback'),
        ('kill -KILL $$', ValueError, 'it: ended by SIGKILL.*memory'),
        ('echo \'{"raised": "KeyError: 3"}\'', RuntimeError, 'it failed: KeyError: 3'),
    ],
)
def test_how_it_ended_is_said(program, does, error, words):
    program(does)
    with pytest.raises(error, match=words):
        child.ask('m', {}, 'it')


def test_what_takes_too_long_is_ended_with_all_that_it_started(program, tmp_path):
    program(f'sleep 60 & echo $! > {tmp_path}/started; wait')
    with pytest.raises(TimeoutError, match='it: ended after'):
        child.ask('m', {}, 'it', timeout=0.5)
    started = int((tmp_path / 'started').read_text())
    until = time.monotonic() + 5
    while time.monotonic() < until and _runs(started):
        time.sleep(0.05)
    assert not _runs(started)


def _runs(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    with open(f'/proc/{process}/stat', encoding='utf-8') as file:
        return file.read().rpartition(')')[2].split()[0] != 'Z'


@pytest.mark.parametrize(
    ('function', 'answer'),
    [(lambda x: {'got': x}, {'got': [1]}), (lambda x: x['a'], {'raised': 'TypeError: '})],
)
def test_serving_answers_or_tells_what_was_raised(monkeypatch, capfd, function, answer):
    monkeypatch.setattr(child.sys, 'stdin', io.StringIO('[1]'))
    monkeypatch.setattr(child.xla_flags, 'mend', lambda: None)
    monkeypatch.setattr(child.os, 'dup2', lambda *numbers: None)
    with open(1, 'w', closefd=False) as stdout:
        monkeypatch.setattr(child.sys, 'stdout', stdout)
        child.serve(function)
    said = json.loads(capfd.readouterr().out)
    if 'raised' in answer:
        assert said['raised'].startswith(answer['raised'])
    else:
        assert said == answer
