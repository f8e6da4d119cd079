"""Trained pooling starts as the mean and learns where the label is."""

import doctest
import functools

import jax.numpy as jnp
import numpy as np
import pytest

from jepa_text.measures import probes, trained_pooling
from jepa_text.models import pooling

RNG = np.random.default_rng(0)


def examples(count, seed, marked):
    """The label is only in one state, the marked one or the third; others are noise."""
    rng = np.random.default_rng(seed)
    hidden_NLD = 3 * rng.normal(size=(count, 8, 12)).astype(np.float32) + 1
    labels_N = rng.integers(0, 2, count)
    place_N = rng.integers(0, 5, count) if marked else np.full(count, 2)
    rows_N = np.arange(count)
    hidden_NLD[rows_N, place_N, 0] = 6.0 * (2 * labels_N - 1)
    hidden_NLD[:, :, 1] = 0
    hidden_NLD[rows_N, place_N, 1] = 20.0 * marked
    valid_NL = np.arange(8) < rng.integers(5, 9, (count, 1))
    return hidden_NLD, valid_NL, labels_N


def accuracy(pool, marked):
    sets = []
    for seed in (1, 2):
        hidden_NLD, valid_NL, labels_N = examples(400, seed, marked)
        sets += [np.asarray(pool(hidden_NLD, valid_NL)), labels_N]
    return probes.linear_probe(*sets)['accuracy']


@pytest.mark.slow
def test_examples():
    assert doctest.testmod(pooling).failed == 0


def test_a_query_learns_to_attend_to_the_mark():
    query_D = trained_pooling.train('attention', *examples(400, 1, True))
    assert query_D.argmax() == 1
    trained = accuracy(lambda h, v: pooling.attention(h, v, query_D), True)
    assert trained > 0.97 and trained > accuracy(pooling.mean, True) + 0.05


def test_models_of_the_same_shape_share_a_compiled_step():
    train = functools.partial(trained_pooling.train, 'attention', steps=2, rate=0.0123)
    before = trained_pooling._step._cache_size()
    hidden_NLD, valid_NL, labels_N = examples(70, 1, True)
    first_D = train(hidden_NLD, valid_NL, labels_N)
    other_D = train(3 * hidden_NLD + 1, valid_NL, labels_N)
    assert trained_pooling._step._cache_size() == before + 1
    assert abs(first_D - other_D).max() > 0


def test_position_weights_learn_the_position():
    logit_L = trained_pooling.train('weighted', *examples(400, 1, False))

    def pool(hidden_NLD, valid_NL):
        return pooling.weighted(hidden_NLD, valid_NL, pooling.learned(logit_L, valid_NL))

    assert logit_L.argmax() == 2
    assert accuracy(pool, False) > accuracy(pooling.mean, False) + 0.05


@pytest.mark.parametrize('name', ['attention', 'weighted'])
def test_zero_steps_give_the_mean_and_the_seed_matters(name):
    train = functools.partial(trained_pooling.train, name)
    hidden_NLD, valid_NL, labels_N = examples(50, 1, True)
    start = train(hidden_NLD, valid_NL, labels_N, steps=0)
    assert not start.any()
    mean_ND = pooling.mean(hidden_NLD, valid_NL)
    if name == 'attention':
        pooled_ND = pooling.attention(hidden_NLD, valid_NL, start)
    else:
        weight_NL = pooling.learned(start, valid_NL)
        pooled_ND = pooling.weighted(hidden_NLD, valid_NL, weight_NL)
    np.testing.assert_allclose(pooled_ND, mean_ND, rtol=1e-5, atol=1e-6)
    one, two, other = (
        train(hidden_NLD, valid_NL, labels_N, steps=3, seed=s) for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()


def test_the_scale_of_the_states_does_not_matter():
    hidden_NLD, valid_NL, labels_N = examples(100, 1, True)
    small, large = (
        trained_pooling.train(
            'attention', scale * hidden_NLD, valid_NL, labels_N, steps=20
        )
        for scale in (1.0, 1000.0)
    )
    np.testing.assert_allclose(small, 1000 * large, rtol=2e-2, atol=1e-4)


HIDDEN_BLD = RNG.normal(size=(3, 6, 4)).astype(np.float32)
VALID_BL = np.array([[1] * 6, [0, 1, 1, 0, 1, 0], [0] * 6], bool)


def test_attention_matches_numpy_and_ignores_padding():
    query_D = RNG.normal(size=4)
    spoilt_BLD = np.where(VALID_BL[:, :, None], HIDDEN_BLD, np.nan)
    found_BD = pooling.attention(spoilt_BLD, VALID_BL, query_D)
    for row in range(2):
        kept_LD = HIDDEN_BLD[row][VALID_BL[row]]
        share_L = np.exp(kept_LD @ query_D / 2)
        expected_D = share_L @ kept_LD / share_L.sum()
        np.testing.assert_allclose(found_BD[row], expected_D, rtol=1e-5)
    np.testing.assert_array_equal(found_BD[2], 0)
    np.testing.assert_allclose(
        pooling.attention(spoilt_BLD, VALID_BL, 0 * query_D),
        pooling.mean(HIDDEN_BLD, VALID_BL),
        **dict(rtol=1e-5, atol=1e-6),
    )


def test_large_logits_do_not_overflow():
    found_BD = pooling.attention(1e4 * HIDDEN_BLD, VALID_BL, np.full(4, 1e4))
    assert np.isfinite(found_BD).all()


def test_inverse_frequency_weights_against_the_formula():
    tokens_BL = RNG.integers(0, 9, (3, 6))
    counts_V = RNG.integers(0, 1000, 9)
    share_BL = counts_V[tokens_BL] / counts_V.sum()
    found_BL = pooling.inverse_frequency(jnp.asarray(tokens_BL), counts_V)
    np.testing.assert_allclose(found_BL, 1e-3 / (1e-3 + share_BL), rtol=1e-5)


def test_equal_weights_give_the_mean_and_an_empty_mask_zero():
    mean_BD = pooling.mean(HIDDEN_BLD, VALID_BL)
    found_BD = pooling.weighted(HIDDEN_BLD, VALID_BL, np.full((3, 6), 7.0))
    np.testing.assert_allclose(found_BD, mean_BD, rtol=1e-5)
    nothing_BD = pooling.weighted(HIDDEN_BLD, VALID_BL, np.zeros((3, 6)))
    np.testing.assert_array_equal(nothing_BD, 0)


@pytest.mark.parametrize(
    ('hidden', 'valid', 'labels', 'message'),
    [
        (
            np.ones((4, 2, 3)),
            np.ones((4, 2)),
            [0, 1],
            r'\(4, 2, 3\), \(4, 2\) and \(2,\)',
        ),
        (np.ones((4, 2, 3)), np.ones((4, 2)), [0] * 4, 'at least two classes'),
        (np.ones((4, 2, 3)), np.zeros((4, 2)), [0, 1] * 2, 'all False'),
    ],
)
def test_errors_name_what_is_wrong(hidden, valid, labels, message):
    with pytest.raises(ValueError, match=message):
        trained_pooling.train('attention', hidden, valid, labels)
