"""Checksums of files and of JSON values, and JSON files that may be damaged."""

import hashlib
import json
from pathlib import Path

from jepa_text.files import atomic


def stamp(folder):
    """Returns name, size, mtime and inode of every file, as a cheap test for changes."""
    paths = (path for path in sorted(Path(folder).rglob('*')) if path.is_file())
    status = [(str(path), path.stat()) for path in paths]
    return tuple((name, s.st_size, s.st_mtime_ns, s.st_ino) for name, s in status)


def read_json(path, kind=object):
    """Returns the content of a JSON file. Raises ValueError if it is damaged, or has no
    `kind` such as dict."""
    try:
        content = json.loads(Path(path).read_text(encoding='utf-8'))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f'{path} is damaged: it is not valid JSON in UTF-8 ({error}). Restore it '
            'from a backup, or recreate what it belongs to.'
        ) from error
    if not isinstance(content, kind):
        wanted = 'list' if kind is list else 'object'
        raise ValueError(
            f'{path} contains no JSON {wanted}, but a {type(content).__name__}: restore '
            'it from a backup, or download it again.'
        )
    return content


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
