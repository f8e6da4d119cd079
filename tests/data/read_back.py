"""Reading of rows and batches for comparison."""

import itertools

import numpy as np

from jepa_text.data import pipeline, stream


def pieces(folder, split):
    """Returns the tokens of each piece of a document in the rows of a split."""
    data = pipeline.Rows(folder, split)
    return [
        row['tokens'][row['segment_ids'] == number]
        for row in (data[i] for i in range(len(data)))
        for number in range(1, row['segment_ids'].max() + 1)
    ]


def pieces_of(packed, row):
    """Returns [(document, start, length)] of a row of a packing.Packed."""
    _, *columns = packed.rows(np.array([row]))
    return list(zip(*(column.tolist() for column in columns)))


def texts(folder, split, tokenizer):
    """Returns `pieces`, decoded to text."""
    return [tokenizer.decode(piece) for piece in pieces(folder, split)]


class Numbered:
    """Rows that contain the number of their part and their own in it."""

    def __init__(self, count, part=0):
        self.count, self.part, self.fingerprint = count, part, f'rows {part}'

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        row = np.array([self.part, range(self.count)[index]])
        return {'row': row, 'segment_ids': np.ones(3, np.int32)}


def draw(row, rng, step):
    """A corruption that returns a draw of its generator."""
    return row | {'draw': rng.random(2), 'step': np.array([step])}


def take(count, mixture, corrupt=draw, **given):
    """Returns the first batches of a stream, and closes the iterator."""
    made = stream.batches(mixture, corrupt, **given)
    found = list(itertools.islice(made, count))
    made.close()
    return found


def assert_same(ones, others):
    """Asserts that two sequences of batches are equal."""
    for one, other in zip(ones, others, strict=True):
        assert one.keys() == other.keys()
        for key in one:
            np.testing.assert_array_equal(one[key], other[key])


def joined(parts):
    """Joins the batches of each process, [[batch, ...] per process], to global
    batches."""
    return [
        {key: np.concatenate([one[key] for one in step]) for key in step[0]}
        for step in zip(*parts, strict=True)
    ]
