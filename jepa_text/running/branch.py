"""Branching: starts a run from a checkpoint of another run, hard-linked if possible."""

import json
import os
import shutil
from pathlib import Path

from jepa_text.files import atomic, checksums
from jepa_text.running import metrics, restore

_META = 'meta/metadata'


def begin(folder, source, step, change):
    """Gives the run in `folder` a checkpoint of the run in `source` and its metrics.

    Does nothing if the run has a checkpoint already. The metrics are those up to `step`,
    `change(meta)` returns the meta of the copied checkpoint. The copy has its own
    checksums. Raises ValueError for a missing or damaged checkpoint. Can be repeated
    after being killed at any point.
    """
    origin, steps = Path(source, 'checkpoints', str(step)), Path(folder, 'checkpoints')
    if restore.steps(steps):
        return
    if reason := restore.problem(origin):
        raise restore.unusable_error(origin, reason)
    # The next process that opens the folder removes folders with such names.
    partial = steps / f'{step}.orbax-checkpoint-tmp-branch'
    shutil.rmtree(partial, ignore_errors=True)
    entries = checksums.entries(origin)
    entries.pop(_META, None)
    for name in entries:
        _link(origin / name, partial / name)
    meta = change(restore.read_json(origin, 'meta'))
    (partial / _META).parent.mkdir(parents=True, exist_ok=True)
    (partial / _META).write_text(json.dumps(meta), encoding='utf-8')
    checksums.write(partial, entries)
    metrics.copy(source, folder, step)
    os.rename(partial, steps / str(step))
    atomic.flush(steps)


def _link(path, copy):
    copy.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(path, copy)
    except OSError:  # on another file system, or no support for hard links
        shutil.copyfile(path, copy)
        atomic.flush(copy)
