import numpy as np
import pytest
import read_back
from hypothesis import given, settings
from hypothesis import strategies as st

from jepa_text.data.rows import packing
from jepa_text.data.sources import bundled

LENGTHS = st.lists(st.integers(0, 70), max_size=60)


@settings(max_examples=80, deadline=None)
@given(lengths=LENGTHS, row_length=st.integers(1, 33))
def test_best_fit_packs_every_token_once_in_order(lengths, row_length):
    packed = packing.best_fit(lengths, row_length)
    found, used = {document: [] for document in range(len(lengths))}, []
    for row in range(len(packed)):
        pieces = read_back.pieces_of(packed, row)
        assert 1 <= len(pieces) <= row_length
        used.append(sum(n for _, _, n in pieces))
        assert used[-1] <= row_length
        for document, start, n in pieces:
            assert n > 0
            found[document].append((start, n))
    for document, length in enumerate(lengths):
        # Sorted by start, the pieces of a document are contiguous.
        at = 0
        for start, n in sorted(found[document]):
            assert start == at
            at += n
        assert at == length
    assert packed.length.sum() == sum(lengths)
    # Only documents longer than a row are cut.
    assert (packed.start % row_length == 0).all()
    pieces = np.bincount(packed.document, minlength=len(lengths))
    np.testing.assert_array_equal(pieces, -(-np.array(lengths, int) // row_length))
    # No two rows would fit in one.
    used.sort()
    assert len(used) < 2 or used[0] + used[1] > row_length


def test_best_fit_uses_the_row_with_the_least_room():
    # After the 7 and the 6, rows have 1 and 2 left: the 2 joins the 6, the 1 the 7.
    packed = packing.best_fit([6, 7, 1, 2], 8)
    assert [read_back.pieces_of(packed, row) for row in range(2)] == [
        [(1, 0, 7), (2, 0, 1)],
        [(0, 0, 6), (3, 0, 2)],
    ]


@settings(max_examples=50, deadline=None)
@given(lengths=LENGTHS, row_length=st.integers(1, 33))
def test_concat_is_the_stream_cut_into_rows(lengths, row_length):
    stream = [(d, i) for d, length in enumerate(lengths) for i in range(length)]
    packed = packing.concat(lengths, row_length)
    for row in range(len(packed)):
        tokens = [
            (d, start + i)
            for d, start, n in read_back.pieces_of(packed, row)
            for i in range(n)
        ]
        assert tokens == stream[row * row_length : (row + 1) * row_length]
    assert len(packed) == -(-len(stream) // row_length)
    assert packed.length.sum() == len(stream)


@pytest.mark.parametrize('row_length', [64, 128, 256, 512])
def test_the_bundled_corpus_has_almost_no_padding(row_length, ours):
    texts = [document['text'] for document in bundled.make('heldout')]
    lengths = [len(ids) + 2 for ids in ours.encode_many(texts)]
    for pack in (packing.best_fit, packing.concat):
        packed = pack(lengths, row_length)
        assert packed.length.sum() / (len(packed) * row_length) > 0.99


@settings(max_examples=80, deadline=None)
@given(lengths=LENGTHS, row_length=st.integers(24, 40), seed=st.integers(0, 9))
def test_sequences_of_the_paper_are_the_stream(lengths, row_length, seed):
    packed = packing.paper(lengths, row_length, np.random.default_rng(seed))
    starts = np.cumsum(lengths) - lengths
    at = 0
    for row in range(len(packed)):
        pieces = read_back.pieces_of(packed, row)
        assert len(pieces) == 2 or row == len(packed) - 1
        for document, start, n in pieces:
            assert starts[document] + start == at and lengths[document] > start
            at += n
        if row < len(packed) - 1:
            assert sum(n for *_, n in pieces) == row_length
            assert min(n for *_, n in pieces) >= packing.SHORTEST
    assert at == sum(lengths) == packed.length.sum()


def test_sequence_lengths_match_the_paper(rng):
    packed = packing.paper(rng.integers(100, 1500, 20_000), 2048, rng)
    lengths = packed.length[:-2]
    assert abs(lengths.mean() - 1024) < 1e-9
    assert lengths.min() == 12 and lengths.max() == 2036
    # Uniform: both halves and both ends of the range occur.
    assert abs((lengths <= 500).mean() - 489 / 2025) < 0.02
    assert abs((lengths[::2] < lengths[1::2]).mean() - 0.5) < 0.02
