"""Arrays that took long to compute, kept as sealed folders of .npy files: whole, checked,
or not there. Objects are never unpickled."""

import contextlib
import shutil
import tempfile
from pathlib import Path

import numpy as np

from jepa_text.files import checksums


class ArrayCache:
    """{key: {name: array}} in a folder; without one, in a temporary folder of its own."""

    def __init__(self, folder=None):
        self._own = None if folder else tempfile.TemporaryDirectory()
        self.folder = Path(folder or self._own.name)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def get(self, key):
        """{name: array}, mapped and not to be written to; None if they are not there, or
        not as they were written."""
        folder = self.folder / key
        if not folder.is_dir():
            return None
        if checksums.verify(folder) is not None:
            shutil.rmtree(folder)
            return None
        return {
            path.stem: np.load(path, mmap_mode='r', allow_pickle=False)
            for path in folder.glob('*.npy')
        }

    @contextlib.contextmanager
    def writing(self, keys, forms):
        """{key: {name: array}} to be filled, where `forms` is {name: (shape, dtype)};
        kept at the end, all of them, and none if that ends in an error."""
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
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
                checksums.write(folder)
                # Another analysis may have computed the same.
                if not (self.folder / key).exists():
                    folder.replace(self.folder / key)
