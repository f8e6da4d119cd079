"""Exact duplicates: documents whose texts have the same 128-bit hash.

The first in corpus order is kept. Each of the others gets an id that depends only on the
texts: its rank by hash.
"""

import numpy as np

from jepa_text.data.cleaning import buckets

ENTRY = np.dtype([('high', '<u8'), ('low', '<u8'), ('place', '<i8')])
ROW_BYTES = 128  # memory per entry while sorting
COPY = -1


def rank(parts, offsets, ids, places, scratch, memory):
    """Fills `ids` and `places`, and returns the number R of distinct texts.

    ids [documents]      the rank of each document's hash, COPY for a copy
    places [documents]   in its first R entries, the document of each rank

    Document d of part p has index offsets[p] + d. Uses about `memory` bytes at most.
    """
    room = max(memory // ROW_BYTES, 1)
    found = buckets.Buckets(scratch, 'hashes', ENTRY)
    bits = buckets.bits_for(len(ids), room)
    for part, offset in zip(parts, offsets):
        for start in range(0, part.count, room):
            documents = part.documents[start : start + room]
            entries = np.empty(len(documents), ENTRY)
            entries['high'], entries['low'] = documents['high'], documents['low']
            begin = offset + start
            entries['place'] = np.arange(begin, begin + len(documents))
            # Dropping copies early keeps a text with many copies from filling a bucket.
            entries, copies = _split(entries)
            ids[copies['place']] = COPY
            found.append(buckets.first_bits(entries['high'], bits), entries)
    total = 0
    for number in range(2**bits):
        entries, copies = _split(found.read_all(number))
        ids[copies['place']] = COPY
        ids[entries['place']] = np.arange(total, total + len(entries))
        places[total : total + len(entries)] = entries['place']
        total += len(entries)
        found.delete(number)
    return total


def _split(entries):
    return buckets.split_repeats(entries, ('high', 'low'), ('place',))
