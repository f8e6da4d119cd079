"""Arrays that took long to compute, kept as .npy files: whole, checked, or not there.

A file is named <name>.<start of the sha256 of its bytes>.npy and appears by one rename,
so what has its name is whole, and a flipped byte is noticed: the file is removed, and the
array computed again. Objects are never unpickled.
"""

import contextlib
import hashlib
import os
from pathlib import Path

import numpy as np

_DIGITS = 16


class ArrayCache:
    """Arrays by name in a folder; in memory if `folder` is None."""

    def __init__(self, folder=None):
        self.folder = folder if folder is None else Path(folder)
        self._memory = {}
        if self.folder is not None:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def get(self, name):
        """The array, mapped from the file and not to be written to, or None."""
        if self.folder is None:
            return self._memory.get(name)
        for path in sorted(self.folder.glob(f'{name}.*.npy')):
            if path.name == f'{name}.{_digest(path)}.npy':
                return np.load(path, mmap_mode='r', allow_pickle=False)
            path.unlink()
        return None

    def put(self, name, array):
        """Keeps an array."""
        with self.writing({name: (array.shape, array.dtype)}) as arrays:
            arrays[name][...] = array

    @contextlib.contextmanager
    def writing(self, wanted):
        """{name: array} of {name: (shape, dtype)} to be filled; kept at the end, all of
        them, and none if that ends in an error."""
        if self.folder is None:
            arrays = {name: np.zeros(*form) for name, form in wanted.items()}
            yield arrays
            self._memory |= arrays
            return
        scratch = {name: self.folder / f'{name}.{os.getpid()}.tmp' for name in wanted}
        try:
            arrays = {
                name: np.lib.format.open_memmap(
                    scratch[name], mode='w+', shape=shape, dtype=dtype
                )
                for name, (shape, dtype) in wanted.items()
            }
            yield arrays
            for name, array in arrays.items():
                array.flush()
                path = scratch[name]
                path.replace(self.folder / f'{name}.{_digest(path)}.npy')
        finally:
            for path in scratch.values():
                path.unlink(missing_ok=True)


def _digest(path):
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()[:_DIGITS]
