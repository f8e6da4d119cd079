"""Packing of a batch's texts into few encoder rows, so that padding is not computed.

    batch    aaa.....    encoder rows    aaabbbbb
             bbbbb...                    cc......
             cc......

The encoder reads few rows of one length, in which each text is a document of its own. Its
hidden states are scattered back to the texts' positions in the batch, so the loss is the
same.
"""

from typing import NamedTuple

import numpy as np

from jepa_text.data import batching
from jepa_text.data.rows import packing

LONGER = 1, 2, 4  # candidate row lengths, as multiples of the longest text
DRAWS = 2048  # maximum number of batches that the shape is estimated from
COMPILED = 8  # numbers of rows, at equal distances, that a batch can have


class Shape(NamedTuple):
    """Shape of the largest packed encoder input of the batches, with at most `texts` per
    row; a smaller batch has fewer `rows`."""

    rows: int
    length: int
    texts: int

    def of(self, rows):
        """Returns the Shape of a batch that needs so many rows, at most self.rows.

        Each number of rows is compiled, so there are few of them.

        >>> [Shape(20, 64, 8).of(rows).rows for rows in (11, 12, 13, 20)]
        [12, 12, 15, 20]
        """
        step = -(-self.rows // COMPILED)
        return self._replace(rows=min(-(-rows // step) * step, self.rows))


def shape_of(lengths_N, index_TB, maximum, width):
    """Returns the cheapest Shape for these batches; None if padded rows cost no more.

    lengths_N    for each row of the data, a tuple of its texts' lengths in tokens
    index_TB     rows of each batch; -1 for padding
    maximum      longest row that the encoder reads
    width        of the encoder

    A layer costs about 24 width^2 FLOPs per token for products and 4 width L for
    attention.
    """
    sample = np.linspace(0, len(index_TB) - 1, min(DRAWS, len(index_TB))).round()
    index_TB = index_TB[sample.astype(int)]
    batches = [
        [length for i in index_B if i >= 0 for length in lengths_N[i]]
        for index_B in index_TB
    ]
    padded = [Shape(len(b), batching.padded(max(b), maximum), 1) for b in batches]
    longest = batching.padded(max(map(max, lengths_N)), maximum)
    # None comes first, so it is taken unless packed rows cost less.
    costs = {None: _cost(padded, width)}
    for length in sorted({min(times * longest, maximum) for times in LONGER}):
        counts = [np.bincount(_rows_of(batch, length)) for batch in batches]
        shape = Shape(max(map(len, counts)), length, int(max(map(max, counts))))
        costs[shape] = _cost((shape.of(len(count)) for count in counts), width)
    return min(costs, key=costs.get)


def batches(padded, shape):
    """Adds packed inputs of this Shape to the collated batches of several members.

    The added packed_tokens, packed_segment_ids and packed_positions are [R, P], with as
    many rows as the largest of the batches needs. places_BL is the position of each token
    of the batch in these, flattened to one row; R P for padding. If one of the batches
    does not fit, each text of all batches gets a row of its own.
    """
    length_SB = [(batch['segment_ids'] > 0).sum(axis=1) for batch in padded]
    row_SB = [_rows_of(length_B, shape.length) for length_B in length_SB]
    counts = [np.bincount(row_B[n_B > 0]) for row_B, n_B in zip(row_SB, length_SB)]
    if any(len(count) > shape.rows or max(count) > shape.texts for count in counts):
        shape = Shape(len(length_SB[0]), shape.length, 1)
        row_SB = [np.arange(shape.rows)] * len(padded)
    else:
        shape = shape.of(max(map(len, counts)))
    return [
        batch | _packed(batch, row_B, length_B, shape)
        for batch, row_B, length_B in zip(padded, row_SB, length_SB)
    ]


def _packed(padded, row_B, length_B, shape):
    """Returns places_BL and the packed encoder input of a batch."""
    # Number and start of each text among those that share its row.
    order_B = np.argsort(row_B, kind='stable')
    first_B = np.searchsorted(row_B[order_B], row_B[order_B])
    before_B = np.cumsum(length_B[order_B]) - length_B[order_B]
    document_B, start_B = np.empty_like(row_B), np.empty_like(row_B)
    document_B[order_B] = 1 + np.arange(len(order_B)) - first_B
    start_B[order_B] = before_B - before_B[first_B]

    real_BL = padded['segment_ids'] > 0
    places_BL = (row_B * shape.length + start_B)[:, None] + padded['positions']
    places_BL = np.where(real_BL, places_BL, shape.rows * shape.length)
    inputs = {name: padded[name] for name in ('tokens', 'positions')}
    inputs['segment_ids'] = np.broadcast_to(document_B[:, None], real_BL.shape)
    packed = {'places': places_BL.astype(np.int32)}
    for name, values_BL in inputs.items():
        flat_N = np.zeros(shape.rows * shape.length, np.int32)
        flat_N[places_BL[real_BL]] = values_BL[real_BL]
        packed[f'packed_{name}'] = flat_N.reshape(shape.rows, shape.length)
    return packed


def _rows_of(length_B, row_length):
    """Assigns each text to a row by best fit; texts without tokens are in row 0."""
    rows = packing.best_fit(length_B, row_length)
    row_B = np.zeros(len(length_B), np.int64)
    row_B[rows.document] = np.repeat(np.arange(len(rows)), np.diff(rows.splits))
    return row_B


def _cost(shapes, width):
    """Returns the total cost of batches of these shapes; see shape_of."""
    return sum(s.rows * s.length * (6 * width + s.length) for s in shapes)
