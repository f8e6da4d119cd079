"""Tests for batches of rows of many lengths."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jepa_text.data import batching

LENGTHS = st.lists(st.integers(1, 300), max_size=200)


@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.integers(1, 4096), st.sampled_from([1, 2, 4]))
def test_every_row_fits_in_one_batch(lengths, budget, multiple):
    maximum = 300
    found = list(batching.batches(lengths, budget, maximum, multiple))
    indices = [int(i) for index_M, _, _ in found for i in index_M]
    assert sorted(indices) == list(range(len(lengths)))
    for index_M, rows, length in found:
        assert 0 < len(index_M) <= rows and rows % multiple == 0
        assert max(lengths[i] for i in index_M) <= length <= maximum
        assert rows * length <= budget or rows == multiple
    longest = [length for _, _, length in found]
    assert longest == sorted(longest, reverse=True)


@pytest.mark.parametrize('low', [3, 40, 200])
def test_there_is_little_padding_and_few_shapes(low):
    lengths_N = np.random.default_rng(0).integers(low, 257, 3000)
    found = list(batching.batches(lengths_N, 2048, 256))
    padded = sum(rows * length for _, rows, length in found)
    assert padded < 1.12 * lengths_N.sum()
    shapes = {(rows, length) for _, rows, length in found}
    assert len(shapes) <= 4 * np.log2(256 / low) + 2
