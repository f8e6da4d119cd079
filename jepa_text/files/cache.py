"""Copies on this machine of what lies at an address: one folder each, named by what is in
it, so that many processes copy it once.

They are in the folder that JEPA_TEXT_CACHE names, or in jepa_text/copies of the user's
cache. JEPA_TEXT_CACHE_GB bounds them, else the room on the disk does: the copy that was
opened longest ago goes first, and none that a process holds. All of it may be deleted.
"""

import contextlib
import errno
import functools
import hashlib
import itertools
import os
import shutil
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from jepa_text.files import atomic, locks, streams

_THREADS = 4  # files at once
_CHUNK = 2**20
_LOCK, _USED = '.lock', '.used'


class DamagedError(ValueError):
    """A file at an address is not what its checksum says."""


def top(environ=os.environ):
    """The folder of all copies."""
    home = Path(environ.get('XDG_CACHE_HOME') or '~/.cache') / 'jepa_text' / 'copies'
    return Path(environ.get('JEPA_TEXT_CACHE') or home).expanduser().absolute()


def hold(name):
    """The folder of a copy, made if need be, which nobody deletes while this process
    lives."""
    folder = top() / name
    for attempt in itertools.count():
        folder.mkdir(parents=True, exist_ok=True)
        _held(folder, attempt)
        # Else whoever made room took it away meanwhile.
        if (folder / _USED).exists():
            return folder
    return None


@functools.cache
def _held(folder, attempt):
    """A descriptor with a lock, which this process never closes."""
    del attempt  # an earlier one may be of a folder that was deleted
    descriptor = os.open(folder / _USED, os.O_RDWR | os.O_CREAT, 0o644)
    locks.take(descriptor, shared=True)
    return descriptor


def copied(address, name, entries, below=''):
    """The folder of a copy with files of an address, whole by their checksums.

    `entries` is {file: {'bytes': its size, 'sha256': ...}}, of which a checksum may be
    left out; they go `below` the folder of the copy. What is there already is not read
    again; of several processes one copies, and the others wait. Prints what it did.
    Raises DamagedError for a file whose content is not what its checksum says, ValueError
    for a name that leads out of the folder; OSError when there is no room; and as
    streams.open_bytes does.
    """
    odd = [file for file in entries if not _is_within(file)]
    if odd:
        raise ValueError(f'{address} lists {odd[0]!r}, which is no name of a file in it.')
    folder = hold(name)
    with _alone(folder):
        for partial in folder.rglob('*.partial-*'):
            partial.unlink()
        place = folder / below
        missing = {
            file: entry
            for file, entry in entries.items()
            if not _is_there(place / file, entry)
        }
        if missing:
            _bring(address, place, missing)
    os.utime(folder)
    return place


def put(name, file, content):
    """The folder of a copy, with a file of that content."""
    folder = hold(name)
    with _alone(folder):
        if not (folder / file).is_file():
            atomic.write(folder / file, content)
    return folder


@contextlib.contextmanager
def _alone(folder):
    """While one process fills the folder of a copy, the others wait."""
    with open(folder / _LOCK, 'ab') as lock:
        # Without locks two may copy the same, each to a name of its own.
        locks.take(lock)
        yield


def _bring(address, folder, entries):
    needed = sum(entry['bytes'] for entry in entries.values())
    make_room(needed)
    base = address.rstrip('/')
    with ThreadPoolExecutor(_THREADS) as pool:
        jobs = [
            pool.submit(_copy, f'{base}/{file}', folder / file, entry)
            for file, entry in entries.items()
        ]
        for job in jobs:
            job.result()
    print(
        f'{address}: {len(entries):,} files, {needed / 1e6:,.1f} MB, copied to {folder}'
    )


def make_room(needed, environ=os.environ):
    """Deletes copies that nobody holds, the oldest first, until `needed` bytes fit.

    Raises ValueError for a bound that is no number, OSError when they do not fit.
    """
    folder = top(environ)
    folder.mkdir(parents=True, exist_ok=True)
    bound = environ.get('JEPA_TEXT_CACHE_GB')
    try:
        bound = None if not bound else float(bound) * 1e9
    except ValueError as error:
        raise ValueError(f'JEPA_TEXT_CACHE_GB={bound!r} must be a number.') from error
    others = [one for one in folder.iterdir() if one.is_dir()]
    for other in sorted(others, key=lambda one: one.stat().st_mtime):
        if _room(folder, bound) >= needed:
            break
        _forget(other)
    room = _room(folder, bound)
    if room < needed:
        raise OSError(
            errno.ENOSPC,
            f'{needed / 1e9:,.2f} GB are to be copied to {folder}, which has room for '
            f'{max(0, room) / 1e9:,.2f}. Set JEPA_TEXT_CACHE to a folder on a larger '
            'disk, or JEPA_TEXT_CACHE_GB to more if that bounds it.',
        )


def _room(folder, bound):
    free = shutil.disk_usage(folder).free
    if bound is None:
        return free
    files = (Path(at, name) for at, _, names in os.walk(folder) for name in names)
    return min(free, bound - sum(file.stat().st_size for file in files))


def _forget(folder):
    """Deletes a copy unless a process holds it."""
    with contextlib.suppress(OSError), open(folder / _USED, 'ab') as used:
        if locks.take(used, wait=False):
            shutil.rmtree(folder)


def _is_within(file):
    """Is it the name of a file in a folder or below it, and none of a cache's own?"""
    parts = PurePosixPath(file).parts
    return bool(parts) and all(part[0] not in '/.' for part in parts)


def _is_there(path, entry):
    return path.is_file() and path.stat().st_size == entry['bytes']


def _copy(address, path, entry):
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f'{path.name}.partial-{uuid.uuid4().hex[:8]}')
    digest = hashlib.sha256()
    try:
        with (
            streams.open_bytes(address, unpack=False) as stream,
            open(partial, 'wb') as file,
        ):
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
                file.write(chunk)
        if digest.hexdigest() != entry.get('sha256', digest.hexdigest()):
            raise DamagedError(
                f'{address} is damaged: its sha256 is {digest.hexdigest()[:16]}..., it '
                f'must be {entry["sha256"][:16]}.... Bring it there anew.'
            )
        atomic.flush(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
