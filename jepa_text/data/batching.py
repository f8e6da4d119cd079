"""Batches of rows grouped by similar length, with few shapes and little padding.

    lengths     250 249 ... 31 30 30 29          the longest first
    batches     [8, 256] [9, 224] ... [64, 32]   as many rows as the budget holds

Lengths are rounded up to one of four values per octave (8, 16, 24, 32, 40, 48, 56, 64,
80, 96, 112, 128, 160, ...), so that few shapes are compiled, and at most a fifth of a
long row is padding.
"""

import numpy as np

SHORTEST = 8


def padded(length, maximum):
    """Returns the length that rows of at most `length` tokens are padded to.

    >>> [padded(length, maximum=250) for length in (1, 8, 9, 64, 65, 129, 249)]
    [8, 8, 16, 64, 80, 160, 250]
    """
    step = max(SHORTEST, 2 ** (max(length - 1, 1).bit_length() - 3))
    return min(-(-length // step) * step, maximum)


def batches(lengths_N, budget, maximum, multiple=1):
    """Yields (index_M, rows, length) of every batch, the longest rows first; index_M are
    the indices of its rows.

    `rows` is a multiple of `multiple`, the number of devices to split them over. `rows` x
    `length` is at most `budget` tokens, unless `rows` is `multiple`. `length` is at most
    `maximum`. Only the last batch may have more `rows` than indices: the next power of
    two.

    >>> [(index.tolist(), *shape) for index, *shape in batches([3, 30, 9, 31], 64, 64)]
    [([3, 1], 2, 32), ([2, 0], 2, 16)]
    """
    lengths_N = np.asarray(lengths_N)
    order_N = np.argsort(-lengths_N, kind='stable')
    while len(order_N):
        length = padded(int(lengths_N[order_N[0]]), maximum)
        rows = max(budget // length // multiple * multiple, multiple)
        index_M, order_N = order_N[:rows], order_N[rows:]
        if len(index_M) < rows:
            power = 1 << (len(index_M) - 1).bit_length()
            rows = min(rows, -(-power // multiple) * multiple)
        yield index_M, rows, length
