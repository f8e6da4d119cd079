"""Cache of local copies of remote files, shared by all processes of a machine.

Each copy is a folder named by its content, so that many processes download it once. The
cache is the folder JEPA_TEXT_CACHE, by default jepa_text/copies in the user's cache
folder. Its size is limited by JEPA_TEXT_CACHE_GB, else by the free disk space. The least
recently opened copies are evicted first; copies that a process holds are never evicted.
The whole cache may be deleted.
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

_THREADS = 4  # concurrent downloads
_CHUNK = 2**20
_LOCK, _USED = '.lock', '.used'


class DamagedError(ValueError):
    """A file at an address does not match its checksum."""


def root():
    """Returns the folder of the cache."""
    caches = Path(os.environ.get('XDG_CACHE_HOME') or '~/.cache')
    chosen = os.environ.get('JEPA_TEXT_CACHE') or caches / 'jepa_text' / 'copies'
    return Path(chosen).expanduser().absolute()


def hold(name):
    """Returns the folder of a copy, creating it if needed.

    It is not evicted while this process lives.
    """
    folder = root() / name
    for attempt in itertools.count():
        folder.mkdir(parents=True, exist_ok=True)
        _locked_descriptor(folder, attempt)
        # Otherwise another process evicted the folder in the meantime.
        if (folder / _USED).exists():
            return folder
    return None


@functools.cache
def _locked_descriptor(folder, attempt):
    """Returns a descriptor with a shared lock, which this process never closes."""
    del attempt  # a previous descriptor may be of a folder that was deleted
    descriptor = os.open(folder / _USED, os.O_RDWR | os.O_CREAT, 0o644)
    locks.take(descriptor, shared=True)
    return descriptor


def download(address, name, entries, below=''):
    """Downloads files of an address into the copy `name`, and verifies their checksums.

    `entries` is {file: {'bytes': size, 'sha256': ...}}; a checksum may be absent. Files
    are stored in the subfolder `below` of the copy, which is returned. Files that are
    already cached are not read again. If several processes need the same copy, one
    downloads it and the others wait. Prints what was copied.

    Raises DamagedError for a file that does not match its checksum, ValueError for a name
    that leads out of the folder, OSError if there is not enough space, and as
    streams.open_bytes does.
    """
    invalid = [file for file in entries if not _is_valid_name(file)]
    if invalid:
        raise ValueError(
            f'{address} lists {invalid[0]!r}, which is not a valid file name in it.'
        )
    folder = hold(name)
    with _exclusive(folder) as is_alone:
        # Those of killed processes; without locks, they may be of a living one.
        for partial in folder.rglob('*.partial-*') if is_alone else ():
            partial.unlink()
        target = folder / below
        missing = {
            file: entry
            for file, entry in entries.items()
            if not _is_cached(target / file, entry)
        }
        if missing:
            _download_all(address, target, missing)
    os.utime(folder)
    return target


def put(name, file, content):
    """Stores a file with this content in a copy, and returns the copy's folder."""
    folder = hold(name)
    with _exclusive(folder):
        if not (folder / file).is_file():
            atomic.write(folder / file, content)
    return folder


@contextlib.contextmanager
def _exclusive(folder):
    """Lets one process at a time fill the folder of a copy; yields whether it is alone.

    On a file system without locks, two processes may download the same files, each under
    temporary names of its own.
    """
    with open(folder / _LOCK, 'ab') as lock:
        yield locks.take(lock)


def _download_all(address, folder, entries):
    needed = sum(entry['bytes'] for entry in entries.values())
    make_room(needed)
    base = address.rstrip('/')

    def download_file(file):
        _download_file(f'{base}/{file}', folder / file, entries[file])

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(download_file, entries))  # raises the first error
    print(
        f'{address}: {len(entries):,} files, {needed / 1e6:,.1f} MB, copied to {folder}'
    )


def make_room(needed):
    """Evicts copies that no process holds, the oldest first, until `needed` bytes fit.

    Raises ValueError if JEPA_TEXT_CACHE_GB is not a number, OSError if they do not fit.
    """
    folder = root()
    folder.mkdir(parents=True, exist_ok=True)
    limit = os.environ.get('JEPA_TEXT_CACHE_GB')
    try:
        limit = float(limit) * 1e9 if limit else None
    except ValueError as error:
        raise ValueError(f'JEPA_TEXT_CACHE_GB={limit!r} must be a number.') from error
    copies = _statuses(folder.iterdir())
    for copy, _ in sorted(copies, key=lambda pair: pair[1].st_mtime):
        if _free_bytes(folder, limit) >= needed:
            break
        _evict(copy)
    free = _free_bytes(folder, limit)
    if free < needed:
        raise OSError(
            errno.ENOSPC,
            f'{needed / 1e9:,.2f} GB are to be copied to {folder}, which has room for '
            f'{max(0, free) / 1e9:,.2f}. Set JEPA_TEXT_CACHE to a folder on a larger '
            'disk, or increase JEPA_TEXT_CACHE_GB if it is set.',
        )


def _free_bytes(folder, limit):
    free = shutil.disk_usage(folder).free
    if limit is None:
        return free
    files = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return min(free, limit - sum(status.st_size for _, status in _statuses(files)))


def _statuses(paths):
    """Yields (path, status), except of paths that another process has just removed."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            yield path, path.stat()


def _evict(folder):
    """Deletes a copy unless a process holds it."""
    with contextlib.suppress(OSError), open(folder / _USED, 'ab') as used:
        if locks.take(used, wait=False):
            shutil.rmtree(folder)


def _is_valid_name(file):
    """Returns whether a relative path stays in its folder and has no hidden part."""
    parts = PurePosixPath(file).parts
    return bool(parts) and all(part[0] not in '/.' for part in parts)


def _is_cached(path, entry):
    return path.is_file() and path.stat().st_size == entry['bytes']


def _download_file(address, path, entry):
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
        actual = digest.hexdigest()
        if actual != entry.get('sha256', actual):
            raise DamagedError(
                f'{address} is damaged: its sha256 is {actual[:16]}..., expected '
                f'{entry["sha256"][:16]}.... Upload it again.'
            )
        atomic.flush(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
