"""A corpus in files: what a source gives, and the units that workers take of it.

    source --make(split, ...)--> Corpus --units--> [[Piece, ...], ...]
    Corpus --documents(Piece)--> dicts of text, of whatever split, and invalid_text.Bad

A unit is some megabytes: many small files, or a piece of a large one. Units depend on the
files alone, not on who works on them, and hold the documents in the order of the corpus.
"""

import dataclasses
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from jepa_text.data.corpora import invalid_text, reading, row_groups
from jepa_text.files import addresses, listing, paths

# Bytes of a unit: a 256th of the corpus within these. What is packed counts more often.
SMALLEST, LARGEST, SHARE, PACKED = 8 * 2**20, 64 * 2**20, 256, 3
ASKED = 16  # files at addresses at a time


class Piece(NamedTuple):
    """A file from byte `start` to `stop`, None being the end; of Parquet, the row groups
    that begin there. `size` and `version` of the file are as in addresses.File."""

    path: str
    start: int = 0
    stop: int | None = None
    size: int | None = None
    version: str | None = None

    @property
    def file(self):
        return addresses.File(self.path, self.size, self.version)

    @property
    def place(self):
        """What functions that read take: the file, and its part."""
        return self.file, self.start, self.stop

    @property
    def is_whole(self):
        """Is it a whole file?"""
        return not self.start and self.stop is None

    def named(self, number):
        """What a document is called, by its number from 1."""
        return f'{self.path}, document {number:,}{reading.after(self.start)}'

    def named_row(self, number):
        """As `named`, of a row of a Parquet file."""
        before = row_groups.before(self.file, self.start)
        return f'{self.path}, row {before + number:,}'


def piece_of(file, start=0, stop=None):
    """A Piece of an addresses.File."""
    return Piece(file.path, start, stop, file.size, file.version)


def whole(file, size):
    """[(Piece, bytes)] of a file that is not cut, whatever the size of a unit."""
    count = size if file.size is None else file.size
    return [(piece_of(file), PACKED * count if reading.is_packed(file) else count)]


def cut_lines(file, size, blank=False):
    """[(Piece, bytes), ...] of a plain file, cut between lines; with `blank`, at blank
    ones."""
    if reading.is_packed(file) or file.size is None or file.size <= size:
        return whole(file, size)
    starts = [0, *reading.line_starts(file, size, blank)]
    ends = [*starts[1:], file.size]
    return [(piece_of(file, a, b), b - a) for a, b in zip(starts, ends)]


def cut_groups(file, size):
    """[(Piece, bytes), ...] of a Parquet file, cut by its bytes, unseen: some pieces may
    have no row group that begins in them."""
    step = max(size // PACKED, 1)
    if file.size is None or file.size <= step:
        return [(piece_of(file), PACKED * (file.size or step))]
    starts = range(0, file.size, step)
    return [
        (piece_of(file, start, start + step), PACKED * min(step, file.size - start))
        for start in starts
    ]


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Documents of one split of some files, read anew whenever one iterates.

    found           the files
    read(piece)     all documents of a piece: dicts of text and whatever else it says, and
                    a invalid_text.Bad for each that cannot be read
    cut(file, size) a file in pieces of about `size` bytes: [(Piece, bytes), ...]
    named(piece, n) what document n, from 1, of a piece is called
    """

    found: listing.Found
    read: Callable
    split: str
    heldout_every: int
    cut: Callable = whole
    named: Callable = Piece.named

    def documents(self, piece):
        """The documents of a piece, checked: dicts with `text`, and invalid_text.Bad."""
        for number, document in enumerate(self.read(piece), 1):
            name = functools.partial(self.named, piece, number)
            yield invalid_text.checked(document, name)

    def with_bad(self):
        """The documents of the split; the first one has all the bad ones, too, as a text
        that cannot be read belongs to none."""
        for file in self.found.files:
            for document in self.documents(piece_of(file)):
                if isinstance(document, invalid_text.Bad):
                    if self.split == reading.SPLITS[0]:
                        yield document
                elif reading.in_split(document['text'], self.split, self.heldout_every):
                    yield document

    def __iter__(self):
        return invalid_text.good(self.with_bad())

    def units(self):
        """[[Piece, ...], ...]: the corpus in order."""
        total = sum(file.size or 0 for file in self.found.files)
        size = min(max(SMALLEST, total // SHARE), LARGEST)
        units, held = [[]], 0
        for pieces in self._cuts(size):
            for piece, count in pieces:
                if units[-1] and held + count > size:
                    units.append([])
                    held = 0
                units[-1].append(piece)
                held += count
        return units

    def _cuts(self, size):
        """The pieces of each file; of those at addresses, several are asked at a time."""
        cut = functools.partial(self.cut, size=size)
        if not any(addresses.is_address(file.path) for file in self.found.files):
            return map(cut, self.found.files)
        with ThreadPoolExecutor(ASKED) as pool:
            return list(pool.map(cut, self.found.files))


def of_files(path, suffixes, read, split, heldout_every, cut=whole, named=Piece.named):
    """The Corpus at a path, a pattern or an address; raises as `listing.expand` and
    `reading.check_split` do."""
    reading.check_split(split, heldout_every)
    if not addresses.is_address(path):
        paths.local('The path of the corpus', path)
    return Corpus(listing.expand(path, suffixes), read, split, heldout_every, cut, named)
