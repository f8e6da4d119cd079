"""A corpus in files: what a source gives, and the units that workers take of it.

    source --make(split, ...)--> Corpus --units--> [[Piece, ...], ...]
    Corpus --read(Piece)--> dicts of text, of whatever split

A unit is some megabytes: many small files, or a piece of a large one. Units depend on the
files alone, not on who works on them, and hold the documents in the order of the corpus.
"""

import dataclasses
import os
from collections.abc import Callable
from typing import NamedTuple

from jepa_text.data import finding, reading

# Bytes of a unit: a 256th of the corpus within these. What is packed counts more often.
SMALLEST, LARGEST, SHARE, PACKED = 8 * 2**20, 64 * 2**20, 256, 3


class Piece(NamedTuple):
    """A file from `start` to `stop`: bytes of text, row groups of Parquet; None: to the
    end."""

    file: str
    start: int = 0
    stop: int | None = None


def whole(file, size):
    """[(Piece, bytes)] of a file that is not cut, whatever the size of a unit."""
    count = os.path.getsize(file)
    return [(Piece(str(file)), PACKED * count if reading.is_packed(file) else count)]


def cut_lines(file, size, blank=False):
    """[(Piece, bytes), ...] of a plain file, cut between lines; with `blank`, at blank
    ones."""
    if reading.is_packed(file) or os.path.getsize(file) <= size:
        return whole(file, size)
    starts = [0, *reading.line_starts(file, size, blank)]
    ends = [*starts[1:], os.path.getsize(file)]
    return [(Piece(str(file), a, b), b - a) for a, b in zip(starts, ends)]


def cut_groups(file, size):
    """[(Piece, bytes), ...] of a Parquet file, cut between row groups."""
    pieces, held = [], 0
    for number, count in enumerate(reading.group_sizes(file)):
        if not pieces or held + count > size:
            pieces.append([number, number, 0])
            held = 0
        held += count
        pieces[-1][1:] = number + 1, held
    return [(Piece(str(file), start, stop), count) for start, stop, count in pieces]


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Documents of one split of some files, read anew whenever one iterates.

    found           the files
    read(piece)     all documents of a piece: dicts of text and whatever else it says
    cut(file, size) a file in pieces of about `size` bytes: [(Piece, bytes), ...]
    """

    found: finding.Found
    read: Callable
    split: str
    heldout_every: int
    cut: Callable = whole

    def __iter__(self):
        for file in self.found.files:
            for document in self.read(Piece(str(file))):
                if reading.in_split(document['text'], self.split, self.heldout_every):
                    yield document

    def units(self):
        """[[Piece, ...], ...]: the corpus in order."""
        total = sum(os.path.getsize(file) for file in self.found.files)
        size = min(max(SMALLEST, total // SHARE), LARGEST)
        units, held = [[]], 0
        for file in self.found.files:
            for piece, count in self.cut(file, size):
                if units[-1] and held + count > size:
                    units.append([])
                    held = 0
                units[-1].append(piece)
                held += count
        return units


def of_files(path, suffixes, read, split, heldout_every, cut=whole):
    """The Corpus at a path; raises as `finding.find` and `reading.check_split` do."""
    reading.check_split(split, heldout_every)
    found = finding.find(path, suffixes)
    return Corpus(found, read, split, heldout_every, cut)
