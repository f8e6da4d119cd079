"""A wish to stop is granted, and what is said about it is so."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from types import SimpleNamespace
from unittest import mock

import pytest
import tiny

from jepa_text.files import checksums
from jepa_text.parallel import exits
from jepa_text.running import shared_runs
from jepa_text.study import training_work

ASKED = SimpleNamespace(asked=True)


def config(folder):
    return tiny.config(
        folder,
        steps=4,
        phases=(dict(objective=dict(name='mlm')),),
        checkpoint=dict(every=1, keep=2),
        evaluate=dict(every=0, rate=0.15, max_rows=16),
    )


@pytest.mark.slow
def test_a_state_that_could_not_be_saved_is_not_said_to_be(tmp_path, monkeypatch):
    def full(folder):
        raise OSError(errno.ENOSPC, 'No space left on device')

    settings = config(tmp_path)
    with monkeypatch.context() as patch:
        # Behind the check for room, as when another process fills the disk.
        patch.setattr(checksums, 'write', full)
        with pytest.raises(OSError, match='disk was full') as caught:
            tiny.train(settings, tmp_path / 'run', stop=ASKED)
    assert exits.code_of(caught.value) == exits.FAILED
    with pytest.raises(exits.Stopped, match='after step 1 of 4'):
        tiny.train(settings, tmp_path / 'run', stop=ASKED)


def test_a_study_stops_after_the_run_in_whose_last_step_it_was_asked(
    tmp_path, monkeypatch
):
    trained = []

    def last_step(name, config, trunks, stop):
        trained.append(name)
        os.kill(os.getpid(), signal.SIGTERM)
        deadline = time.monotonic() + 5
        while not stop.asked and time.monotonic() < deadline:
            time.sleep(0.005)

    monkeypatch.setattr(training_work, 'train_one', last_step)
    monkeypatch.setattr(training_work, 'Trunks', mock.MagicMock())
    monkeypatch.setattr(training_work, 'courses', lambda *_: {})
    with (
        training_work.Worker(shared_runs.Here(tmp_path), 60, 3) as worker,
        pytest.raises(exits.Stopped),
    ):
        training_work.train_all({'first': {}, 'second': {}}, worker)
    assert trained == ['first']


HANGS = """
    import json, sys, time
    from jepa_text.training import settle, train
    def wait(*_):
        time.sleep(60)
    settle.completed = wait
    train.train(json.loads(sys.argv[1]), 'nowhere')
"""


@pytest.mark.slow
def test_the_watchdog_is_there_before_all_that_may_wait(tmp_path):
    hanging = config(tmp_path) | {'watchdog': {'seconds': 0.2, 'compile': 0.2}}
    done = subprocess.run(
        [sys.executable, '-c', textwrap.dedent(HANGS), json.dumps(hanging)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == exits.HUNG, done.stderr
    assert 'in wait' in done.stderr
