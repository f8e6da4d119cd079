"""Files of this machine -> an address, and back.

An object store shows a file whole or not at all; it renames nothing and appends nothing.
"""

import contextlib
import os
import posixpath
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from jepa_text.files import addresses, streams

_THREADS = 4  # files at once
_CHUNK = 2**20
_TRIES = 3  # of what others replace


def listed(address):
    """{path below an address: addresses.File} of all there; {} where nothing is.

    Raises ValueError for a name that leads out of it.
    """
    system, path = addresses.filesystem(address)
    top = path.rstrip('/')

    def ask():
        system.invalidate_cache()
        return system.find(top, detail=True)

    found = addresses.patiently(address, ask)
    names = {name.removeprefix(f'{top}/'): info for name, info in found.items()}
    for name in names:
        if {'..', ''} & {*PurePosixPath(name).parts} or name.startswith('/'):
            raise ValueError(
                f'{address} holds {name!r}, which is no name of a file in it.'
            )
    return {
        name: addresses.described(posixpath.join(address, name), info)
        for name, info in names.items()
        if info['type'] == 'file'
    }


def check_free(address):
    """Raises FileExistsError where anything lies at an address or below it."""
    if listed(address):
        raise FileExistsError(
            f'{address} is there already and is not overwritten: name another place, or '
            'delete it first.'
        )


def folder(path, address, last, before_last=lambda: None):
    """Copies all files of a folder to an address, the one of the name `last` at the end,
    after a call of `before_last`: where it is, all is.

    Raises AddressError for a file that has another size there, and as
    addresses.patiently does.
    """
    top = Path(path)
    files = [Path(at, name) for at, _, names in os.walk(top) for name in names]
    before = [file for file in files if file != top / last]

    def copy(file):
        one(file, posixpath.join(address, file.relative_to(top).as_posix()))

    with ThreadPoolExecutor(_THREADS) as pool:
        for job in [pool.submit(copy, file) for file in sorted(before)]:
            job.result()
    before_last()
    copy(top / last)


def one(file, address):
    """Copies a file to an address, over what is there."""
    system, name = _writable(address)
    addresses.patiently(address, lambda: system.put_file(os.fspath(file), name))
    there, size = addresses.stated(address), os.path.getsize(file)
    if there is None or there.size != size:
        raise addresses.AddressError(
            f'{address} has {there and there.size} bytes after {size} were written. '
            'Write it again; if it happens again, tell who runs that store.'
        )


def write(address, content):
    """Writes bytes to an address, over what is there."""
    system, name = _writable(address)
    addresses.patiently(address, lambda: system.pipe_file(name, content))


def create(address, content):
    """Writes bytes to an address where nothing is yet, in one step: was it this call that
    did? An answer that was lost on the way can make that False."""
    system, name = _writable(address)

    def ask():
        try:
            system.pipe_file(name, content, mode='create')
        except FileExistsError:
            return False
        return True

    return addresses.patiently(address, ask)


def _writable(address):
    """(file system, the path in it) of an address where a file may be written."""
    system, name = addresses.filesystem(address)
    if 'file' in system.protocol:  # alone it has folders, which must be there
        system.makedirs(posixpath.dirname(name), exist_ok=True)
    return system, name


def read(address):
    """The bytes at an address, of one moment: small ones, as they come in one piece."""
    system, name = addresses.filesystem(address)

    def ask():
        system.invalidate_cache()  # s3fs takes the size from an older listing
        return system.cat_file(name)

    return addresses.patiently(address, ask)


def bring(address, path, names):
    """Copies files of those names from an address into a folder of this machine; what is
    replaced meanwhile, anew."""

    def copy(name):
        file = Path(path, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        place = posixpath.join(address, name)
        for _ in range(_TRIES - 1):
            with contextlib.suppress(addresses.ChangedError):
                return _bring(place, file)
        return _bring(place, file)

    with ThreadPoolExecutor(_THREADS) as pool:
        for job in [pool.submit(copy, name) for name in names]:
            job.result()


def _bring(address, file):
    with streams.open_bytes(address, unpack=False) as stream, open(file, 'wb') as here:
        while chunk := stream.read(_CHUNK):
            here.write(chunk)


def remove(address, names):
    """Deletes files of those names below an address, in this order."""
    system, _ = addresses.filesystem(address)

    def delete(name):
        try:
            system.rm_file(name)
        except FileNotFoundError:
            return

    for name in names:
        place = addresses.filesystem(posixpath.join(address, name))[1]
        addresses.patiently(address, lambda place=place: delete(place))
