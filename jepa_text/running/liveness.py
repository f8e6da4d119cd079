"""A worker holds a lock as long as it lives: others of the same machine see at once that
it is gone, where they had to wait for a lease.

The lock is on a file .<name>.worker in the folder of claims, whose entries have the name,
and which boot of a machine it is of: locks of others say nothing.
"""

import os
import types
import uuid
from pathlib import Path

from jepa_text.files import locks

_BOOT = Path('/proc/sys/kernel/random/boot_id')


class Nobody:
    """A worker of whom others see its heartbeat alone. Entries tell of it what is
    `said`."""

    said = types.MappingProxyType({})

    def leave(self):
        """The worker is gone, and holds no claim."""


class Present(Nobody):
    """A worker that holds a lock."""

    def __init__(self, path, descriptor, boot):
        self._path, self._descriptor = path, descriptor
        self.said = {'worker': path.name, 'boot': boot}

    def leave(self):
        os.close(self._descriptor)
        self._path.unlink(missing_ok=True)


def of(folder):
    """The Present of this process in a folder of claims; Nobody at an address, or where
    there are no locks, or no name of a boot."""
    if isinstance(folder, str) or not _BOOT.is_file():
        return Nobody()
    path = folder / f'.{uuid.uuid4().hex}.worker'
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    if locks.take(descriptor, wait=False):
        return Present(path, descriptor, _BOOT.read_text().strip())
    os.close(descriptor)
    path.unlink()
    return Nobody()


def is_gone(folder, entry):
    """Is the maker of an entry known to be gone?"""
    if isinstance(folder, str) or not _BOOT.is_file():
        return False
    if entry.get('boot') != _BOOT.read_text().strip():
        return False
    path = folder / entry['worker']
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        free = locks.take(descriptor, wait=False)
    except BlockingIOError:
        free = False
    finally:
        os.close(descriptor)
    if free:
        path.unlink(missing_ok=True)
    return free
