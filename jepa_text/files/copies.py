"""A folder or a file at an address -> a copy on this machine, by what the store says of
its content (ETag, generation): what has changed is copied again, and nothing twice.
"""

import fnmatch
import posixpath
from pathlib import Path

from jepa_text.files import addresses, cache, checksums, paths, transfer


def listed(address):
    """As transfer.listed; FileNotFoundError where nothing is."""
    there = transfer.listed(address)
    if not there:
        raise FileNotFoundError(
            f'There is nothing at {address}. Look at its name, and whether what is to be '
            'there was written.'
        )
    return there


def folder(address, wanted=('*',), unwanted=()):
    """The folder of a copy of the files at an address whose names fit a pattern.

    Raises FileNotFoundError where none is, and as addresses.patiently does.
    """
    address = address.rstrip('/')
    there = listed(address)

    def fits(name, patterns):
        return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)

    chosen = {
        name: file
        for name, file in there.items()
        if fits(name, wanted) and not fits(name, unwanted)
    }
    if not chosen:
        raise FileNotFoundError(
            f'{address} has no file such as {", ".join(wanted)}, but {len(there):,} '
            f'others, as {min(there)}.'
        )
    return of(address, chosen)


def of(address, there):
    """The folder of a copy of files of a listing."""
    # What begins with a dot is a cache's own here, and no part of a model.
    entries = {
        name: {'bytes': file.size}
        for name, file in there.items()
        if not name.startswith('.') and '/.' not in name
    }
    known = [address, [[name, there[name].size, there[name].version] for name in entries]]
    return keyed(address, known, entries)


def keyed(address, known, entries):
    """The folder of a copy, as cache.copied makes it, of what `known`, JSON, tells apart
    from all else; its name is the last of the address."""
    key = f'copy-{checksums.checksum(known)[:32]}'
    return cache.copied(address, key, entries, below=posixpath.basename(address))


def file(what, place, name):
    """The path of a file in a place, which is that file or a folder with one of that
    name: itself, or of the copy of one at an address.

    `what` names the place in errors. Raises as addresses.place and addresses.stated do.
    """
    text = addresses.place(what, place)
    if not addresses.is_address(text):
        path = Path(paths.local(what, text))
        return path / name if path.is_dir() else path
    address = text.rstrip('/')
    found = addresses.stated(address)
    if found is None:
        return folder(address, (name,)) / name
    top, _, last = address.rpartition('/')
    return of(top, {last: found}) / last
