"""Upload and listing of files at an address.

An object store writes each file atomically; it can neither rename nor append.
"""

import os
import posixpath
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from jepa_text.files import addresses

_THREADS = 4  # concurrent transfers


def list_files(address):
    """Returns {path below the address: addresses.File}; {} if nothing exists there.

    Raises ValueError for a name that leads out of the address.
    """
    system, path = addresses.filesystem(address)
    top = path.rstrip('/')

    def request():
        system.invalidate_cache()
        return system.find(top, detail=True)

    infos = addresses.with_retries(address, request)
    infos = {name.removeprefix(f'{top}/'): info for name, info in infos.items()}
    for name in infos:
        if {'..', ''} & {*PurePosixPath(name).parts} or name.startswith('/'):
            raise ValueError(
                f'{address} contains {name!r}, which is not a valid file name in it.'
            )
    return {
        name: addresses.file_of(posixpath.join(address, name), info)
        for name, info in infos.items()
        if info['type'] == 'file'
    }


def check_free(address):
    """Raises FileExistsError if a file exists at an address or below it."""
    if list_files(address):
        raise FileExistsError(
            f'{address} already exists and is not overwritten: give another address, or '
            'delete it first.'
        )


def upload_folder(path, address, last, before_last=lambda: None):
    """Uploads all files of a folder, the one named `last` at the end.

    If that file exists at the address, the upload is complete. Calls `before_last` before
    it is uploaded. Raises AddressError if a file has another size after its upload, and
    as addresses.with_retries does.
    """
    top = Path(path)
    files = [Path(parent, name) for parent, _, names in os.walk(top) for name in names]
    first = [file for file in files if file != top / last]

    def upload(file):
        upload_file(file, posixpath.join(address, file.relative_to(top).as_posix()))

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(upload, sorted(first)))  # raises the first error
    before_last()
    upload(top / last)


def upload_file(file, address):
    """Uploads a file to an address, overwriting what exists there."""
    system, name = _writable(address)
    addresses.with_retries(address, lambda: system.put_file(os.fspath(file), name))
    uploaded, size = addresses.stat(address), os.path.getsize(file)
    if uploaded is None or uploaded.size != size:
        raise addresses.AddressError(
            f'{address} has {uploaded and uploaded.size} bytes after {size} were '
            'written. Write it again. If the error persists, contact the '
            'operator of the store.'
        )


def write(address, content):
    """Writes bytes to an address, overwriting what exists there."""
    system, name = _writable(address)
    addresses.with_retries(address, lambda: system.pipe_file(name, content))


def create(address, content):
    """Writes bytes to an address atomically if nothing exists there yet.

    Returns whether this call created the file. It may return False although it did, if
    the response of the server was lost.
    """
    system, name = _writable(address)

    def request():
        try:
            system.pipe_file(name, content, mode='create')
        except FileExistsError:
            return False
        return True

    return addresses.with_retries(address, request)


def _writable(address):
    """Returns (file system, path in it) of an address, ready for writing a file."""
    system, name = addresses.filesystem(address)
    if 'file' in system.protocol:  # the only one with folders that must be created first
        system.makedirs(posixpath.dirname(name), exist_ok=True)
    return system, name


def read(address):
    """Returns the content of a small file at an address, read in a single request."""
    system, name = addresses.filesystem(address)

    def request():
        system.invalidate_cache()  # s3fs takes the size from an earlier listing
        return system.cat_file(name)

    return addresses.with_retries(address, request)
