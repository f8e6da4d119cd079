"""Texts of a batch, several to a row of the encoder: filling is not computed.

    batch    aaa.....    the encoder reads    aaabbbbb
             bbbbb...                         cc......
             cc......

The encoder reads few rows of one length, where each text is a document of its own. Its
hidden states go back to where the texts stand in the batch, and the loss is the same.
"""

from typing import NamedTuple

import numpy as np

from jepa_text.data import batching
from jepa_text.data.rows import packing

LONGER = 1, 2, 4  # rows are so many times as long as the longest text
DRAWS = 2048  # batches that are looked at, at most


class Shape(NamedTuple):
    """Of what the encoder reads of a batch: so many rows of so many tokens, each with so
    many texts at most."""

    rows: int
    length: int
    texts: int


def shape_of(lengths_N, index_TB, maximum, width):
    """The Shape that holds the batches index_TB of rows whose texts have so many tokens,
    lengths_N = [(of the texts of a row), ...], and costs an encoder of this width least;
    None where padded rows cost no more.

    Products cost a layer about 24 width^2 FLOPs a token, attention 4 width L.

    >>> index_TB = np.arange(32).reshape(2, 16)
    >>> shape_of([(30,), *[(8,)] * 31], index_TB, maximum=64, width=64)
    Shape(rows=5, length=32, texts=4)
    >>> shape_of([(30,)] * 32, index_TB, maximum=32, width=64)
    """
    some = np.linspace(0, len(index_TB) - 1, min(DRAWS, len(index_TB))).round()
    index_TB = index_TB[some.astype(int)]
    drawn = [[n for i in index_B if i >= 0 for n in lengths_N[i]] for index_B in index_TB]
    padded = [Shape(len(one), batching.padded(max(one), maximum), 1) for one in drawn]
    alone = np.mean([_cost(one, width) for one in padded])
    longest = batching.padded(max(map(max, lengths_N)), maximum)
    found = []
    for length in sorted({min(times * longest, maximum) for times in LONGER}):
        counts = [np.bincount(_rows_of(one, length)) for one in drawn]
        found.append(Shape(max(map(len, counts)), length, int(max(map(max, counts)))))
    best = min(found, key=lambda one: _cost(one, width))
    return best if _cost(best, width) < alone else None


def batches(padded, shape):
    """Collated batches, of members that go at once, whose texts stand in rows of this
    Shape, too: under packed_tokens, packed_segment_ids, packed_positions (and
    packed_types), each [R, P]. places_BL is where each token of a batch stands in these,
    as if they were one row; R P for what fills the batch.

    Where one of the batches does not fit, each text of all has a row of its own.
    """
    length_SB = [(one['segment_ids'] > 0).sum(axis=1) for one in padded]
    row_SB = [_rows_of(length_B, shape.length) for length_B in length_SB]
    counts = [np.bincount(row_B[n_B > 0]) for row_B, n_B in zip(row_SB, length_SB)]
    if any(len(one) > shape.rows or max(one) > shape.texts for one in counts):
        shape = Shape(len(length_SB[0]), shape.length, 1)
        row_SB = [np.arange(shape.rows)] * len(padded)
    given = zip(padded, row_SB, length_SB)
    return [one | _packed(one, *rest, shape) for one, *rest in given]


def _packed(padded, row_B, length_B, shape):
    """What the encoder reads of a batch, and places_BL."""
    # Texts that share a row stand one after the other: the number and begin of each.
    order_B = np.argsort(row_B, kind='stable')
    first_B = np.searchsorted(row_B[order_B], row_B[order_B])
    before_B = np.cumsum(length_B[order_B]) - length_B[order_B]
    document_B, start_B = np.empty_like(row_B), np.empty_like(row_B)
    document_B[order_B] = 1 + np.arange(len(order_B)) - first_B
    start_B[order_B] = before_B - before_B[first_B]

    real_BL = padded['segment_ids'] > 0
    places_BL = (row_B * shape.length + start_B)[:, None] + padded['positions']
    places_BL = np.where(real_BL, places_BL, shape.rows * shape.length)
    read = {key: padded[key] for key in ('tokens', 'positions', 'types') if key in padded}
    read['segment_ids'] = np.broadcast_to(document_B[:, None], real_BL.shape)
    made = {'places': places_BL.astype(np.int32)}
    for name, values_BL in read.items():
        flat_N = np.zeros(shape.rows * shape.length, np.int32)
        flat_N[places_BL[real_BL]] = values_BL[real_BL]
        made[f'packed_{name}'] = flat_N.reshape(shape.rows, shape.length)
    return made


def _rows_of(length_B, row_length):
    """row_B of each text, by best fit; texts without tokens are in row 0."""
    found = packing.best_fit(length_B, row_length)
    row_B = np.zeros(len(length_B), np.int64)
    row_B[found.document] = np.repeat(np.arange(len(found)), np.diff(found.splits))
    return row_B


def _cost(shape, width):
    return shape.rows * shape.length * (6 * width + shape.length)
