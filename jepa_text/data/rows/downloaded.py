"""A folder of prepared rows at an address -> a copy on this machine, as ArrayRecord reads
files alone."""

import hashlib
import os
import pathlib

from jepa_text.data.rows import row_folder
from jepa_text.files import addresses, cache, paths, streams


def here(folder, shards=True):
    """The path of a folder of rows: itself, or the copy of one at an address, made if it
    is not there: manifest, tokenizer and, with `shards`, all rows.

    Raises FileNotFoundError where there is no manifest, ValueError for a damaged one, and
    as `cache.copied` does.
    """
    if not addresses.is_address(folder):
        return pathlib.Path(paths.local('data.folder', folder))
    folder = os.fspath(folder)
    try:
        with streams.open_bytes(_within(folder, row_folder.MANIFEST)) as stream:
            content = stream.read()
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f'There are no prepared rows in {folder}: it has no {row_folder.MANIFEST} '
            f'({error})'
        ) from error
    name = f'rows-{hashlib.sha256(content).hexdigest()[:32]}'
    try:
        manifest = row_folder.read_manifest(cache.put(name, row_folder.MANIFEST, content))
    except ValueError as error:
        raise ValueError(f'{folder}: {error}') from error
    entries = dict(row_folder.files(manifest, None if shards else ()))
    return cache.copied(folder, name, entries)


def check(address):
    """The manifest of a folder of rows at an address, whose files are all read there and
    compared with it; whatever copies there are. Raises ValueError, naming the file, when
    one differs, and as `here` does."""
    address = os.fspath(address)
    manifest = row_folder.read_manifest(here(address, shards=False))
    for name, entry in row_folder.files(manifest):
        with streams.open_bytes(_within(address, name)) as stream:
            found = hashlib.file_digest(stream, 'sha256').hexdigest()
        row_folder.check_sum(_within(address, name), found, entry)
    return manifest


def is_there(folder, name=row_folder.MANIFEST):
    """Has a folder of rows, here or at an address, that file?"""
    if not addresses.is_address(folder):
        return pathlib.Path(paths.local('data.folder', folder), name).is_file()
    try:
        return addresses.stated(_within(folder, name)) is not None
    except FileNotFoundError:
        return False


def _within(folder, name):
    return f'{os.fspath(folder).rstrip("/")}/{name}'
