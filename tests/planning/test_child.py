"""Calls of child processes: responses, errors, timeouts."""

import io
import json
import os
import time

import pytest

from jepa_text.planning import child


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Sets a shell script that replaces Python."""
    path = tmp_path / 'python'
    monkeypatch.setattr(child.sys, 'executable', str(path))

    def set_script(text):
        path.write_text(f'#!/bin/sh\n{text}\n')
        path.chmod(0o700)

    return set_script


def test_last_line_is_the_response(program):
    program('read request; echo noise; printf \'["%s", %s]\' $VALUE "$request"')
    assert child.call('m', 7, 'it', environ={'VALUE': 'here'}) == ['here', 7]


@pytest.mark.parametrize(
    ('script', 'error', 'words'),
    [
        ('exit 1', RuntimeError, 'it failed; see the traceback'),
        ('kill -KILL $$', ValueError, 'it: killed by SIGKILL.*memory'),
        ('echo \'{"raised": "KeyError: 3"}\'', RuntimeError, 'it failed: KeyError: 3'),
    ],
)
def test_failures_are_reported(program, script, error, words):
    program(script)
    with pytest.raises(error, match=words):
        child.call('m', {}, 'it')


def test_timeout_kills_the_process_and_its_children(program, tmp_path):
    program(f'sleep 60 & echo $! > {tmp_path}/started; wait')
    with pytest.raises(TimeoutError, match='it: timed out after'):
        child.call('m', {}, 'it', timeout=0.5)
    started = int((tmp_path / 'started').read_text())
    until = time.monotonic() + 30
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
    ('function', 'expected'),
    [(lambda x: {'got': x}, {'got': [1]}), (lambda x: x['a'], {'raised': 'TypeError: '})],
)
def test_serve_writes_the_response_or_error(monkeypatch, capfd, function, expected):
    monkeypatch.setattr(child.sys, 'stdin', io.StringIO('[1]'))
    monkeypatch.setattr(child.xla_flags, 'apply', lambda: None)
    monkeypatch.setattr(child.os, 'dup2', lambda *numbers: None)
    with open(1, 'w', closefd=False) as stdout:
        monkeypatch.setattr(child.sys, 'stdout', stdout)
        child.serve(function)
    response = json.loads(capfd.readouterr().out)
    if 'raised' in expected:
        assert response['raised'].startswith(expected['raised'])
    else:
        assert response == expected
