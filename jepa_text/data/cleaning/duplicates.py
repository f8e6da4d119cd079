"""Which documents of a corpus are left out as copies, once all of them are known.

Of documents with the same text, the first in the order of the corpus stays (by the number
of its part, then its own). Of near copies, the one whose text has the lowest hash does;
what hangs together by pairs is one group, even where its ends differ. So the same texts
stay, whatever the order of the documents and parts, and however many workers there were.

On the disk, a document takes 24 bytes, 4 for each permutation, and, while this runs, 25
in arrays that are mapped into memory and 16 for each band: 785 bytes with 128
permutations and a threshold of 0.8. Held in memory at once: about `memory` bytes,
whatever the corpus, and what the system caches of the files.
"""

import functools
import shutil
import typing
from pathlib import Path

import numpy as np

from jepa_text.data.cleaning import components, exact, fingerprints, near, spans
from jepa_text.files import atomic

MEMORY = 2**28
STAYS, EXACT, NEAR = range(3)
REASONS = {EXACT: 'exact duplicate', NEAR: 'near duplicate'}


class Decision(typing.NamedTuple):
    """How many documents there were, and how many are left out for each reason; and how
    many spans of those that stay are repeated (spans.py)."""

    documents: int
    exact: int
    near: int
    spans: int = 0


def decide(folder, parts, config, memory=MEMORY):
    """Decides about the documents whose fingerprints lie in `folder`, writes what
    `left_out` reads there, and returns the Decision.

    `parts` are the numbers of all parts of the corpus. Raises ValueError for one that is
    not complete, and for fingerprints that were made with other settings. Run again, it
    writes the same.
    """
    folder = Path(folder)
    missing = [part for part in parts if not fingerprints.is_complete(folder, part)]
    if missing:
        raise ValueError(
            f'{folder} has no fingerprints of {len(missing):,} parts, the first of them '
            f'{missing[0]}: make those before duplicates are looked for.'
        )
    known = [fingerprints.Part(folder, part, config) for part in sorted(parts)]
    offsets = np.cumsum([0, *(part.count for part in known)])
    scratch = folder / '.deciding'
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        verdicts = _verdicts(known, offsets, config, scratch, memory)
        for part, start, end in zip(known, offsets, offsets[1:]):
            path = _path(folder, part.number)
            atomic.write(path, np.asarray(verdicts[start:end]).tobytes())
        counts = [_count(verdicts, kind, memory) for kind in REASONS]
        if config.repeated_spans:
            out = [
                functools.partial(_numbers_out, part, verdicts[start:end])
                for part, start, end in zip(known, offsets, offsets[1:])
            ]
            counts.append(spans.decide(known, out, scratch, memory))
        return Decision(int(offsets[-1]), *counts)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def left_out(folder, part, config):
    """{number of a document: reason} of the documents of a part that are left out.

    Raises FileNotFoundError before `decide` has run.
    """
    path = _path(folder, part)
    if not path.exists():
        raise FileNotFoundError(
            f'There is no {path}: duplicates.decide has not run for this part.'
        )
    verdicts = np.frombuffer(path.read_bytes(), np.uint8)
    numbers = _numbers_out(fingerprints.Part(folder, part, config), verdicts)
    reasons = (REASONS[int(verdict)] for verdict in verdicts[verdicts != STAYS])
    return dict(zip(numbers.tolist(), reasons))


def _numbers_out(part, verdicts):
    """int64 [N]: the documents of a part that are left out."""
    return part.documents['number'][np.flatnonzero(verdicts)]


def _verdicts(parts, offsets, config, scratch, memory):
    """uint8 [documents]: STAYS, EXACT or NEAR."""
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
        components.alone(parents)
        near.unite(parts, offsets, ids, places, parents, config, scratch, memory)
        for start in range(0, ranks, room):
            mine = np.arange(start, min(start + room, ranks))
            mine = mine[components.roots(parents, mine) != mine]
            verdicts[places[mine]] = NEAR
    return verdicts


def _array(path, count, dtype):
    """An array of zeros in a file; an empty file cannot be mapped."""
    return np.memmap(path, dtype, 'w+', shape=count) if count else np.zeros(0, dtype)


def _count(verdicts, kind, memory):
    pieces = range(0, len(verdicts), memory)
    return sum(int((verdicts[at : at + memory] == kind).sum()) for at in pieces)


def _path(folder, part):
    return Path(folder) / f'{part:06d}.verdicts'
