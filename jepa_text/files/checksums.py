"""A manifest of checksums says that a folder is whole: the size and sha256 of every file,
on the disk.

The checkpoint library restores a file with a flipped byte without an error and does not
flush all that it writes, so a checkpoint counts only once it has its checksums, and is
believed only while its checksums still fit.
"""

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jepa_text.files import atomic

NAME = 'CHECKSUMS.json'


def write(folder, known=()):
    """Flushes every file of a folder to the disk, then writes CHECKSUMS.json into it.

    `known`: {name: entry} of files that need not be read for it. The manifest appears in
    one step and last, so a folder that has one was whole when the power went. Raises
    OSError when a file can't be read or the disk is full.
    """
    folder = Path(folder)
    files = _files(folder)
    new = {name: path for name, path in files.items() if name not in known}
    with ThreadPoolExecutor(_threads()) as pool:
        found = dict(zip(new, pool.map(described, new.values()), strict=True))
    listed = {name: found[name] if name in found else known[name] for name in files}
    for parent, _, _ in os.walk(folder, topdown=False):
        atomic.flush(parent)
    atomic.write(folder / NAME, json.dumps({'files': listed}, indent=1, sort_keys=True))
    atomic.flush(folder.parent)


def verify(folder):
    """None when what was recorded in the folder is as it was, else the reason in words.

    Files that others put there (a file manager, a tool of backups) are no damage. Raises
    OSError, which is no damage either, for what is there and cannot be read.
    """
    folder = Path(folder)
    if not (folder / NAME).exists():
        return f'it has no {NAME}, so its save was cut off or is still under way'
    try:
        entries = json.loads((folder / NAME).read_text(encoding='utf-8'))['files']
        sizes = {name: entry['bytes'] for name, entry in entries.items()}
        hashes = {name: entry['sha256'] for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return f'its {NAME} is damaged ({type(error).__name__}: {error})'
    return _first_difference(folder, sizes, hashes)


def entries(folder):
    """{name: {'bytes', 'sha256'}} of the manifest of a folder."""
    return read_json(Path(folder) / NAME)['files']


def stamp(folder):
    """Name, size, change time and inode of every file, to notice a change cheaply."""
    folder = Path(folder)
    status = [(str(path), path.stat()) for path in _paths(folder)]
    return tuple(sorted((name, s.st_size, s.st_mtime_ns, s.st_ino) for name, s in status))


def read_json(path):
    """What a JSON file holds. Raises ValueError with its name when it is damaged."""
    try:
        return json.loads(Path(path).read_text(encoding='utf-8'))
    except ValueError as error:
        raise ValueError(
            f'{path} is damaged: it is not JSON in UTF-8 ({error}). Bring it back from a '
            'copy, or make anew what it belongs to.'
        ) from error


def checksum(value):
    """The sha256 of a value that JSON can hold, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def sha256(path):
    """The sha256 of a file, in hex."""
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


def described(path):
    """{'bytes', 'sha256'} of a file, which is on the disk then."""
    atomic.flush(path)
    return {'bytes': path.stat().st_size, 'sha256': sha256(path)}


def free_name(path):
    """The path, or with -2, -3, ... the first of that name that is not taken."""
    free, number = path, 2
    while free.exists():
        free = path.with_name(f'{path.name}-{number}')
        number += 1
    return free


def _files(folder):
    """Relative name -> path of every file under the folder but the manifest itself."""
    named = {path.relative_to(folder).as_posix(): path for path in _paths(folder)}
    return {
        name: path
        for name, path in sorted(named.items())
        if name != NAME and not atomic.is_partial(name, NAME)
    }


def _paths(folder):
    """Every file under a folder. Unlike rglob, it raises where it may not look."""
    for parent, _, names in os.walk(folder, onerror=_raise):
        yield from (Path(parent, name) for name in names)


def _raise(error):
    raise error


def _first_difference(folder, sizes, hashes):
    files = {name: folder / name for name in sorted(sizes)}
    # Names and sizes first: they are free, and hashing a large state is not.
    for name in files:
        if not files[name].exists():
            return f'{name} is missing'
        found = files[name].stat().st_size
        if found != sizes[name]:
            return f'{name} has {found} bytes instead of {sizes[name]}'
    with ThreadPoolExecutor(_threads()) as pool:
        for name, found in zip(files, pool.map(sha256, files.values()), strict=True):
            if found != hashes[name]:
                return f'the contents of {name} are not those that were recorded'
    return None


def _threads():
    return min(8, os.cpu_count() or 1)
