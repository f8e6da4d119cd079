"""What the samplers promise, for many random rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from jepa_text import masking

SPECIAL = (0, 1, 2, 3)


def row(rng, length=64):
    tokens = rng.integers(0, 50, length).astype(np.int32)
    segments = np.repeat([1, 2, 0], [length // 2, length // 3, length])[:length]
    return tokens, segments


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.01, 0.99), st.integers(4, 200))
def test_never_specials_never_padding_never_over_capacity(seed, rate, length):
    rng = np.random.default_rng(seed)
    tokens, segments = row(rng, length)
    allowed = masking.maskable(tokens, segments, SPECIAL)
    for mask in (
        masking.fixed_count(allowed, rate, rng),
        masking.limit(masking.iid(allowed, rate, rng), 3, rng),
    ):
        assert not mask[np.isin(tokens, SPECIAL)].any()
        assert not mask[segments == 0].any()
    assert masking.fixed_count(allowed, rate, rng).sum() <= masking.capacity(rate, length)
    assert masking.limit(allowed, 3, rng).sum() == min(3, allowed.sum())


def test_no_special_is_ever_hidden_in_ten_thousand_rows():
    rng = np.random.default_rng(0)
    for _ in range(10_000):
        tokens, segments = row(rng, 16)
        mask = masking.fixed_count(masking.maskable(tokens, segments, SPECIAL), 0.4, rng)
        assert (tokens[mask] > 3).all() and (segments[mask] > 0).all()


@pytest.mark.parametrize('sampler', [masking.fixed_count, masking.iid])
def test_rate_is_right_in_expectation_also_for_short_rows(sampler):
    rng = np.random.default_rng(0)
    allowed = np.arange(20) < 7
    share = np.mean([sampler(allowed, 0.3, rng).sum() for _ in range(20_000)]) / 7
    # Standard error: at most 0.46 / sqrt(7 * 20000).
    assert abs(share - 0.3) < 5 * 0.46 / np.sqrt(140_000)


def test_fixed_count_is_floor_or_ceiling():
    rng = np.random.default_rng(0)
    counts = {
        int(masking.fixed_count(np.ones(10, bool), 0.25, rng).sum()) for _ in range(99)
    }
    assert counts == {2, 3}


def test_every_position_is_equally_likely():
    rng = np.random.default_rng(0)
    hits = sum(masking.fixed_count(np.ones(8, bool), 0.5, rng) for _ in range(8000))
    assert (np.abs(hits / 8000 - 0.5) < 0.03).all()


def test_replacement_shares():
    rng = np.random.default_rng(0)
    tokens = np.full(100_000, 7, np.int32)
    mask = np.arange(100_000) % 2 == 0
    words = np.array([8, 9])
    inputs = masking.replace(
        tokens, mask, rng, mask_id=3, random_ids=words, mask_share=0.8, random_share=0.1
    )
    hidden = inputs[mask]
    for share, expected in (
        ((hidden == 3).mean(), 0.8),
        (np.isin(hidden, words).mean(), 0.1),
        ((hidden == 7).mean(), 0.1),
    ):
        assert abs(share - expected) < 5 * 0.5 / np.sqrt(50_000)
    assert_array_equal(inputs[~mask], tokens[~mask])


def test_all_masked_by_default_shares():
    rng = np.random.default_rng(0)
    tokens = np.arange(4, 14, dtype=np.int32)
    mask = tokens % 3 == 0
    inputs = masking.replace(
        tokens, mask, rng, mask_id=3, random_ids=tokens, mask_share=1, random_share=0
    )
    assert_array_equal(inputs, np.where(mask, 3, tokens))
