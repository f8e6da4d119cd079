"""Manifests of checksums: the size and sha256 of every file of a folder.

A manifest is the proof that a folder is complete. Orbax restores a file with a flipped
bit without an error, and does not flush everything that it writes to disk. A checkpoint
is therefore valid only if it has a manifest, and only while its files match it.
"""

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jepa_text.files import atomic

NAME = 'CHECKSUMS.json'


def write(folder, known=()):
    """Flushes every file of a folder to disk, then writes CHECKSUMS.json into it.

    `known` is {name: entry} of files that need not be read. The manifest is written last
    and atomically, so a folder that has one was complete, even after a power failure.
    Raises OSError if a file can't be read or the disk is full.
    """
    folder = Path(folder)
    files = _files(folder)
    new = {name: path for name, path in files.items() if name not in known}
    with ThreadPoolExecutor(_threads()) as pool:
        computed = dict(zip(new, pool.map(file_entry, new.values()), strict=True))
    entries = {name: computed[name] if name in new else known[name] for name in files}
    for parent, _, _ in os.walk(folder, topdown=False):
        atomic.flush(parent)
    atomic.write(folder / NAME, json.dumps({'files': entries}, indent=1, sort_keys=True))
    atomic.flush(folder.parent)


def verify(folder):
    """Returns None if a folder matches its manifest, else the reason as text.

    Files that are not in the manifest are ignored: file managers and backup tools create
    some. Raises OSError if a file exists but can't be read, which is not damage either.
    """
    folder = Path(folder)
    if not (folder / NAME).exists():
        return f'it has no {NAME}: it is incomplete or is still being written'
    try:
        entries = json.loads((folder / NAME).read_text(encoding='utf-8'))['files']
        sizes = {name: entry['bytes'] for name, entry in entries.items()}
        hashes = {name: entry['sha256'] for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return f'its {NAME} is damaged ({type(error).__name__}: {error})'
    return _first_difference(folder, sizes, hashes)


def entries(folder):
    """Returns {name: {'bytes', 'sha256'}} of a folder's manifest."""
    return read_json(Path(folder) / NAME)['files']


def stamp(folder):
    """Returns name, size, mtime and inode of every file, as a cheap test for changes."""
    folder = Path(folder)
    status = [(str(path), path.stat()) for path in _paths(folder)]
    return tuple(sorted((name, s.st_size, s.st_mtime_ns, s.st_ino) for name, s in status))


def read_json(path):
    """Returns the content of a JSON file. Raises ValueError if it is damaged."""
    try:
        return json.loads(Path(path).read_text(encoding='utf-8'))
    except ValueError as error:
        raise ValueError(
            f'{path} is damaged: it is not valid JSON in UTF-8 ({error}). Restore it '
            'from a backup, or recreate what it belongs to.'
        ) from error


def checksum(value):
    """Returns the sha256 of a JSON value, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def sha256(path):
    """Returns the sha256 of a file in hexadecimal."""
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


def file_entry(path):
    """Flushes a file to disk and returns its manifest entry, {'bytes', 'sha256'}."""
    atomic.flush(path)
    return {'bytes': path.stat().st_size, 'sha256': sha256(path)}


def free_name(path):
    """Returns the path, or the first of path-2, path-3, ... that does not exist."""
    free, number = path, 2
    while free.exists():
        free = path.with_name(f'{path.name}-{number}')
        number += 1
    return free


def _files(folder):
    """Returns {relative name: path} of every file below a folder except the manifest."""
    named = {path.relative_to(folder).as_posix(): path for path in _paths(folder)}
    return {
        name: path
        for name, path in sorted(named.items())
        if name != NAME and not atomic.is_partial(name, NAME)
    }


def _paths(folder):
    """Yields every file below a folder. Unlike rglob, raises if access is denied."""
    for parent, _, names in os.walk(folder, onerror=_raise):
        yield from (Path(parent, name) for name in names)


def _raise(error):
    raise error


def _first_difference(folder, sizes, hashes):
    files = {name: folder / name for name in sorted(sizes)}
    # Names and sizes first: comparing them is free, hashing a large state is not.
    for name, path in files.items():
        if not path.exists():
            return f'{name} is missing'
        size = path.stat().st_size
        if size != sizes[name]:
            return f'{name} has {size} bytes instead of {sizes[name]}'
    with ThreadPoolExecutor(_threads()) as pool:
        for name, digest in zip(files, pool.map(sha256, files.values()), strict=True):
            if digest != hashes[name]:
                return f'the content of {name} does not match its checksum'
    return None


def _threads():
    return min(8, os.cpu_count() or 1)
