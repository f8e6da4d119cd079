"""A run, or the folder of a model, at an address -> a copy on this machine, to be read.

Of a run, its small files and one checkpoint, which is told apart by its CHECKSUMS.json
and compared with it; of anything else, all, as files/copies.py does.
"""

import contextlib
import json
import logging
import re
import shutil
from pathlib import Path

from jepa_text.files import addresses, atomic, cache, checksums, copies, transfer
from jepa_text.running import restore

STEPS = 'checkpoints'
_COMPLETE = re.compile(rf'(?P<top>(.+/)?){STEPS}/(?P<step>[0-9]+)/{checksums.NAME}')
_TRIES = 3  # of a run that lives and removes a step meanwhile

_log = logging.getLogger(__name__)


def folder(what, place, step=None):
    """The folder of the run or model in a place: itself, or the copy of one at an
    address, with the newest good checkpoint or the one at `step`.

    `what` names the place in errors. Raises as `addresses.place` and
    `addresses.patiently` do; FileNotFoundError for an address where nothing is, or no
    such step or no good one; ValueError for a `step` that is damaged.
    """
    text = addresses.place(what, place)
    if not addresses.is_address(text):
        return Path(text)
    address = text.rstrip('/')
    for _ in range(_TRIES - 1):
        with contextlib.suppress(_GoneError):
            return _here(address, step)
    return _here(address, step)


def steps(names):
    """The steps that are complete among names of files below a workdir, rising."""
    return runs(names).get('', [])


def runs(names):
    """The same of a workdir of several: {folder of a run, as 'one/', or '': steps}."""
    found = {}
    for name in names:
        if (match := _COMPLETE.fullmatch(name)) is not None:
            found.setdefault(match['top'], []).append(int(match['step']))
    return {top: sorted(found[top]) for top in sorted(found)}


class _GoneError(FileNotFoundError):
    """What was listed is not there any more."""


def _here(address, step):
    """The folder of a copy of what is at an address now."""
    there = copies.listed(address)
    complete = steps(there)
    if complete or step is not None:
        return _run(address, there, complete, step)
    # Neither half a checkpoint nor those of the runs of a study.
    small = {name: file for name, file in there.items() if f'/{STEPS}/' not in f'/{name}'}
    return copies.of(address, small)


def _run(address, there, complete, step):
    """The folder of a copy of a run with one of its complete steps."""
    if step is not None and step not in complete:
        raise FileNotFoundError(
            f'There is no checkpoint of step {step} at {address}. There are: '
            f'{", ".join(map(str, complete)) or "none"}.'
        )
    for one in reversed(complete) if step is None else [step]:
        try:
            copy = _step(address, there, one)
        except cache.DamagedError as error:
            if step is not None:
                raise
            _log.warning('%s: step %d is passed over: %s', address, one, error)
            continue
        _refresh(address, copy, there)
        return copy
    raise FileNotFoundError(
        f'{address} holds {len(complete)} checkpoints, and none is good. Train first, or '
        'bring the files back.'
    )


def _step(address, there, step):
    """The folder of a copy with a step. Raises cache.DamagedError if that is."""
    prefix = f'{STEPS}/{step}/'
    try:
        sums = transfer.read(f'{address}/{prefix}{checksums.NAME}')
    except FileNotFoundError as error:
        raise _GoneError(*error.args) from error
    try:
        entries = {prefix + k: dict(v) for k, v in json.loads(sums)['files'].items()}
        sizes = {name: entry['bytes'] for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise cache.DamagedError(f'its {checksums.NAME} is damaged ({error})') from error
    for name, size in sizes.items():
        if name not in there or there[name].size != size:
            found = there[name].size if name in there else 'no'
            raise cache.DamagedError(f'{name} has {found} bytes instead of {size}')
    entries[prefix + checksums.NAME] = {'bytes': len(sums)}
    known = [address, step, sums.decode()]
    try:
        copy = copies.keyed(address, known, entries)
        if restore.why_not(copy / prefix):  # damaged here, and maybe not there
            shutil.rmtree(copy / prefix)
            copy = copies.keyed(address, known, entries)
    except FileNotFoundError as error:
        raise _GoneError(*error.args) from error
    return copy


def _refresh(address, folder, there):
    """Brings the files beside the checkpoints, which change from save to save."""
    for name in there:
        if '/' not in name and not name.startswith('.'):
            atomic.write(folder / name, transfer.read(f'{address}/{name}'))
