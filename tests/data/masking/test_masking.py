"""The samplers on many random rows, and masks against transformers' collator."""

import dataclasses

import numpy as np
import pytest
import test_objectives
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from jepa_text.data.masking import tokens as token_masks
from jepa_text.settings import resolve

SPECIAL = (0, 1, 2, 3)


def row(rng, length=64):
    tokens = rng.integers(0, 50, length).astype(np.int32)
    segments = np.repeat([1, 2, 0], [length // 2, length // 3, length])[:length]
    return tokens, segments


def by_word(allowed, rate, rng):
    """Masks words of one to four tokens, which depend only on the row."""
    starts = np.random.default_rng(len(allowed)).random(len(allowed)) < 0.6
    return token_masks.whole_word(allowed, rate, rng, starts)


def four_at_a_time(allowed, rate, rng):
    return token_masks.span(allowed, rate, rng, fixed_length=4)


EXACT = [token_masks.fixed_count, token_masks.span, four_at_a_time]
SAMPLERS = [*EXACT, by_word]


@pytest.mark.parametrize('sampler', [*SAMPLERS, token_masks.iid])
@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.floats(0, 1), st.integers(4, 200))
def test_samplers_mask_the_count_of_maskable_positions(sampler, seed, rate, length):
    rng = np.random.default_rng(seed)
    tokens, segments = row(rng, length)
    allowed = token_masks.maskable(tokens, segments, SPECIAL)
    before = allowed.copy()
    mask = sampler(allowed, rate, rng)
    assert_array_equal(allowed, before)
    assert mask.shape == (length,) and mask.dtype == bool
    assert not mask[~allowed].any()
    exact = rate * allowed.sum()
    if sampler is not token_masks.iid:
        assert mask.sum() <= token_masks.capacity(rate, length)
        assert mask.sum() <= np.ceil(exact + 1e-9)
    if sampler in EXACT:
        assert mask.sum() >= np.floor(exact - 1e-9)
    again = np.random.default_rng(seed)
    row(again, length)
    assert_array_equal(sampler(allowed, rate, again), mask)


@pytest.mark.parametrize('sampler', [*EXACT, by_word, token_masks.iid])
def test_rates_are_unbiased_for_short_rows(sampler, rng):
    allowed = np.arange(20) < 7
    # The count is binomial, or floor(2.1 + u): 3 in one row of ten, else 2.
    draws, deviation = 1000, 0.3
    if sampler is token_masks.iid:
        draws, deviation = 8000, np.sqrt(7 * 0.3 * 0.7)
    counts = [np.count_nonzero(sampler(allowed, 0.3, rng)) for _ in range(draws)]
    assert abs(np.mean(counts) - 2.1) < 5 * deviation / np.sqrt(draws)


@pytest.mark.parametrize('sampler', EXACT)
def test_every_position_is_equally_likely(sampler, rng):
    allowed = np.arange(18) % 7 != 3
    hits = sum(sampler(allowed, 0.4, rng) for _ in range(4000))
    # Four standard errors: sqrt(0.4 * 0.6 / 4000) is 0.0077.
    assert (np.abs(hits[allowed] / 4000 - 0.4) < 0.03).all()


def test_words_are_masked_whole_up_to_the_count(rng):
    for _ in range(300):
        starts = rng.random(120) < 0.5
        allowed = np.arange(120) % 31 > 0
        mask = token_masks.whole_word(allowed, 0.3, rng, starts)
        word = np.cumsum(starts | ~np.append(False, allowed[:-1]))
        for number in np.unique(word[mask]):
            assert mask[allowed & (word == number)].all()
        # There are enough single tokens to reach the count: 0.3 * 116 = 34.8.
        assert mask.sum() in (34, 35)


def test_words_that_do_not_fit_are_skipped_or_cut_if_first(rng):
    word_of_40 = np.arange(40) == 0
    mask = token_masks.whole_word(np.ones(40, bool), 0.25, rng, word_of_40)
    assert mask.sum() == 10 and len(np.flatnonzero(np.diff(mask.astype(int)))) <= 2
    # Words of 3 and a count of 8 or 9: two words, or three.
    threes = np.arange(60) % 3 == 0
    counts = {
        int(token_masks.whole_word(np.ones(60, bool), 0.14, rng, threes).sum())
        for _ in range(200)
    }
    assert counts == {6, 9}


def runs(mask):
    """Returns the lengths of the runs of True."""
    edges = np.flatnonzero(np.diff(mask.astype(int), prepend=0, append=0))
    return edges[1::2] - edges[::2]


def test_span_lengths_match_spanbert(rng):
    masks = [token_masks.span(np.ones(2048, bool), 0.15, rng) for _ in range(200)]
    found = np.concatenate([runs(mask) for mask in masks])
    wanted = 0.2 * 0.8 ** np.arange(10)
    wanted /= wanted.sum()
    shares = np.bincount(found, minlength=11)[1:] / len(found)
    # 16,000 spans; of the 80 per row, one is shortened and one may be split by the ends.
    assert len(shares) == 10
    assert_allclose(shares, wanted, atol=0.012)
    assert_allclose(found.mean(), 3.797, atol=0.1)
    assert_allclose(wanted @ np.arange(1, 11), 3.797, atol=1e-3)


def test_spans_are_separated_if_possible(rng):
    for rate in (0.5, 0.79, 0.9, 1.0):
        mask = token_masks.span(np.ones(1000, bool), rate, rng, fixed_length=4)
        assert mask.sum() == round(1000 * rate)
        assert (runs(mask).max() == 4) == (rate < 0.8)


def test_spans_end_at_specials_and_documents(rng):
    allowed = np.arange(60) % 6 > 0
    for _ in range(100):
        assert runs(token_masks.span(allowed, 0.8, rng, fixed_length=50)).max() <= 5


@pytest.mark.parametrize('sampler', SAMPLERS)
def test_rows_without_maskable_tokens_have_no_masks(sampler, rng):
    assert not sampler(np.zeros(12, bool), 0.5, rng).any()
    assert not sampler(np.ones(12, bool), 0.0, rng).any()


def test_a_limit_keeps_as_many_as_it_can(rng):
    mask = np.arange(20) % 2 == 0
    for maximum in (0, 3, 9, 10, 11):
        kept = token_masks.limit(mask, maximum, rng)
        assert not (kept & ~mask).any() and kept.sum() == min(maximum, mask.sum())


def test_the_iid_capacity_covers_six_standard_deviations(rng):
    given = dict(tokenizer=test_objectives.TOKENIZER, length=512, steps=10)
    section = dict(name='mlm', sampler='iid', rate=0.15)
    objective = resolve.build('objectives', section, **given)
    # P(binomial > mean + 6 sigma) is below 1e-8 for 512 and 0.15, but not for less.
    counts = (rng.random((20_000, 512)) < 0.15).sum(1)
    assert counts.max() < objective.capacity < 0.15 * 512 + 7 * np.sqrt(512 * 0.15 * 0.85)


@pytest.mark.slow
def test_overflow_is_counted_per_row_and_summed_over_microbatches():
    wide = test_objectives.build('mlm', sampler='iid', rate=0.5)
    narrow = dataclasses.replace(wide, capacity=5)
    found = set()
    for seed, row in enumerate(test_objectives.rows(np.random.default_rng(0), 200)):
        chosen = wide.corrupt(row, np.random.default_rng(seed))
        kept = narrow.corrupt(row, np.random.default_rng(seed))
        lost = chosen['loss_mask'].sum() - kept['loss_mask'].sum()
        assert kept['dropped'].shape == () and kept['dropped'].dtype == np.int32
        assert kept['dropped'] == lost == max(0, chosen['loss_mask'].sum() - 5)
        assert 'dropped' not in chosen
        # Dropped positions are visible, and not predicted.
        mask = kept['loss_mask']
        assert_array_equal(kept['inputs'], np.where(mask, 3, row['tokens']))
        assert not (mask & ~chosen['loss_mask']).any()
        found.add(int(lost))
    assert {0, 1, 3} <= found
    narrow = dataclasses.replace(wide, capacity=2)
    batch = test_objectives.batch_of(narrow)
    counts, total = narrow.counts(batch), int(batch['dropped'].sum())
    parts = [batch, *({key: x[i::2] for key, x in batch.items()} for i in (0, 1))]
    sums = [
        int(test_objectives.evaluate(narrow, part, counts)[1]['dropped_masks'])
        for part in parts
    ]
    assert sums[0] == sums[1] + sums[2] == total and all(sums)


def test_mixtures_with_iid_count_overflow_in_every_row(rng):
    parts = (dict(name='mlm', sampler='iid', rate=0.1), dict(name='clm'))
    made = test_objectives.build('mixture', parts=parts)
    found = [made.corrupt(row, rng) for row in test_objectives.rows(rng, 20)]
    assert all(row.keys() == found[0].keys() for row in found)
    assert all(row['dropped'].shape == () and row['dropped'] == 0 for row in found)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-1, 40), max_size=6, unique=True), st.integers(0, 2**32 - 1))
def test_maskable_matches_numpy_isin(special_ids, seed):
    """Special ids anywhere, tokens above and below them; -1 is one that is missing."""
    rng = np.random.default_rng(seed)
    tokens_L = rng.integers(0, 60, 30).astype(np.int32)
    segment_ids_L = rng.integers(0, 3, 30).astype(np.int32)
    expected = (segment_ids_L > 0) & ~np.isin(tokens_L, special_ids)
    found = token_masks.maskable(tokens_L, segment_ids_L, special_ids)
    assert_array_equal(found, expected)


@pytest.mark.parametrize('sampler', [token_masks.iid, token_masks.span, by_word])
def test_masks_of_0_and_1_are_those_of_bools(sampler):
    tokens_L, segments_L = row(np.random.default_rng(1))
    allowed_L = token_masks.maskable(tokens_L, segments_L, SPECIAL)
    given = dict(mask_id=3, random_ids=[9], mask_share=0.5, random_share=0.3)
    masks, inputs = [], []
    for dtype in (bool, np.int64):
        mask_L = sampler(allowed_L.astype(dtype), 0.4, np.random.default_rng(2))
        rng = np.random.default_rng(3)
        masks.append(mask_L)
        inputs.append(token_masks.replace(tokens_L, mask_L.astype(dtype), rng, **given))
    assert masks[1].dtype == bool and masks[0].any()
    assert_array_equal(*masks)
    assert_array_equal(*inputs)


@pytest.mark.parametrize('rate', [15, -1, 1.01, float('nan')])
def test_rates_and_shares_outside_0_to_1_are_refused(rate):
    allowed_L, rng = np.ones(8, bool), np.random.default_rng(0)
    for sampler in (token_masks.iid, token_masks.span, token_masks.fixed_count, by_word):
        with pytest.raises(ValueError, match=f'rate={rate} must be from 0 to 1'):
            sampler(allowed_L, rate, rng)
    shares = [(rate, 0.0), (0.5, rate), (0.6, 0.5)]
    for mask_share, random_share in shares:
        with pytest.raises(ValueError, match='share=.* must be from 0 to 1'):
            token_masks.replace(
                np.arange(8),
                allowed_L,
                rng,
                mask_id=3,
                random_ids=[9],
                mask_share=mask_share,
                random_share=random_share,
            )
    with pytest.raises(ValueError, match='fixed_length=0 must be at least 1'):
        token_masks.span(allowed_L, 0.5, rng, fixed_length=0)


RATE, WORDS = 0.15, 27


def assert_near(count, n, share):
    assert abs(count - n * share) < 4.5 * np.sqrt(n * share * (1 - share))


def test_masks_match_the_statistics_of_the_transformers_collator(rng):
    shares = dict(mask_share=0.8, random_share=0.1)
    objective = test_objectives.build('mlm', rate=RATE, sampler='iid', **shares)
    rows = test_objectives.rows(rng, 3000)
    made = [objective.corrupt(row, rng) for row in rows]
    ids, inputs, is_masked = (
        np.stack([row[key] for row in made]) for key in ('tokens', 'inputs', 'loss_mask')
    )
    is_special = ids < 4
    assert not is_masked[is_special].any()
    assert_array_equal(inputs[~is_masked], ids[~is_masked])
    n = is_masked.sum()
    assert_near(n, (~is_special).sum(), RATE)
    is_hidden, is_kept = (inputs == 3) & is_masked, (inputs == ids) & is_masked
    assert_near(is_hidden.sum(), n, 0.8)
    assert_near(is_kept.sum(), n, 0.1 + 0.1 / WORDS)
    # Chi-square over positions, of mean k and variance 2k.
    expected = RATE * (~is_special).sum(0)[:8]
    differences = is_masked.sum(0)[:8] - expected
    chi = (differences**2 / (expected * (1 - RATE))).sum()
    assert abs(chi - len(expected)) < 4.5 * np.sqrt(2 * len(expected))
