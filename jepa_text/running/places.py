"""Workdirs and models at addresses: the folder on this machine that stands for them.

    gs://bucket/run/checkpoints    read and written by Orbax; in the folder, a file of
                                   this name has the address (restore.folder_of)
    gs://bucket/run/...            copied to the folder at the start, and sent before
                                   each save and at the end

Object stores cannot append, as metrics do; the folder can. The address counts: another
machine can resume the run. Only one process may work at an address at a time.
"""

import contextlib
import os
import re
import tempfile
from pathlib import Path

from etils import epath

from jepa_text.files import addresses, atomic, copies
from jepa_text.running import restore, workdir

_NOT_SENT = (restore.STEPS, workdir.LOCK)
_WRITABLE = 'gs://'


class Place:
    """A workdir on this machine, the `folder`; for one at an address, a copy of its files
    beside the checkpoints."""

    def __init__(self, folder, address='', is_run=False):
        self.folder, self.name = Path(folder), address or str(folder)
        self._address, self._sent = address and epath.Path(address), {}
        if address and is_run:
            (folder / restore.STEPS).write_text(f'{address}/{restore.STEPS}')
        # Denied access is an error with its remedy here, unlike in epath.
        for name in addresses.list_files(address) if address else ():
            if '/' not in name:
                (folder / name).write_bytes((self._address / name).read_bytes())
                self._sent[folder / name] = (folder / name).stat().st_mtime_ns

    def send(self):
        """Sends the files that have changed since the last time, if at an address."""
        for path in sorted(self.folder.rglob('*')) if self._address else ():
            if not path.is_file() or path.name in _NOT_SENT or path.name.endswith('.tmp'):
                continue
            stamp = path.stat().st_mtime_ns
            if self._sent.get(path) != stamp:
                target = self._address / path.relative_to(self.folder).as_posix()
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(path.read_bytes())
                self._sent[path] = stamp


@contextlib.contextmanager
def opened(place, is_run=False):
    """Yields the Place of a workdir, which is a folder or an address on gs://.

    `is_run`: whether it has checkpoints. On exit, also after an error, what is left is
    sent. In a job of several processes each has a folder of its own, and sends what it
    has written. Raises ValueError for another address.
    """
    if '://' in str(place) and not str(place).startswith(_WRITABLE):
        raise ValueError(
            f'The workdir={str(place)!r} is an address with unsupported protocol '
            f'{str(place).partition("://")[0]}://, to which no checkpoints can be '
            'written. Use a folder, an address on gs://, or mount the bucket with rclone '
            '(in SkyPilot, mode: MOUNT_CACHED) and give the path of the mount.'
        )
    text = addresses.location('The workdir', place)
    if not addresses.is_address(text):
        yield Place(text)
        return
    address = text.rstrip('/')
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, os.path.basename(address))
        folder.mkdir()
        remote = Place(folder, address, is_run)
        try:
            yield remote
        finally:
            remote.send()


def model_folder(what, place, step=None):
    """The local folder of a run or model; a copy, if `place` is an address.

    Of a run, the copy has the files beside the checkpoints. Those on gs:// are read where
    they are; elsewhere all, or that of `step`, are copied. `what` names the place in
    errors. Raises FileNotFoundError if the address has no files.
    """
    text = addresses.location(what, place)
    if not addresses.is_address(text):
        return Path(text)
    address = text.rstrip('/')
    files = addresses.list_files(address)
    if not files:
        raise FileNotFoundError(f'There are no files at {address}. Check the address.')
    pattern = re.compile(rf'{restore.STEPS}/(\d+)/')
    steps = {name: int(at[1]) for name in files if (at := pattern.match(name))}
    is_read_there = bool(steps) and address.startswith(_WRITABLE)
    wanted = {
        name: file
        for name, file in files.items()
        if '/.' not in f'/{name}'
        and (not is_read_there or f'/{restore.STEPS}/' not in f'/{name}')
        and (step not in steps.values() or steps.get(name, step) == step)
    }
    folder = copies.copy_files(address, wanted)
    if is_read_there:
        atomic.write(folder / restore.STEPS, f'{address}/{restore.STEPS}')
    return folder
