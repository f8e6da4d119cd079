"""A byte flipped, or the end cut off, in any file of a run: seen, or of no consequence.

One trial damages one file of a run that has stopped half way, or of its rows, at random.
Then the log is read, the model loaded, a text encoded, and the run resumed to its end.
Each trial must end in one of these ways:

  named     an error that names the damaged file
  warned    it goes on with what is whole, and a warning names the file
  bit-equal vectors, metrics and the final state are those without damage

and never so: an error that names no file ('unnamed'), or other numbers ('silent').
"""

import collections
import contextlib
import io
import logging
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import tiny

TEXT = 'The whale of captain saw garden.'
FAULTS = ('unnamed', 'silent')
# Saved at steps 3 and 6, and where it is stopped.
CHANGES = dict(
    steps=10,
    mesh=dict(data=-1, fsdp=1, tensor=1),
    phases=tiny.phases('mlm', rate=0.3),
    checkpoint=dict(every_steps=3, keep=2),
    evaluate=dict(every_steps=5, rate=0.15, max_rows=16),
)


class Stop:
    """Requests a stop once it was asked `steps` times."""

    def __init__(self, steps):
        self._left = steps

    @property
    def requested(self):
        self._left -= 1
        return self._left < 0


def prepare(folder):
    """A run that stopped after 8 of 10 steps, with what is whole beside it."""
    from jepa_text.parallel import exits

    live = folder / 'live'
    live.mkdir()
    config = tiny.config(live, **CHANGES)
    with contextlib.suppress(exits.Stopped):
        tiny.train(config, live / 'run', stop=Stop(7))
    shutil.copytree(live, folder / 'whole')
    return config


def bring_back(folder):
    """Everything as it was before the damage."""
    shutil.rmtree(folder / 'live')
    shutil.copytree(folder / 'whole', folder / 'live')


def files(folder):
    """The files that a trial may damage."""
    found = [path for part in ('rows', 'run') for path in (folder / part).rglob('*')]
    return sorted(path for path in found if path.is_file() and path.stat().st_size)


def damage(path, rng):
    """Flips a byte or cuts the end off; says what was done."""
    content = bytearray(path.read_bytes())
    at = int(rng.integers(len(content)))
    if rng.random() < 0.25:
        path.write_bytes(content[:at])
        return f'cut at {at} of {len(content)}'
    mask = 1 << int(rng.integers(8)) if rng.random() < 0.7 else int(rng.integers(1, 256))
    content[at] ^= mask
    path.write_bytes(content)
    return f'byte {at} of {len(content)} ^ {mask:#04x}'


def use(config, workdir):
    """All that a run can be asked for, as bytes that must not change."""
    from jepa_text.pretrained import load

    before = tiny.log(workdir)
    vector_D = load.load(workdir).encode([TEXT])[0]
    state = tiny.train(config, workdir)
    return SimpleNamespace(
        before=before,
        vector=np.asarray(vector_D).tobytes(),
        state=tiny.fingerprint(state),
        log=tiny.log(workdir),
    )


def outcome(config, folder, path, wanted):
    """(how the trial ended, in detail)."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logging.getLogger().addHandler(handler)
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            found = use(config, folder / 'run')
    except Exception as error:
        text = f'{type(error).__name__}: {error}'
        return ('named' if names(text, folder, path) else 'unnamed'), text
    finally:
        logging.getLogger().removeHandler(handler)
    if found == wanted:
        return 'bit-equal', ''
    differs = [key for key in vars(wanted) if vars(found)[key] != vars(wanted)[key]]
    # The curve may have a hole, an older checkpoint may speak; what is trained may not.
    warned = 'state' not in differs and names(said.getvalue(), folder, path)
    return ('warned' if warned else 'silent'), f'{differs} differ'


def names(text, folder, path):
    """Does a text name the file, or the checkpoint that it is a part of?"""
    steps = folder / 'run' / 'checkpoints'
    if steps in path.parents:
        return str(steps / path.relative_to(steps).parts[0]) in text
    return str(path) in text


def trials(number, seed, folder):
    """(trials by outcome, faults in words) of so many damaged files."""
    folder, rng = Path(folder), np.random.default_rng(seed)
    config = prepare(folder)
    live = folder / 'live'
    wanted = use(config, live / 'run')
    counts, faults = collections.Counter(), []
    for _ in range(number):
        bring_back(folder)
        found = files(live)
        # By kind first: most files are parts of checkpoints.
        kinds = sorted({kind(path, live) for path in found})
        chosen = kinds[int(rng.integers(len(kinds)))]
        same = [path for path in found if kind(path, live) == chosen]
        path = same[int(rng.integers(len(same)))]
        done = damage(path, rng)
        end, detail = outcome(config, live, path, wanted)
        counts[end] += 1
        if end in FAULTS:
            faults.append(f'{path.relative_to(live)}, {done}: {end} {detail[:300]}')
    return counts, faults


def kind(path, folder):
    """Files of one kind: of rows, or of a run, or of the same part of a checkpoint."""
    parts = path.relative_to(folder).parts
    if 'checkpoints' in parts:
        return '/'.join(parts[:2] + parts[3:4])
    if 'tfevents' in path.name:
        return 'run/tfevents'
    return '/'.join((*parts[:-1], path.name.split('-')[0]))
