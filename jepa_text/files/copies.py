"""Cached local copies of files at an address, kept up to date with the remote content.

A copy is identified by the versions that the store reports (ETag, generation): changed
files are downloaded again, unchanged files are not.
"""

import fnmatch
import posixpath
from pathlib import Path

from jepa_text.files import addresses, cache, checksums, transfer


def list_files(address):
    """Returns transfer.list_files(address). Raises FileNotFoundError if it is empty."""
    files = transfer.list_files(address)
    if not files:
        raise FileNotFoundError(
            f'There are no files at {address}. Check the address, and whether the files '
            'were written.'
        )
    return files


def copy_folder(address, wanted=('*',), unwanted=()):
    """Copies the files of an address whose names match, and returns the local folder.

    `wanted` and `unwanted` are shell patterns. Raises FileNotFoundError if no file
    matches, and as addresses.with_retries does.
    """
    address = address.rstrip('/')
    files = list_files(address)

    def matches(name, patterns):
        return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)

    chosen = {
        name: file
        for name, file in files.items()
        if matches(name, wanted) and not matches(name, unwanted)
    }
    if not chosen:
        raise FileNotFoundError(
            f'{address} has no file that matches {", ".join(wanted)}, but {len(files):,} '
            f'others, such as {min(files)}.'
        )
    return copy_files(address, chosen)


def copy_files(address, files):
    """Copies the files {name: addresses.File} of a listing; returns the local folder."""
    # Names with a leading dot are reserved by the cache, and are not part of a model.
    entries = {
        name: {'bytes': file.size}
        for name, file in files.items()
        if not name.startswith('.') and '/.' not in name
    }
    versions = [[name, files[name].size, files[name].version] for name in entries]
    return copy_by_key(address, [address, versions], entries)


def copy_by_key(address, key, entries):
    """Copies files with cache.download under a name that is a hash of a JSON key.

    Returns the local folder, whose name is the last part of the address.
    """
    name = f'copy-{checksums.checksum(key)[:32]}'
    return cache.download(address, name, entries, below=posixpath.basename(address))


def local_file(what, place, name):
    """Returns the local path of a file, copying it first if it is at an address.

    `place` is the file itself, or a folder that contains a file `name`. `what` names it
    in errors. Raises as addresses.location and addresses.stat do.
    """
    text = addresses.location(what, place)
    if not addresses.is_address(text):
        path = Path(text)
        return path / name if path.is_dir() else path
    address = text.rstrip('/')
    file = addresses.stat(address)
    if file is None:
        return copy_folder(address, (name,)) / name
    parent, _, basename = address.rpartition('/')
    return copy_files(parent, {basename: file}) / basename
