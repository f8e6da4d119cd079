"""Packing of documents into rows of equal length, with almost no padding.

Best fit, rows of 8. Document A has 19 tokens, B 4, C 3, D 2; every letter is one token:

    A  aaaaaaaa aaaaaaaa aaa      cut into pieces of 8; the last piece is shorter
    B  bbbb    C  ccc    D  dd

    1. pieces of 8 are rows:        aaaaaaaa
                                    aaaaaaaa
    2. the remainders, longest      bbbbaaa.    A's remainder fits after B: 1 left
       first, each go to the row    cccdd...    D does not fit above: it joins C
       with the least room left

    segment_ids of row 3            1111222.    0 is padding
    positions of row 3              0123012.    from 0 in every piece

Concat (used in the papers' code): the stream is cut every 8 tokens; only the end is
padded, and a document may be cut anywhere, even after one token:

                                    aaaaaaaa
                                    aaaaaaaa
                                    aaabbbbc
                                    ccdd....

Paper (arXiv 2507.00994, footnote 6, and its code): the stream is cut into sequences of a
random length r, then 8 - r, and so on; attention and positions are per sequence, not per
document. With rows of 2,048 tokens, sequences have 12 to 2,036, and 1,024 on average:

    |aaaaa|aaa        sequences of 5 and 3, segment_ids 11111222
    |aa|aaaaaa        of 2 and 6            segment_ids 11222222
    |aaabbb|bc        of 6, across documents, and 2

Packing only needs the lengths, so no tokens are held in memory. It is deterministic given
`rng`.
"""

import bisect
import collections
import dataclasses

import numpy as np

SHORTEST = 12  # minimum tokens of a sequence in the 'paper' packing


@dataclasses.dataclass(frozen=True, eq=False)
class Packed:
    """Rows of pieces: piece p is `length[p]` tokens of `document[p]` from `start[p]`.

    int64 [P] in row order; row r has the pieces splits[r] to splits[r + 1].
    """

    document: np.ndarray
    start: np.ndarray
    length: np.ndarray
    splits: np.ndarray

    def __len__(self):
        return len(self.splits) - 1

    def rows(self, numbers):
        """Returns, as int64, (the number of pieces of each of these rows; document, start
        and length of all these pieces)."""
        first, count = self.splits[numbers], np.diff(self.splits)[numbers]
        at = ranges(first, count)
        return count, self.document[at], self.start[at], self.length[at]


def ranges(starts, lengths):
    """Returns the concatenated ranges start, start + 1, ..., start + length - 1.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - before, lengths)


def best_fit(lengths, row_length, rng=None):
    """Packs documents of these lengths into rows by best-fit decreasing, O(n log n).

    A document longer than a row is cut every `row_length` tokens from its beginning; its
    remainder is packed with those of others and never cut again.
    """
    lengths = np.asarray(lengths, np.int64)
    full = lengths // row_length
    document = np.repeat(np.arange(len(lengths)), full)
    number = ranges(np.zeros_like(full), full)
    rests = np.flatnonzero(lengths % row_length)
    rests = rests[np.argsort(-(lengths[rests] % row_length), kind='stable')]
    row_of_rest = _best_fit_decreasing((lengths[rests] % row_length).tolist(), row_length)
    # A stable sort, so that the pieces of a row stay longest first.
    order = np.argsort(row_of_rest, kind='stable')
    rests = rests[order]
    pieces_of_row = np.bincount(row_of_rest[order]) if len(rests) else np.zeros(0, int)
    return Packed(
        document=np.concatenate([document, rests]),
        start=np.concatenate([number * row_length, full[rests] * row_length]),
        length=np.concatenate(
            [np.full(len(document), row_length), lengths[rests] % row_length]
        ),
        splits=np.concatenate(
            [np.arange(len(document)), len(document) + np.cumsum([0, *pieces_of_row])]
        ).astype(np.int64),
    )


def _best_fit_decreasing(lengths, row_length):
    """The row of every length (sorted, longest first), int64 [n]."""
    rows = np.zeros(len(lengths), np.int64)
    # open_rows[room] are the rows with that much room; rooms has the values in use,
    # sorted.
    open_rows, rooms, opened = collections.defaultdict(list), [], 0
    for index, length in enumerate(lengths):
        place = bisect.bisect_left(rooms, length)
        if place < len(rooms):
            room = rooms[place]
            row = open_rows[room].pop()
            if not open_rows[room]:
                del rooms[place]
        else:
            room, row, opened = row_length, opened, opened + 1
        rows[index] = row
        left = room - length
        if not left:
            continue
        if not open_rows[left]:
            bisect.insort(rooms, left)
        open_rows[left].append(row)
    return rows


def concat(lengths, row_length, rng=None):
    """Packs documents of these lengths into rows by cutting their stream, O(n).

    Every row except the last is full.
    """
    lengths = np.asarray(lengths, np.int64)
    row_starts = np.arange(0, lengths.sum(), row_length)
    document_starts = (np.cumsum(lengths) - lengths)[lengths > 0]
    return _cut(lengths, np.union1d(row_starts, document_starts), row_starts)


def _cut(lengths, starts, row_starts):
    """Cuts the stream of documents at `starts`, which include the starts of rows."""
    ends = np.cumsum(lengths)
    # The first document that ends after the piece begins, which skips empty ones.
    document = np.searchsorted(ends, starts, side='right')
    return Packed(
        document=document,
        start=starts - (ends - lengths)[document],
        length=np.diff(starts, append=lengths.sum()),
        splits=np.append(np.searchsorted(starts, row_starts), len(starts)),
    )


def paper(lengths, row_length, rng):
    """Cuts the stream of documents into pairs of sequences, one pair per row, of r and
    row_length - r tokens, with r uniform from SHORTEST to row_length - SHORTEST.

    A piece is a sequence, which may extend over several documents. Rows have at least
    2 * SHORTEST tokens.
    """
    lengths = np.asarray(lengths, np.int64)
    rows = np.arange(0, lengths.sum(), row_length)
    first = rng.integers(SHORTEST, row_length - SHORTEST, len(rows), endpoint=True)
    starts = np.stack([rows, rows + first], 1).ravel()
    return _cut(lengths, starts[starts < lengths.sum()], rows)


PACKINGS = {'best_fit': best_fit, 'concat': concat, 'paper': paper}
