"""A seal says that a folder is whole: the size and sha256 of every file, on the disk.

The checkpoint library restores a file with a flipped byte without an error and does not
flush all that it writes, so a checkpoint counts only once it is sealed, and is believed
only while its seal still fits.
"""

import errno
import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

NAME = 'SEAL.json'


def seal(folder):
    """Flushes every file of a folder to the disk, then writes SEAL.json into it.

    The seal appears in one step and last, so a folder that has one was whole when the
    power went. Raises OSError when a file can't be read or the disk is full.
    """
    folder = Path(folder)
    files = _files(folder)
    with ThreadPoolExecutor(_threads()) as pool:
        entries = dict(
            zip(files, pool.map(_flush_and_describe, files.values()), strict=True)
        )
    for parent, _, _ in os.walk(folder, topdown=False):
        _flush_folder(parent)
    replace_file(folder / NAME, json.dumps({'files': entries}, indent=1, sort_keys=True))
    _flush_folder(folder.parent)


def verify(folder):
    """None when the folder is as it was sealed, otherwise the reason in words."""
    folder = Path(folder)
    if not (folder / NAME).exists():
        return f'it has no {NAME}, so its save was cut off or is still under way'
    try:
        entries = json.loads((folder / NAME).read_text(encoding='utf-8'))['files']
        sizes = {name: entry['bytes'] for name, entry in entries.items()}
        hashes = {name: entry['sha256'] for name, entry in entries.items()}
        return _first_difference(folder, sizes, hashes)
    except OSError as error:
        return f'it cannot be read ({error})'
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return f'its {NAME} is damaged ({type(error).__name__}: {error})'


def stamp(folder):
    """Name, size, change time and inode of every file, to notice a change cheaply."""
    folder = Path(folder)
    status = [(str(path), path.stat()) for path in folder.rglob('*') if path.is_file()]
    return tuple(sorted((name, s.st_size, s.st_mtime_ns, s.st_ino) for name, s in status))


def replace_file(path, text):
    """Writes a text file so that a reader sees the old one or the new one, never half."""
    path = Path(path)
    temporary = path.with_name(path.name + '.tmp')
    with open(temporary, 'w', encoding='utf-8') as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    _flush_folder(path.parent)


def _files(folder):
    """Relative name -> path of every file under the folder but the seal itself."""
    own = {NAME, NAME + '.tmp'}
    paths = (path for path in folder.rglob('*') if path.is_file())
    named = {path.relative_to(folder).as_posix(): path for path in paths}
    return {name: path for name, path in sorted(named.items()) if name not in own}


def _first_difference(folder, sizes, hashes):
    files = _files(folder)
    # Names and sizes first: they are free, and hashing a large state is not.
    for name in sorted(sizes.keys() | files.keys()):
        if name not in files:
            return f'{name} is missing'
        if name not in sizes:
            return f'{name} was not there when it was sealed'
        found = files[name].stat().st_size
        if found != sizes[name]:
            return f'{name} has {found} bytes instead of {sizes[name]}'
    with ThreadPoolExecutor(_threads()) as pool:
        for name, found in zip(files, pool.map(_hash, files.values()), strict=True):
            if found != hashes[name]:
                return f'the contents of {name} are not those that were sealed'
    return None


def _flush_and_describe(path):
    with open(path, 'rb') as file:
        digest = hashlib.file_digest(file, 'sha256').hexdigest()
        os.fsync(file.fileno())
    return {'bytes': path.stat().st_size, 'sha256': digest}


def _hash(path):
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


def _flush_folder(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network filesystems cannot flush a folder; there is nothing more to do.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _threads():
    return min(8, os.cpu_count() or 1)
