"""Exact duplicates among the documents of a corpus: the first one is kept.

Two texts are equal if their 128-bit hashes are. The parts of a corpus write the hashes of
their documents into one folder, from any process and in any order:

    000012.documents    DOCUMENT [documents], once the part is complete
    000012.copies       int64 [copies], the numbers of its documents that are dropped

The first is the one in the part of the lowest number, and the first in this part. So the
same documents are kept for any number of processes.
"""

import hashlib
import itertools
import struct
from pathlib import Path

import numpy as np

from jepa_text.files import atomic, streams

# The hash is in two halves, so that it can be sorted.
DOCUMENT = np.dtype([('number', '<i8'), ('high', '<u8'), ('low', '<u8')])
HALVES = struct.Struct('>QQ')
REASON = 'exact duplicate'
MEMORY = 2**28
ROW_BYTES = 64  # memory per document that is compared


def write(folder, part, documents):
    """Writes the hashes of a part; `documents` are pairs of number and text."""
    hashes = (
        (number, hashlib.blake2b(text.encode('utf-8'), digest_size=16).digest())
        for number, text in documents
    )
    rows = ((number, *HALVES.unpack(one)) for number, one in hashes)
    atomic.write(_path(folder, part, 'documents'), np.fromiter(rows, DOCUMENT).tobytes())


def is_written(folder, part):
    """Whether a part has written its hashes."""
    return _path(folder, part, 'documents').exists()


def decide(folder, parts, memory=MEMORY):
    """Finds the copies among the documents of the parts 0 to `parts` - 1, for `copies`.

    Uses about `memory` bytes, and one per document: documents are compared in groups of
    equal first bits of their hash. Running it again writes the same files.
    """
    streams.allow_open(parts)  # as each stays mapped
    documents = [_read(_path(folder, part, 'documents')) for part in range(parts)]
    is_copy = [np.zeros(len(one), bool) for one in documents]
    room = max(memory // ROW_BYTES, 1)
    bits = max(-(-sum(map(len, documents)) // room) - 1, 0).bit_length()
    for group in range(2**bits):
        rows = [_rows_of(one, group, bits) for one in documents]
        chosen = np.concatenate([one[at] for one, at in zip(documents, rows)])
        # Stable, so of equal hashes the first in the corpus comes first.
        order = np.lexsort([chosen['low'], chosen['high']])
        hashes = chosen[order][['high', 'low']]
        repeated = np.zeros(len(chosen), bool)
        repeated[order[1:]] = hashes[1:] == hashes[:-1]
        ends = np.cumsum([0, *map(len, rows)])
        for one, at, (start, end) in zip(is_copy, rows, itertools.pairwise(ends)):
            one[at] = repeated[start:end]
    for part, (one, copies) in enumerate(zip(documents, is_copy)):
        atomic.write(_path(folder, part, 'copies'), one['number'][copies].tobytes())


def copies(folder, part):
    """Returns the numbers of the documents of a part that are dropped, as a set."""
    data = _path(folder, part, 'copies').read_bytes()
    return set(np.frombuffer(data, np.int64).tolist())


def _rows_of(documents, group, bits):
    """Returns which documents have these first bits."""
    if not bits:
        return np.arange(len(documents))
    return np.flatnonzero(documents['high'] >> np.uint64(64 - bits) == group)


def _read(path):
    """Memory-maps a file read-only; an empty file, which cannot be mapped, is read."""
    empty = not path.stat().st_size
    return np.zeros(0, DOCUMENT) if empty else np.memmap(path, DOCUMENT, 'r')


def _path(folder, part, end):
    return Path(folder) / f'{part:06d}.{end}'
