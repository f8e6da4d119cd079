"""File corpora: the documents of a source, and the units of work for parallel workers.

    source --make(split, ...)--> Corpus --units--> [[Piece, ...], ...]
    Corpus --documents(Piece)--> dicts with `text`, of all splits, and invalid_text.Bad

A unit has a few megabytes: many small files, or a piece of a large one. Units depend only
on the files, not on the workers, and keep the documents in corpus order.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from jepa_text.data.corpora import invalid_text, reading
from jepa_text.files import addresses, listing, paths

# Bytes per unit: the size of the corpus / SHARE, clipped to [SMALLEST, LARGEST]. A byte
# of a compressed file counts PACKED times.
SMALLEST, LARGEST, SHARE, PACKED = 8 * 2**20, 64 * 2**20, 256, 3
# Files cut at a time, as remote ones take a request each, and those waiting for it, of
# which each takes 2 kB.
CONCURRENT, WAITING = 16, 1024


class Piece(NamedTuple):
    """A file from byte `start` to `stop`, None for the end; of Parquet, the row groups
    that begin there. `size` and `version` are those of addresses.File."""

    path: str
    start: int = 0
    stop: int | None = None
    size: int | None = None
    version: str | None = None

    @property
    def file(self):
        return addresses.File(self.path, self.size, self.version)

    @property
    def extent(self):
        """(file, start, stop), the first arguments of the functions that read."""
        return self.file, self.start, self.stop

    def describe(self, number):
        return f'{self.path}, document {number:,}{reading.after(self.start)}'


def piece_of(file, start=0, stop=None):
    """Returns a Piece of an addresses.File."""
    return Piece(file.path, start, stop, file.size, file.version)


def whole(file, size):
    """Returns [(Piece, bytes)] for a file that is never cut, whatever the unit size."""
    count = size if file.size is None else file.size
    return [(piece_of(file), PACKED * count if reading.is_compressed(file) else count)]


def cut_lines(file, size, blank=False):
    """Returns [(Piece, bytes), ...] of a file, cut between lines, or with `blank` only at
    blank lines. A compressed file is not cut."""
    if reading.is_compressed(file) or file.size is None or file.size <= size:
        return whole(file, size)
    starts = [0, *reading.line_starts(file, size, blank)]
    ends = [*starts[1:], file.size]
    return [(piece_of(file, a, b), b - a) for a, b in zip(starts, ends)]


def cut_groups(file, size):
    """Returns [(Piece, bytes), ...] of a Parquet file, cut at any byte without reading
    it: no row group may begin in some of the pieces."""
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
    """Documents of one split of some files, of all splits if it is None, read again on
    each iteration.

    listed              the files
    read(piece)         yields all documents of a piece: dicts with `text` and other
                        fields, and an invalid_text.Bad for each that cannot be read
    cut(file, size)     cuts a file into pieces of about `size` bytes: [(Piece, bytes)]
    """

    listed: listing.Listing
    read: Callable
    split: str
    heldout_every: int
    cut: Callable = whole

    def documents(self, piece):
        """Returns the checked documents of a piece: dicts with `text`,
        invalid_text.Bad."""
        return invalid_text.with_bad(self.read(piece), piece.describe)

    def __iter__(self):
        """Yields the checked documents of the split. Invalid ones, whose text has no
        split, are yielded with the first split."""
        for file in self.listed.files:
            for document in self.documents(piece_of(file)):
                own = reading.SPLITS[0]
                if not isinstance(document, invalid_text.Bad):
                    own = reading.split_of(document['text'], self.heldout_every)
                if self.split in (None, own):
                    yield document

    def units(self):
        """Returns the units of the corpus in order, as lists of Piece."""
        total = sum(file.size or 0 for file in self.listed.files)
        size = min(max(SMALLEST, total // SHARE), LARGEST)
        files, cut = self.listed.files, functools.partial(self.cut, size=size)
        parts = (files[at : at + WAITING] for at in range(0, len(files), WAITING))
        with ThreadPoolExecutor(CONCURRENT) as pool:
            cuts = itertools.chain.from_iterable(pool.map(cut, part) for part in parts)
            units, filled = [[]], 0
            for piece, count in itertools.chain.from_iterable(cuts):
                if units[-1] and filled + count > size:
                    units.append([])
                    filled = 0
                units[-1].append(piece)
                filled += count
        return units


def of_files(path, suffixes, read, split, heldout_every, **options):
    """Returns the Corpus of the files at a path, glob pattern or address; `options` are
    fields of Corpus. Raises what `listing.expand` and `reading.check_split` raise."""
    reading.check_split(split, heldout_every)
    if not addresses.is_address(path):
        path = paths.local('The path of the corpus', path)
    return Corpus(listing.expand(path, suffixes), read, split, heldout_every, **options)
