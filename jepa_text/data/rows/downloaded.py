"""Local copies of remote folders of prepared rows, as ArrayRecord reads only files."""

import hashlib
import os
import pathlib
import tempfile

from jepa_text.data.rows import row_folder
from jepa_text.files import addresses, copies, paths, streams


def fetch(folder, shards=True):
    """Returns the local path of a folder of rows. One at an address is copied first: the
    manifest, the tokenizer and, with `shards`, all rows.

    Raises FileNotFoundError if there is no manifest, ValueError if it or a file is
    damaged, and what `copies.copy_files` raises.
    """
    if not addresses.is_address(folder):
        return pathlib.Path(paths.local('data.folder', folder))
    folder = os.fspath(folder).rstrip('/')
    try:
        with streams.open_bytes(_within(folder, row_folder.MANIFEST)) as stream:
            content = stream.read()
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f'There are no prepared rows in {folder}: it has no {row_folder.MANIFEST} '
            f'({error})'
        ) from error
    with tempfile.TemporaryDirectory() as temporary:
        pathlib.Path(temporary, row_folder.MANIFEST).write_bytes(content)
        try:
            manifest = row_folder.read_manifest(temporary)
        except ValueError as error:
            raise ValueError(f'{folder}: {error}') from error
    digest = hashlib.sha256(content).hexdigest()
    entries = {row_folder.MANIFEST: {'bytes': len(content), 'sha256': digest}}
    entries |= row_folder.files(manifest, None if shards else ())
    files = {
        name: addresses.File(_within(folder, name), entry['bytes'])
        for name, entry in entries.items()
    }
    sums = {name: entry['sha256'] for name, entry in entries.items()}
    return copies.copy_files(folder, files, sums)


def check(address):
    """Returns the manifest of a folder of rows at an address, after reading all its files
    there, whether copied or not, and comparing them with it. Raises ValueError, naming
    the file, if one differs, and what `fetch` raises."""
    address = os.fspath(address)
    manifest = row_folder.read_manifest(fetch(address, shards=False))
    for name, entry in row_folder.files(manifest):
        with streams.open_bytes(_within(address, name)) as stream:
            digest = hashlib.file_digest(stream, 'sha256').hexdigest()
        row_folder.check_sum(_within(address, name), digest, entry)
    return manifest


def exists(folder, name=row_folder.MANIFEST):
    """Whether a local or remote folder of rows has a file with this name."""
    if not addresses.is_address(folder):
        return pathlib.Path(paths.local('data.folder', folder), name).is_file()
    try:
        return addresses.stat(_within(folder, name)) is not None
    except FileNotFoundError:
        return False


def is_missing(folder):
    """Whether a folder or address of rows does not exist."""
    if addresses.is_address(folder):
        return not exists(folder)
    return not pathlib.Path(paths.local('data.folder', folder)).exists()


def _within(folder, name):
    return f'{os.fspath(folder).rstrip("/")}/{name}'
