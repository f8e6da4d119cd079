"""Records partitioned into files by hash, so that equal hashes meet in memory."""

import numpy as np


class Buckets:
    """A set of files, numbered from 0, of records of one dtype."""

    def __init__(self, folder, name, dtype):
        self._folder, self._name, self._dtype = folder, name, dtype

    def append(self, numbers, records):
        """Appends records[i] to the bucket numbers[i]; `numbers` is int64 [N]."""
        order = np.argsort(numbers)
        numbers, records = numbers[order], records[order]
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        for start, end in zip(starts, np.append(starts[1:], len(numbers))):
            with self._path(int(numbers[start])).open('ab') as file:
                file.write(records[start:end].tobytes())

    def read(self, number, rows):
        """Yields the records of a bucket in arrays of at most `rows`."""
        path = self._path(number)
        if path.exists():
            with path.open('rb') as file:
                while data := file.read(rows * self._dtype.itemsize):
                    yield np.frombuffer(data, self._dtype)

    def read_all(self, number):
        """Returns all records of a bucket as one array."""
        path = self._path(number)
        data = path.read_bytes() if path.exists() else b''
        return np.frombuffer(data, self._dtype)

    def delete(self, number):
        """Deletes the file of a bucket, to free disk space."""
        self._path(number).unlink(missing_ok=True)

    def _path(self, number):
        return self._folder / f'{self._name}-{number:06d}'


def split_repeats(entries, hash_fields, order_fields):
    """(the first entry of each hash, all later ones), both sorted by hash.

    Entries are equal if their `hash_fields` are; `order_fields` say which comes first.
    The most significant field is named first.
    """
    fields = [*hash_fields, *order_fields]
    ordered = entries[np.lexsort([entries[name] for name in reversed(fields)])]
    is_repeat = np.zeros(len(ordered), bool)
    is_repeat[1:] = True
    for name in hash_fields:
        is_repeat[1:] &= ordered[name][1:] == ordered[name][:-1]
    return ordered[~is_repeat], ordered[is_repeat]


def bits_for(rows, room):
    """Returns how many bits of a hash to bucket by, so that each bucket of `rows` records
    in total has at most about `room`."""
    return (-(-rows // max(room, 1)) - 1).bit_length() if rows else 0


def first_bits(hashes, bits):
    """Returns the first `bits` bits of uint64 [N] as int64 [N]."""
    if not bits:
        return np.zeros(len(hashes), np.int64)
    return (hashes >> np.uint64(64 - bits)).astype(np.int64)
