"""Local copies of files at an address, shared by all processes of a machine.

A copy is a folder below JEPA_TEXT_CACHE, by default jepa_text/copies in the user's cache
folder, named by its content. It may be deleted while no process uses it.
"""

import contextlib
import fnmatch
import os
import posixpath
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jepa_text.files import addresses, atomic, checksums, locks, streams

THREADS = 4  # concurrent downloads


def root():
    """Returns the folder of all copies."""
    caches = Path(os.environ.get('XDG_CACHE_HOME') or '~/.cache')
    chosen = os.environ.get('JEPA_TEXT_CACHE') or caches / 'jepa_text' / 'copies'
    return Path(chosen).expanduser().absolute()


def copy_folder(address, wanted=('*',), unwanted=()):
    """Copies the files of an address whose names match, and returns the local folder.

    `wanted` and `unwanted` are shell patterns. Files with a leading dot are left out.
    Raises FileNotFoundError if no file matches, and as `copy_files` does.
    """

    def matches(name, patterns):
        return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)

    files = addresses.list_files(address)
    chosen = {
        name: file
        for name, file in files.items()
        if matches(name, wanted) and not matches(name, ('.*', '*/.*', *unwanted))
    }
    if not chosen:
        raise FileNotFoundError(
            f'{address} has no file that matches {", ".join(wanted)}, but {len(files):,} '
            'others. Check the address, and whether the files were written.'
        )
    return copy_files(address, chosen)


def copy_files(address, files, sums=None):
    """Copies the files {name below the address: addresses.File}; returns the folder.

    `sums` are {name: sha256} of those files whose checksum is known. A copy is identified
    by the sizes and versions of the files, or by their checksums. If several processes
    need one, the first downloads it. Raises ValueError for a file that does not match its
    checksum, and for a name that leads out of the folder; and as streams.open_bytes does.
    """
    for name in files:
        if name.startswith('/') or {'..', ''} & {*name.split('/')}:
            raise ValueError(f'{address} has {name!r}, not a valid file name in it.')
    address, sums = address.rstrip('/'), sums or {}
    facts = [[n, file.size, sums.get(n, file.version)] for n, file in files.items()]
    key = checksums.checksum([address, facts])
    folder = root() / f'copy-{key[:32]}' / posixpath.basename(address)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / 'lock', 'ab') as lock:
        locks.take(lock)
        missing = [name for name in files if not (folder / name).is_file()]
        with ThreadPoolExecutor(THREADS) as pool:
            list(  # raises the first error
                pool.map(lambda n: _copy(files[n], folder / n, sums.get(n)), missing)
            )
    if missing:
        size = sum(files[name].size or 0 for name in missing) / 1e6
        print(f'{address}: {len(missing):,} files, {size:,.1f} MB, copied to {folder}')
    return folder


def local_file(what, place, name, beside=()):
    """Returns the local path of a file, copying it first if it is at an address, with
    those files of the names `beside` that are in its folder.

    `place` is the file itself, or a folder that contains a file `name`. `what` names it
    in errors. Raises as addresses.location and addresses.stat do.
    """
    text = addresses.location(what, place)
    if not addresses.is_address(text):
        path = Path(text)
        return path / name if path.is_dir() else path
    text = text.rstrip('/')
    file = addresses.stat(text) or addresses.stat(f'{text}/{name}')
    folder, _, name = file.path.rpartition('/')
    files = {name: file}
    for other in beside:
        with contextlib.suppress(FileNotFoundError):
            files[other] = addresses.stat(f'{folder}/{other}')
    return copy_files(folder, files) / name


def _copy(file, path, wanted):
    """Downloads a file, whose sha256 is `wanted` unless that is None."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.file(path) as partial:
        with (
            streams.open_bytes(file, unpack=False) as stream,
            open(partial, 'wb') as local,
        ):
            shutil.copyfileobj(stream, local, streams.BUFFER)
        size, sha256 = partial.stat().st_size, wanted and checksums.sha256(partial)
        if sha256 != wanted or file.size not in (None, size):
            raise ValueError(
                f'{file} is damaged: it has {size} bytes, sha256 {sha256}, not '
                f'{file.size}, {wanted}. Upload it again.'
            )
