"""Disk cache of named arrays as .npy files, verified by checksums and written atomically.

Arrays of Python objects are rejected: nothing is unpickled.
"""

import contextlib
import json
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from jepa_text.files import atomic, checksums

_WRITING, _SUMS = 'writing-', 'sums.json'
_ABANDONED = 24 * 3600  # seconds without a change


class ArrayCache:
    """Maps keys to {name: array}, in a folder or, without one, in a temporary folder."""

    def __init__(self, folder=None):
        self._temporary = None if folder else tempfile.TemporaryDirectory()
        self.folder = Path(folder or self._temporary.name)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_abandoned(self.folder)

    def get(self, key):
        """Read-only memory-mapped {name: array}, or None if missing. A damaged entry is
        deleted and counts as missing."""
        folder = self.folder / key
        if not folder.is_dir():
            return None
        if not _is_intact(folder):
            shutil.rmtree(folder)
            return None
        return {
            path.stem: np.load(path, mmap_mode='r', allow_pickle=False)
            for path in folder.glob('*.npy')
        }

    @contextlib.contextmanager
    def writing(self, keys, forms):
        """Context manager that yields {key: {name: array}} to fill, with `forms` {name:
        (shape, dtype)}. Saves all arrays at its end, or none after an error."""
        with tempfile.TemporaryDirectory(prefix=_WRITING, dir=self.folder) as scratch:
            folders = {key: Path(scratch, key) for key in keys}
            for folder in folders.values():
                folder.mkdir()
            arrays = {
                key: {
                    name: np.lib.format.open_memmap(
                        folder / f'{name}.npy', mode='w+', shape=shape, dtype=dtype
                    )
                    for name, (shape, dtype) in forms.items()
                }
                for key, folder in folders.items()
            }
            yield arrays
            for key, folder in folders.items():
                for array in arrays[key].values():
                    array.flush()
                sums = {path.name: checksums.sha256(path) for path in folder.iterdir()}
                atomic.write(folder / _SUMS, json.dumps(sums))
                # Another process may have computed the same entry.
                if not (self.folder / key).exists():
                    folder.replace(self.folder / key)


def _is_intact(folder):
    """Whether the files of a folder match its checksums, which were written last."""
    try:
        sums = json.loads((folder / _SUMS).read_text(encoding='utf-8'))
        return all(checksums.sha256(folder / name) == sums[name] for name in sums)
    except (FileNotFoundError, ValueError, TypeError):
        return False


def _remove_abandoned(folder):
    """Removes what killed processes were writing."""
    for path in folder.glob(f'{_WRITING}*'):
        with contextlib.suppress(FileNotFoundError):  # it was just completed
            newest = max(file.stat().st_mtime for file in (path, *path.rglob('*')))
            if time.time() - newest > _ABANDONED:
                shutil.rmtree(path)
