"""Near duplicates: pairs of documents that share a band and have similar signatures.

    1. every document enters one bucket for each band of its signature
    2. within a band, a document is compared with the COMPARED lowest ids that have the
       same key: all pairs of a small group, but not quadratically many of a large one
    3. pairs whose estimated similarity reaches the threshold become edges; of each
       connected component, the lowest id is kept

Ids are ranks of hashes, so neither the order of the corpus nor the partition of the work
into buckets and batches changes which texts are kept.
"""

import functools

import numpy as np

from jepa_text.data.cleaning import buckets, components, minhash

ENTRY = np.dtype([('key', '<u8'), ('id', '<i8')])
COMPARED = 64
ROW_BYTES = 96  # memory per entry while sorting
OPEN_FILES = 256  # files of signatures open at a time


def unite(parts, offsets, ids, places, parents, config, scratch, memory):
    """Unites near duplicates in `parents` [ranks] (components.py), in place.

    `ids` and `places` are those of exact.rank. Uses about `memory` bytes at most.
    """
    count = config.permutations
    bands, rows = minhash.bands(config.near_duplicates, count)
    room = max(memory // (4 * ROW_BYTES), 1)
    bits = buckets.bits_for(len(parents), room)
    found = buckets.Buckets(scratch, 'bands', ENTRY)
    batch = max(memory // (4 * count + 8 * bands + 2 * ROW_BYTES), 1)
    for part, offset in zip(parts, offsets):
        if part.count:
            mine = ids[offset : offset + part.count]
            _fill(found, part.signatures(count), mine, bands, rows, bits, batch)
    pairs = Pairs(parts, offsets, places, parents, config, memory // 4)
    for number in range(bands << bits):
        _compare(found, number, room, pairs)
        found.delete(number)


def _fill(found, signatures, ids, bands, rows, bits, batch):
    """Step 1: adds the documents of a part to the buckets, `batch` at a time."""
    for start in range(0, len(ids), batch):
        mine = np.asarray(ids[start : start + batch])
        some = np.asarray(signatures[start : start + batch])
        # Copies and texts without words have no near duplicates.
        is_used = (mine >= 0) & (some != minhash.EMPTY).any(axis=1)
        mine, some = mine[is_used], some[is_used]
        for band, keys in enumerate(minhash.band_keys(some, bands, rows)):
            entries = np.empty(len(mine), ENTRY)
            entries['key'], entries['id'] = keys, mine
            numbers = buckets.first_bits(keys, bits) + (band << bits)
            found.append(numbers, entries)


def _compare(found, number, room, pairs):
    """Steps 2 and 3 for one bucket, which is read twice."""
    lowest = np.empty(0, ENTRY)
    for entries in found.read(number, room):
        lowest = _lowest(np.concatenate([lowest, entries]))
    keys, starts, counts = np.unique(lowest['key'], return_index=True, return_counts=True)
    shared = counts > 1
    keys, starts, counts = keys[shared], starts[shared], counts[shared]
    if not len(keys):
        return
    for entries in found.read(number, room):
        group = np.minimum(np.searchsorted(keys, entries['key']), len(keys) - 1)
        mine = keys[group] == entries['key']
        start, count = starts[group[mine]], counts[group[mine]]
        ids = entries['id'][mine]
        for turn in range(COMPARED):
            more = count > turn
            start, count, ids = start[more], count[more], ids[more]
            if not len(ids):
                break
            others = lowest['id'][start + turn]
            above = others < ids
            pairs.join(others[above], ids[above])


def _lowest(entries):
    """The entries with the COMPARED lowest ids of each key, sorted by key."""
    ordered = entries[np.lexsort((entries['id'], entries['key']))]
    place = np.arange(len(ordered))
    is_first = np.diff(ordered['key'], prepend=ordered['key'][:1] + np.uint64(1)) != 0
    first = np.maximum.accumulate(np.where(is_first, place, 0))
    return ordered[place - first < COMPARED]


class Pairs:
    """Unites pairs of documents whose signatures agree."""

    def __init__(self, parts, offsets, places, parents, config, memory):
        self._offsets, self._places, self._parents = offsets, places, parents
        self._threshold, self._count = config.near_duplicates, config.permutations
        self._batch = max(memory // (12 * config.permutations), 1)
        self._signatures = functools.lru_cache(OPEN_FILES)(
            lambda number: parts[number].signatures(config.permutations)
        )

    def join(self, first, second):
        """Unites first[i] with second[i] if they are near duplicates."""
        for start in range(0, len(first), self._batch):
            one, other = (ids[start : start + self._batch] for ids in (first, second))
            apart = components.roots(self._parents, one)
            apart = apart != components.roots(self._parents, other)
            one, other = one[apart], other[apart]
            if not len(one):
                continue
            alike = minhash.estimate(self._of(one), self._of(other)) >= self._threshold
            components.unite(self._parents, one[alike], other[alike])

    def _of(self, ids):
        """uint32 [N, permutations], the signatures of documents given by id."""
        places = np.asarray(self._places[ids])
        part = np.searchsorted(self._offsets, places, 'right') - 1
        found = np.empty((len(ids), self._count), np.uint32)
        order = np.argsort(places)
        starts = np.flatnonzero(np.diff(part[order], prepend=-1))
        for mine in np.split(order, starts[1:]):
            if len(mine):
                number = int(part[mine[0]])
                found[mine] = self._signatures(number)[
                    places[mine] - self._offsets[number]
                ]
        return found
