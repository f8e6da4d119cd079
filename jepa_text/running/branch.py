"""A run begins with the state of another one, of which it is a branch: a copy that costs
no room where files can have two names, with checksums of its own."""

import json
import os
import shutil
from pathlib import Path

from jepa_text.files import atomic, checksums
from jepa_text.running import metrics, restore

_META = 'meta/metadata'


def begin(folder, source, step, change):
    """Gives the run in `folder`, if it has saved nothing, the checkpoint of a step of the
    run in `source`, and its metrics up to there.

    `change(meta)` is what the checkpoint then says of the run. Raises ValueError for a
    checkpoint that is not whole or not there. Killed half way, it can be called again.
    """
    there, here = Path(source, 'checkpoints', str(step)), Path(folder, 'checkpoints')
    if restore.steps(here):
        return
    if reason := restore.why_not(there):
        raise restore.distrust(there, reason)
    # Who opens the folder next removes what is called so.
    partial = here / f'{step}.orbax-checkpoint-tmp-branch'
    shutil.rmtree(partial, ignore_errors=True)
    known = checksums.entries(there)
    for name in known:
        if name != _META:
            _link(there / name, partial / name)
    meta = change(restore.read_json(there, 'meta'))
    (partial / _META).parent.mkdir(parents=True, exist_ok=True)
    (partial / _META).write_text(json.dumps(meta), encoding='utf-8')
    checksums.write(partial, {n: entry for n, entry in known.items() if n != _META})
    metrics.take_over(folder, source, step)
    os.rename(partial, here / str(step))
    atomic.flush(here)


def _link(path, copy):
    copy.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(path, copy)
    except OSError:  # of another file system, or one without second names
        shutil.copyfile(path, copy)
        atomic.flush(copy)
