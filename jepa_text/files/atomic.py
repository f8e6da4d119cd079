"""A file or a folder appears whole or not at all, and stays when the power goes.

It is written under another name beside the wanted one, flushed to the disk, and renamed.
"""

import contextlib
import errno
import os
import shutil
import uuid
from pathlib import Path


def write(path, content):
    """Writes a file of text or bytes so that a reader sees the old one or the new one,
    never half; of several writers at once, one. When the disk is full, OSError is raised
    and the old one stays."""
    path = Path(path)
    partial = path.with_name(f'{path.name}.{uuid.uuid4().hex[:8]}.tmp')
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        flush(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    flush(path.parent)


def is_partial(name, wanted):
    """Is it what a killed `write` of the file `wanted` leaves?"""
    return name.startswith(f'{wanted}.') and name.endswith('.tmp')


@contextlib.contextmanager
def folder(path):
    """An empty folder to fill, which takes the name `path` unless something is raised.

    Until then it is `.<name>.partial-*` beside it: what a killed writer leaves, which may
    be deleted. Raises OSError if the name is taken by then, but by an empty folder.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.parent / f'.{path.name}.partial-{uuid.uuid4().hex[:8]}'
    partial.mkdir()
    try:
        yield partial
        for parent, _, names in os.walk(partial, topdown=False):
            for name in (*names, ''):
                flush(Path(parent, name))
        os.rename(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    flush(path.parent)


def flush(path):
    """Brings a file, or the list of files of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network filesystems cannot flush a folder; there is nothing more to do.
        cannot = error.errno in (errno.EINVAL, errno.ENOTSUP)
        if not (cannot and os.path.isdir(path)):
            raise
    finally:
        os.close(descriptor)
