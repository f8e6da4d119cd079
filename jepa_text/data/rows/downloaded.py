"""Local copies of remote folders of prepared rows, as ArrayRecord reads only files."""

import os
import pathlib

from jepa_text.data.rows import row_folder
from jepa_text.files import addresses, copies, paths


def fetch(folder, shards=True):
    """Returns the local path of a folder of rows. One at an address is copied first: the
    manifest, the tokenizer and, with `shards`, all rows, compared with their checksums.

    Raises FileNotFoundError if there is no manifest, ValueError if it or a file is
    damaged, and what `copies.copy_files` raises.
    """
    if not addresses.is_address(folder):
        return pathlib.Path(paths.local('data.folder', folder))
    folder = os.fspath(folder).rstrip('/')
    name = row_folder.MANIFEST
    try:
        listed = {name: addresses.stat(f'{folder}/{name}')}
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f'There are no prepared rows in {folder}: it has no {name} ({error})'
        ) from error
    try:
        manifest = row_folder.read_manifest(copies.copy_files(folder, listed))
    except ValueError as error:
        raise ValueError(f'{folder}: {error}') from error
    entries = row_folder.files(manifest, None if shards else ())
    listed |= {
        name: addresses.File(f'{folder}/{name}', entry['bytes'])
        for name, entry in entries
    }
    sums = {name: entry['sha256'] for name, entry in entries}
    return copies.copy_files(folder, listed, sums)


def exists(folder, name=row_folder.MANIFEST):
    """Whether a local or remote folder of rows has a file with this name."""
    if not addresses.is_address(folder):
        return pathlib.Path(paths.local('data.folder', folder), name).is_file()
    try:
        path = f'{os.fspath(folder).rstrip("/")}/{name}'
        return addresses.stat(path) is not None
    except FileNotFoundError:
        return False


def is_missing(folder):
    """Whether a folder or address of rows does not exist."""
    if addresses.is_address(folder):
        return not exists(folder)
    return not pathlib.Path(paths.local('data.folder', folder)).exists()
