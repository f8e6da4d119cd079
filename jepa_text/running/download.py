"""Read-only local copies of runs and model folders at an address.

Of a run, the small files and one checkpoint are downloaded, and the checkpoint is
verified with its CHECKSUMS.json; of any other folder, everything, as in files/copies.py.
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
_TRIES = 3  # if a live run removes a step during the download

_log = logging.getLogger(__name__)


def folder(what, place, step=None):
    """The local folder of a run or model, downloaded if `place` is an address.

    Downloads the newest good checkpoint, or the one of `step`. `what` names the place in
    errors. Raises as `addresses.location` and `addresses.with_retries` do;
    FileNotFoundError if the address does not exist or has no such step or no good one;
    ValueError if `step` is damaged.
    """
    text = addresses.location(what, place)
    if not addresses.is_address(text):
        return Path(text)
    address = text.rstrip('/')
    for _ in range(_TRIES - 1):
        with contextlib.suppress(_RemovedError):
            return _download(address, step)
    return _download(address, step)


def steps(names):
    """The complete steps among file names below a workdir, in increasing order."""
    return runs(names).get('', [])


def runs(names):
    """{folder of a run, such as 'one/' or '': complete steps} among file names."""
    found = {}
    for name in names:
        if (match := _COMPLETE.fullmatch(name)) is not None:
            found.setdefault(match['top'], []).append(int(match['step']))
    return {top: sorted(found[top]) for top in sorted(found)}


class _RemovedError(FileNotFoundError):
    """A listed file was removed in the meantime."""


def _download(address, step):
    """The folder of a copy of the current content of an address."""
    remote = addresses.list_files(address)
    if not remote:
        raise FileNotFoundError(f'There are no files at {address}. Check the address.')
    complete = steps(remote)
    if complete or step is not None:
        return _run(address, remote, complete, step)
    # Incomplete checkpoints, and those of the runs of a study, are not copied.
    small = {
        k: file
        for k, file in remote.items()
        if f'/{STEPS}/' not in f'/{k}' and '/.' not in f'/{k}'
    }
    return copies.copy_files(address, small)


def _run(address, remote, complete, step):
    """The folder of a copy of a run with one of its complete checkpoints."""
    if step is not None and step not in complete:
        raise FileNotFoundError(
            f'There is no checkpoint of step {step} at {address}. There are: '
            f'{", ".join(map(str, complete)) or "none"}.'
        )
    for candidate in reversed(complete) if step is None else [step]:
        try:
            copy = _step(address, remote, candidate)
        except FileNotFoundError as error:
            raise _RemovedError(*error.args) from error
        except cache.DamagedError as error:
            if step is not None:
                raise
            _log.warning('%s: step %d is skipped: %s', address, candidate, error)
            continue
        _refresh(address, copy, remote)
        return copy
    raise FileNotFoundError(
        f'{address} contains {len(complete)} checkpoints, and none is good. Train first, '
        'or restore the files.'
    )


def _step(address, remote, step):
    """The folder of a copy with a checkpoint.

    Raises cache.DamagedError if it is damaged, FileNotFoundError if it was removed.
    """
    prefix = f'{STEPS}/{step}/'
    sums = transfer.read(f'{address}/{prefix}{checksums.NAME}')
    try:
        entries = {prefix + k: dict(v) for k, v in json.loads(sums)['files'].items()}
        sizes = {name: entry['bytes'] for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise cache.DamagedError(f'its {checksums.NAME} is damaged ({error})') from error
    for name, size in sizes.items():
        if name not in remote or remote[name].size != size:
            found = remote[name].size if name in remote else 'no'
            raise cache.DamagedError(f'{name} has {found} bytes instead of {size}')
    entries[prefix + checksums.NAME] = {'bytes': len(sums)}
    key = [address, step, sums.decode()]
    copy = _copy_by_key(address, key, entries)
    if restore.problem(copy / prefix):  # only the local copy may be damaged
        shutil.rmtree(copy / prefix)
        copy = _copy_by_key(address, key, entries)
    return copy


def _copy_by_key(address, key, entries):
    name = f'copy-{checksums.checksum(key)[:32]}'
    return cache.download(address, name, entries, below=address.rpartition('/')[2])


def _refresh(address, folder, remote):
    """Downloads the files next to the checkpoints, which change with every save."""
    for name in remote:
        if '/' not in name and not name.startswith('.'):
            atomic.write(folder / name, transfer.read(f'{address}/{name}'))
