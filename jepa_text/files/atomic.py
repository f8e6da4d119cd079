"""Atomic writes of files and folders that survive a power failure.

Content is written under a temporary name in the same folder, flushed to disk and renamed.
"""

import contextlib
import errno
import os
import shutil
import uuid
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)  # codes of a full disk or quota


@contextlib.contextmanager
def file(path):
    """Yields the path of a file to write, and renames it to `path` unless an error is
    raised.

    Readers see the old or the new file, never a part of it; of several concurrent
    writers, one wins. Raises OSError, and leaves the old file, if the disk is full.
    """
    path = Path(path)
    partial = path.with_name(f'{path.name}.{uuid.uuid4().hex[:8]}.tmp')
    try:
        yield partial
        flush(partial)
        os.replace(partial, path)
    except OSError as error:
        if error.errno and not error.filename:  # a full disk names no file
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)
    flush(path.parent)


def write(path, content):
    """Writes text or bytes to a `file`."""
    with file(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def folder(path, replaces=False):
    """Yields an empty folder to fill, and renames it to `path` unless an error is raised.

    Until then its name is `.<name>.partial-*`. A killed writer leaves it behind; it may
    be deleted. Raises OSError if `path` exists by then and is not an empty folder, unless
    the new folder `replaces` it: the old one is `.<name>.partial-*-replaced` meanwhile.
    """
    path = Path(path).resolve()  # of a link, the folder is replaced
    check_writable(path.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.parent / f'.{path.name}.partial-{uuid.uuid4().hex[:8]}'
    partial.mkdir()
    try:
        yield partial
        flush_tree(partial)
        old = partial.with_name(f'{partial.name}-replaced')
        if replaces and path.exists():
            os.rename(path, old)
        os.rename(partial, path)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    flush(path.parent)


def check_writable(folder):
    """Raises PermissionError if a folder, or the one to make it in, cannot be written
    to."""
    place = next(one for one in (folder, *folder.parents) if os.path.exists(one))
    if not os.access(place, os.W_OK):
        raise PermissionError(
            f'The folder {place} cannot be written to: make it writable, or give another.'
        )


def flush_tree(folder):
    """Flushes every file and folder below `folder`, and itself, to disk."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in (*names, ''):
            flush(Path(parent, name))


def flush(path):
    """Flushes the content of a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems do not support flushing a folder.
        is_unsupported = error.errno in (errno.EINVAL, errno.ENOTSUP)
        if not (is_unsupported and os.path.isdir(path)):
            raise
    finally:
        os.close(descriptor)
