"""Records sorted into many files by a hash: those with equal ones meet in memory."""

import numpy as np


class Buckets:
    """Files of records of one dtype, to which any number are appended."""

    def __init__(self, folder, name, dtype):
        self._folder, self._name, self._dtype = folder, name, dtype

    def append(self, numbers, records):
        """Appends `records` [N] to the buckets of these `numbers`, int64 [N]."""
        order = np.argsort(numbers)
        numbers, records = numbers[order], records[order]
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        for start, end in zip(starts, np.append(starts[1:], len(numbers))):
            with self._path(int(numbers[start])).open('ab') as file:
                file.write(records[start:end].tobytes())

    def read(self, number, rows):
        """Yields the records of a bucket, so many at a time."""
        path = self._path(number)
        if path.exists():
            with path.open('rb') as file:
                while data := file.read(rows * self._dtype.itemsize):
                    yield np.frombuffer(data, self._dtype)

    def read_all(self, number):
        """All records of a bucket."""
        path = self._path(number)
        data = path.read_bytes() if path.exists() else b''
        return np.frombuffer(data, self._dtype)

    def delete(self, number):
        """Makes room on the disk."""
        self._path(number).unlink(missing_ok=True)

    def _path(self, number):
        return self._folder / f'{self._name}-{number:06d}'


def bits_for(rows, room):
    """How many bits of a hash make buckets of at most about `room` of so many rows."""
    return (-(-rows // max(room, 1)) - 1).bit_length() if rows else 0


def first_bits(hashes, bits):
    """int64 [N], the first bits of uint64 [N]."""
    if not bits:
        return np.zeros(len(hashes), np.int64)
    return (hashes >> np.uint64(64 - bits)).astype(np.int64)
