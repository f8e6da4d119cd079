"""A folder of this machine -> the same at an address, whole or without its last file."""

import os
import posixpath
from pathlib import Path

from jepa_text.files import addresses


def check_free(address):
    """Raises FileExistsError where anything lies at an address or below it."""
    system, path = addresses.filesystem(address)

    def ask():
        system.invalidate_cache()
        return system.find(path, maxdepth=2)

    if addresses.patiently(address, ask):
        raise FileExistsError(
            f'{address} is there already and is not overwritten: name another place, or '
            'delete it first.'
        )


def folder(path, address, last):
    """Copies all files of a folder to an address, the one of the name `last` at the end:
    where it is, all is.

    Raises AddressError for a file that has another size there, and as
    addresses.patiently does.
    """
    top = Path(path)
    files = [Path(at, name) for at, _, names in os.walk(top) for name in names]
    for file in sorted(files, key=lambda file: (file == top / last, file)):
        one(file, posixpath.join(address, file.relative_to(top).as_posix()))


def one(file, address):
    """Copies a file; an object store shows it whole or not at all."""
    system, name = addresses.filesystem(address)
    addresses.patiently(address, lambda: system.put_file(os.fspath(file), name))
    there, size = addresses.stated(address), os.path.getsize(file)
    if there is None or there.size != size:
        raise addresses.AddressError(
            f'{address} has {there and there.size} bytes after {size} were written. '
            'Write it again; if it happens again, tell who runs that store.'
        )
