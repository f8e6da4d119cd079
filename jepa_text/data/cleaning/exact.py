"""Copies among all documents: those whose texts have the same hash of 128 bits.

The first in the order of the corpus stays. The others have an id that depends on nothing
but the texts: their rank by hash.
"""

import numpy as np

from jepa_text.data.cleaning import buckets

ENTRY = np.dtype([('high', '<u8'), ('low', '<u8'), ('place', '<i8')])
ROW_BYTES = 128  # of an entry, while it is sorted
COPY = -1


def rank(parts, offsets, ids, places, scratch, memory):
    """Fills ids [documents] with the rank of each document's hash, COPY for a copy, and
    places with the document of each rank; returns how many ranks there are.

    Document d of part p stands at offsets[p] + d. At most about `memory` bytes are held.
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
            # So that a text with many copies fills no bucket.
            entries, copies = _apart(entries)
            ids[copies['place']] = COPY
            found.append(buckets.first_bits(entries['high'], bits), entries)
    total = 0
    for number in range(2**bits):
        entries, copies = _apart(found.read_all(number))
        ids[copies['place']] = COPY
        ids[entries['place']] = np.arange(total, total + len(entries))
        places[total : total + len(entries)] = entries['place']
        total += len(entries)
        found.delete(number)
    return total


def _apart(entries):
    """(the first entry of each hash, by hash; the others)."""
    ordered = entries[np.lexsort((entries['place'], entries['low'], entries['high']))]
    again = np.zeros(len(ordered), bool)
    again[1:] = ordered['high'][1:] == ordered['high'][:-1]
    again[1:] &= ordered['low'][1:] == ordered['low'][:-1]
    return ordered[~again], ordered[again]
