"""Stop requests are honored, and the messages about it are true."""

import errno
import json
from types import SimpleNamespace

import children
import orbax.checkpoint as ocp
import pytest
import tiny
from test_damaged import CHANGES

from jepa_text.parallel import exits

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
