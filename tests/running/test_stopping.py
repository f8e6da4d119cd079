"""Stop requests are honored, what hangs is ended, and the messages about it are true."""

import errno
import json
import os
import signal
import time
from types import SimpleNamespace

import children
import orbax.checkpoint as ocp
import pytest
import tiny
from test_damaged import CHANGES

from jepa_text.parallel import exits
from jepa_text.running import watchdog

ASKED = SimpleNamespace(requested=True)


def config(folder):
    return tiny.config(folder, **CHANGES | dict(checkpoint=dict(every_steps=1, keep=2)))


@pytest.mark.slow
def test_a_failed_save_is_not_reported_as_saved(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, 'No space left on device')

    settings = config(tmp_path)
    with monkeypatch.context() as patch:
        # After the check for space, as if another process had filled the disk.
        temporary = ocp.path.atomicity.AtomicRenameTemporaryPath
        patch.setattr(temporary, 'finalize', full)
        with pytest.raises(OSError, match='disk was full') as caught:
            tiny.train(settings, tmp_path / 'run', stop=ASKED)
    assert exits.code_of(caught.value) == exits.FAILED
    with pytest.raises(exits.Stopped, match='after step 1 of 4'):
        tiny.train(settings, tmp_path / 'run', stop=ASKED)


HANGS = """
    import json, sys, time
    from jepa_text.training import completion, train
    def wait(*_):
        time.sleep(60)
    completion.with_init_from = wait
    train.train(json.loads(sys.argv[1]), 'nowhere')
"""


@pytest.mark.slow
def test_the_watchdog_starts_before_anything_that_can_block(tmp_path):
    hanging = config(tmp_path) | {'watchdog': {'seconds': 0.2, 'pause_seconds': 0.2}}
    given = json.dumps(hanging)
    done = children.run('-c', HANGS, given, cwd=tmp_path, code=exits.HUNG)
    assert 'no progress for 0.2 s (watchdog)' in done.stderr
    assert 'in wait' in done.stderr


SUSPENDED = """
    import os, signal, time
    from jepa_text.running import watchdog
    with watchdog.Watchdog(seconds=2, pause_seconds=2):
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(1)
"""


@pytest.mark.slow
def test_a_process_that_was_suspended_does_not_hang():
    with children.started('-c', SUSPENDED) as child:
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        time.sleep(3)
        child.send_signal(signal.SIGCONT)
        assert child.wait(60) == 0


def ended(monkeypatch, live, seconds=0.2, pause=10):
    """Whether the watchdog ends the process while `live` runs."""
    codes = []
    monkeypatch.setattr(watchdog.os, '_exit', codes.append)
    with watchdog.Watchdog(seconds=seconds, pause_seconds=pause) as dog:
        live(dog)
    return codes == [exits.HUNG]


@pytest.mark.slow
def test_beats_and_pauses_prevent_the_exit(monkeypatch):
    def steps(dog):
        for _ in range(6):
            dog.beat()
            time.sleep(0.1)

    def evaluates(dog):
        dog.beat()
        dog.pause()
        time.sleep(0.5)

    def prepares(dog):
        dog.suspend()
        time.sleep(0.5)

    def forgets(dog):
        dog.beat()
        time.sleep(0.5)

    assert not ended(monkeypatch, steps)
    assert not ended(monkeypatch, evaluates)
    assert not ended(monkeypatch, evaluates, pause=0)
    assert not ended(monkeypatch, prepares, pause=0.1)
    assert not ended(monkeypatch, lambda dog: time.sleep(0.5))  # the first step compiles
    assert not ended(monkeypatch, forgets, seconds=0)
    assert ended(monkeypatch, forgets)
    assert ended(monkeypatch, evaluates, pause=0.2)
