"""Tests for context and target blocks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jepa_text.data.masking import blocks


def random_rows(rng, documents):
    """Returns (valid_L, segment_ids_L) of a row of many documents of random length, with
    specials at their ends and sometimes in the middle, and padding."""
    lengths = rng.integers(1, 30, documents)
    segments = np.repeat(np.arange(1, documents + 1), lengths)
    valid = rng.random(len(segments)) > 0.05
    ends = np.cumsum(lengths)
    valid[ends - 1] = False
    valid[(ends - lengths)[::2]] = False
    padding = np.zeros(rng.integers(0, 20), int)
    # Padding is never masked, even if marked as valid.
    return np.append(valid, padding == 0), np.append(segments, padding)


def targets_of(valid, rng, count, scale, segments):
    given = dict(count=count, target_scale=scale, min_keep=1)
    return blocks.context_and_targets(valid, rng, segments, **given)[1]


def stretches(mask):
    """Counts the runs of True."""
    return int((np.diff(mask.astype(int), prepend=0) == 1).sum())


@pytest.mark.parametrize(
    'min_keep, count, high', [(1, 1, 0.25), (4, 4, 0.2), (8, 6, 0.9)]
)
def test_context_and_targets_are_disjoint_in_many_documents(min_keep, count, high, rng):
    """Documents of a row are masked independently, so 400 of them are like 400 rows;
    three times 8,000 of them."""
    for _ in range(20):
        valid, segments = random_rows(rng, 400)
        context, targets = blocks.context_and_targets(
            valid,
            rng,
            segments,
            count=count,
            target_scale=(0.1, high),
            context_scale=(0.6, 0.9),
            min_keep=min_keep,
        )
        assert targets.shape == (count, len(valid)) and context.shape == valid.shape
        union = targets.any(0)
        assert not (context & union).any()
        allowed = valid & (segments > 0)
        assert not (context | union)[~allowed].any()
        sizes = np.bincount(segments[allowed], minlength=401)[1:]
        kept = np.bincount(segments[context], minlength=401)[1:]
        hidden = np.bincount(segments[union], minlength=401)[1:]
        assert (kept >= np.minimum(sizes, min_keep)).all()
        # Targets are not dropped unnecessarily.
        assert (hidden[sizes > min_keep] > 0).all()
        assert not hidden[sizes <= min_keep].any()


def test_block_lengths_and_starts_are_as_specified(rng):
    n, low, high = 40, 0.1, 0.25
    segments = np.repeat(np.arange(1, 1001), n)
    valid = np.ones(len(segments), bool)
    found = [targets_of(valid, rng, 4, (low, high), segments) for _ in range(5)]
    masks_XN = np.concatenate(found).reshape(-1, n)
    lengths, starts = masks_XN.sum(1), masks_XN.argmax(1)
    assert all(stretches(mask) == 1 for mask in masks_XN[:500])
    # P(ceil(40 u) = k), u uniform in [0.1, 0.25]: 5 to 10 are equally likely.
    shares = np.bincount(lengths, minlength=12) / len(lengths)
    assert_allclose(shares[5:11], 1 / 6, atol=5 * 0.37 / np.sqrt(len(lengths)))
    assert_allclose(shares[5:11].sum(), 1)
    for length in (5, 10):
        places = np.bincount(starts[lengths == length], minlength=n) / sum(
            lengths == length
        )
        expected = np.where(np.arange(n) <= n - length, 1 / (n - length + 1), 0)
        assert_allclose(places, expected, atol=0.015)


def test_blocks_skip_specials_and_stay_in_their_document(rng):
    segments = np.repeat([1, 2, 0], [12, 9, 3])
    valid = (segments > 0) & ~np.isin(np.arange(24), [0, 5, 11, 12, 20])
    for _ in range(300):
        for mask in targets_of(valid, rng, 1, (0.3, 0.5), segments):
            for document, size in ((1, 9), (2, 7)):
                block = mask[valid & (segments == document)]
                assert len(block) == size and stretches(block) == 1
                assert np.ceil(0.3 * size) <= block.sum() <= np.ceil(0.5 * size)
            assert not mask[~valid].any()


def test_context_is_one_block_minus_the_targets(rng):
    segments, valid = np.ones(100, int), np.ones(100, bool)
    spans = []
    for _ in range(300):
        context, targets = blocks.context_and_targets(
            valid, rng, segments, count=2, context_scale=(0.5, 0.6)
        )
        chosen = np.flatnonzero(context)
        inside = np.arange(chosen[0], chosen[-1] + 1)
        assert (context | targets.any(0))[inside].all()
        spans.append(len(inside))
        assert (targets.sum(1) >= 15).all() and (targets.sum(1) <= 20).all()
    assert max(spans) <= 60 and min(spans) < 50


def test_shrunk_targets_are_contiguous():
    rng, counts = np.random.default_rng(0), set()
    segments, valid = np.ones(30, int), np.ones(30, bool)
    sides = set()
    for _ in range(300):
        context, targets = blocks.context_and_targets(
            valid, rng, segments, count=3, target_scale=(0.8, 0.9), min_keep=10
        )
        assert max(map(stretches, targets)) <= 1
        counts.add(int(context.sum()))
        sides.add((bool(context[0]), bool(context[-1])))
    assert counts == {10}
    assert {(True, False), (False, True)} <= sides


def test_several_masks_of_one_row(rng):
    segments, valid = np.repeat([1, 0], [60, 4]), np.arange(64) < 60
    contexts, targets = blocks.several(valid, rng, segments, 5, count=2)
    assert contexts.shape == targets.shape == (5, 64)
    assert not (contexts & targets).any()
    assert len({mask.tobytes() for mask in targets}) == 5


def test_capacity_is_never_exceeded(rng):
    for _ in range(300):
        documents = rng.integers(1, 9)
        valid, segments = random_rows(rng, documents)
        found = targets_of(valid, rng, 3, (0.1, 0.3), segments)
        assert found.sum(1).max() <= blocks.capacity(0.3, len(valid), documents)
    assert blocks.capacity(0.25, 64) == 16
    assert blocks.capacity(1.0, 64, 5) == 64


def test_kept_indices_of_many_masks_and_random_ones(rng):
    masks = rng.random((3, 5, 40)) < rng.random((3, 5, 1))
    for given in (None, rng):
        index, ok = blocks.kept_indices(masks, 12, given)
        assert index.shape == ok.shape == (3, 5, 12)
        assert_array_equal(ok.sum(-1), np.minimum(masks.sum(-1), 12))
        assert_array_equal(np.take_along_axis(masks, index, -1), ok)
        assert all(len(set(row)) == 12 for row in index.reshape(-1, 12))
        assert all((np.diff(i[o]) > 0).all() for i, o in zip(index[0], ok[0]))
    hits = np.zeros(10)
    for _ in range(3000):
        index, _ = blocks.kept_indices(np.arange(10) < 8, 4, rng)
        hits[index] += 1
    assert (np.abs(hits[:8] / 3000 - 0.5) < 0.06).all() and not hits[8:].any()


@pytest.mark.parametrize('length', [1, 5])
def test_rows_with_nothing_valid_have_empty_masks(length):
    rng, nothing = np.random.default_rng(0), np.zeros(length, int)
    context, targets = blocks.context_and_targets(nothing > 0, rng, nothing)
    assert not context.any() and targets.shape == (4, length) and not targets.any()
    context, targets = blocks.context_and_targets(nothing > 0, rng, nothing + 1)
    assert not context.any() and not targets.any()


def test_invalid_settings_raise():
    rng, ones = np.random.default_rng(0), np.ones(8, int)

    def draw(**settings):
        return blocks.context_and_targets(ones > 0, rng, ones, **settings)

    for settings, message in (
        (dict(count=0), 'count=0 must be at least 1'),
        (dict(min_keep=0), 'min_keep=0 must be at least 1'),
        (dict(target_scale=(0.3, 0.2)), r'target_scale=\(0.3, 0.2\) needs 0 < low'),
        (dict(context_scale=(0.5, 1.5)), r'context_scale=\(0.5, 1.5\) needs 0 < low'),
        (dict(target_scale=(0, 0.2)), r'scale=\(0, 0.2\) needs 0 < low'),
    ):
        with pytest.raises(ValueError, match=message):
            draw(**settings)
    for capacity in (0, 9):
        with pytest.raises(ValueError, match=rf'capacity={capacity} is not in \[1, 8\]'):
            blocks.kept_indices(ones > 0, capacity)
