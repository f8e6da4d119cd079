"""Locks by which workers on the same machine detect each other's death immediately.

A worker holds a lock on a file .<name>.worker in the folder of claims as long as it
lives; without it, others would have to wait for its lease to expire. The entries of a
worker contain the name and the boot id of its machine: locks of other machines are not
examined.
"""

import os
import uuid
from pathlib import Path

from jepa_text.files import locks

_BOOT = Path('/proc/sys/kernel/random/boot_id')


class WorkerLock:
    """The lock of this process in a folder of claims; its entries contain `fields`.

    At an address, on a file system without locks and on a machine without a boot id there
    is no lock and no field, and other workers rely on the heartbeat alone.
    """

    def __init__(self, folder):
        self.fields, self._path = {}, None
        if not _is_supported(folder):
            return
        path = folder / f'.{uuid.uuid4().hex}.worker'
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if locks.take(self._descriptor, wait=False):
            self._path = path
            self.fields = {'worker': path.name, 'boot': _boot_id()}
        else:
            os.close(self._descriptor)
            path.unlink()

    def leave(self):
        """Releases the lock; this worker must not hold claims."""
        if self._path:
            os.close(self._descriptor)
            self._path.unlink(missing_ok=True)


def is_gone(folder, entry):
    """Whether the worker that created an entry is known to be dead."""
    if not _is_supported(folder) or entry.get('boot') != _boot_id():
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


def _is_supported(folder):
    return not isinstance(folder, str) and _BOOT.is_file()


def _boot_id():
    return _BOOT.read_text().strip()
