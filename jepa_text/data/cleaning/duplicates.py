"""Deduplication: decides which documents of a corpus are dropped as copies.

Of documents with the same text, the first in corpus order is kept (by the number of its
part, then its own). Of near duplicates, the one whose text has the lowest hash is kept;
they are grouped transitively, so the two ends of a group may differ. Thus the same texts
are kept whatever the order of documents and parts and the number of workers.

Disk space per document: 24 bytes, 4 for each permutation, and, while this runs, 25 in
memory-mapped arrays and 16 for each band: 785 bytes with 128 permutations and a threshold
of 0.8. Memory: about `memory` bytes whatever the corpus, plus the system's file cache.
"""

import functools
import itertools
import shutil
from pathlib import Path

import numpy as np

from jepa_text.data.cleaning import components, exact, fingerprints, near, spans
from jepa_text.files import atomic

MEMORY = 2**28
KEPT, EXACT, NEAR = range(3)
REASONS = {EXACT: 'exact duplicate', NEAR: 'near duplicate'}


def decide(folder, parts, config, memory=MEMORY):
    """Finds the duplicates among the documents fingerprinted in `folder`, and writes them
    there for `left_out`, and repeated spans for `spans.repeated`.

    `parts` are the numbers of all parts of the corpus. Raises ValueError if one of them
    is incomplete, and for fingerprints made with other settings. Running it again writes
    the same files.
    """
    folder = Path(folder)
    missing = [part for part in parts if not fingerprints.is_complete(folder, part)]
    if missing:
        raise ValueError(
            f'{folder} has no fingerprints of {len(missing):,} parts, the first of them '
            f'{missing[0]}. Write all fingerprints before looking for duplicates.'
        )
    parts = [fingerprints.Part(folder, part) for part in sorted(parts)]
    offsets = np.cumsum([0, *(part.count for part in parts)])
    slices = [slice(start, end) for start, end in itertools.pairwise(offsets)]
    scratch = folder / '.deciding'
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        verdicts = _verdicts(parts, offsets, config, scratch, memory)
        for part, documents in zip(parts, slices):
            path = _path(folder, part.number)
            atomic.write(path, np.asarray(verdicts[documents]).tobytes())
        if config.repeated_spans:
            out = [
                functools.partial(_numbers_out, part, verdicts[documents])
                for part, documents in zip(parts, slices)
            ]
            spans.decide(parts, out, scratch, memory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def left_out(folder, part):
    """Returns {document number: reason} of the dropped documents of a part.

    Raises FileNotFoundError before `decide` has run.
    """
    path = _path(folder, part)
    if not path.exists():
        raise FileNotFoundError(
            f'{path} does not exist: duplicates.decide has not run for this part.'
        )
    verdicts = np.frombuffer(path.read_bytes(), np.uint8)
    numbers = _numbers_out(fingerprints.Part(folder, part), verdicts)
    reasons = (REASONS[int(verdict)] for verdict in verdicts[verdicts != KEPT])
    return dict(zip(numbers.tolist(), reasons))


def _numbers_out(part, verdicts):
    """int64 [N], the numbers of the dropped documents of a part."""
    return part.documents['number'][np.flatnonzero(verdicts)]


def _verdicts(parts, offsets, config, scratch, memory):
    """uint8 [documents]: KEPT, EXACT or NEAR."""
    total = int(offsets[-1])
    offsets = offsets[:-1]
    ids, places = (_array(scratch / name, total, np.int64) for name in ('ids', 'places'))
    ranks = exact.rank(parts, offsets, ids, places, scratch, memory // 2)
    verdicts = _array(scratch / 'verdicts', total, np.uint8)
    room = memory // 64
    for start in range(0, total, room):
        verdicts[start : start + room] = (ids[start : start + room] == exact.COPY) * EXACT
    if config.near_duplicates > 0:
        parents = _array(scratch / 'parents', ranks, np.int64)
        components.reset(parents)
        near.unite(parts, offsets, ids, places, parents, config, scratch, memory)
        for start in range(0, ranks, room):
            nodes = np.arange(start, min(start + room, ranks))
            nodes = nodes[components.roots(parents, nodes) != nodes]
            verdicts[places[nodes]] = NEAR
    return verdicts


def _array(path, count, dtype):
    """A memory-mapped array of zeros; a plain one if empty, which cannot be mapped."""
    return np.memmap(path, dtype, 'w+', shape=count) if count else np.zeros(0, dtype)


def _path(folder, part):
    return Path(folder) / f'{part:06d}.verdicts'
