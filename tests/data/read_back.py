"""Rows and batches, read back to be compared."""

import numpy as np

from jepa_text.data import pipeline


def pieces(folder, split):
    """The tokens of each piece of a document in the rows of a split."""
    data = pipeline.Rows(folder, split)
    return [
        row['tokens'][row['segment_ids'] == number]
        for row in (data[i] for i in range(len(data)))
        for number in range(1, row['segment_ids'].max() + 1)
    ]


def texts(folder, split, tokenizer):
    """The same as text."""
    return [tokenizer.decode(piece) for piece in pieces(folder, split)]


def assert_same(ones, others):
    """Are these batches those?"""
    for one, other in zip(ones, others, strict=True):
        assert one.keys() == other.keys()
        for key in one:
            np.testing.assert_array_equal(one[key], other[key])


def joined(parts):
    """The global batches of what each process has: [[batch, ...] of each process]."""
    return [
        {key: np.concatenate([one[key] for one in step]) for key in step[0]}
        for step in zip(*parts, strict=True)
    ]
