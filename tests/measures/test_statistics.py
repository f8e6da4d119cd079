"""Intervals and tests against scipy, and their error rates."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from jepa_text.measures import statistics

RNG = np.random.default_rng(0)
SKEWED_N = RNG.exponential(size=80)
FIRST_N = RNG.normal(size=60) + 0.4
SECOND_N = RNG.normal(size=60)


@pytest.mark.parametrize('level', [0.9, 0.95])
def test_a_bootstrap_matches_scipy_and_depends_on_its_seed(level):
    expected = stats.bootstrap(
        (SKEWED_N,), np.median, confidence_level=level, method='percentile',
        n_resamples=500, vectorized=False, rng=3,
    ).confidence_interval  # fmt: skip
    given = dict(level=level, resamples=500)
    found = statistics.bootstrap_interval(np.median, SKEWED_N, seed=3, **given)
    assert found == pytest.approx((np.median(SKEWED_N), *expected))
    assert found != statistics.bootstrap_interval(np.median, SKEWED_N, seed=4, **given)


def test_a_bootstrap_of_means_is_that_of_any_function():
    given = dict(resamples=300, seed=5)
    slow = statistics.bootstrap_interval(lambda x_N: x_N.mean(), SKEWED_N, **given)
    assert statistics.bootstrap_interval(np.mean, SKEWED_N, **given) == slow


def test_resamples_take_little_memory():
    values_SN = RNG.random((5, 5000))
    for interval in (
        lambda: statistics.bootstrap_interval(np.mean, values_SN[0]),
        lambda: statistics.two_level_interval(values_SN, resamples=2000),
    ):
        tracemalloc.start()
        interval()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4 * 2**20  # all indices at once: 76 MiB


def test_intervals_have_about_their_nominal_coverage():
    rng, held = np.random.default_rng(2), 0
    for seed in range(200):
        values_N = rng.normal(size=50)
        found = statistics.bootstrap_interval(np.mean, values_N, resamples=300, seed=seed)
        held += found.low <= 0 <= found.high
    assert 0.89 < held / 200 < 0.99


def test_samples_are_resampled_together_and_nan_is_ignored():
    def gap(first_N, second_N):
        return np.nan if 0 in first_N else np.max(np.abs(first_N - second_N))

    found = statistics.bootstrap_interval(gap, np.arange(1, 9), np.arange(2, 10))
    assert found == (1, 1, 1)
    lost = statistics.bootstrap_interval(
        lambda x_N: np.nan if 9 not in x_N else 1.0, np.arange(10)
    )
    assert lost == (1, 1, 1)


def test_two_levels_add_their_variances():
    rng = np.random.default_rng(4)
    seeds_S1 = rng.normal(size=(30, 1))
    sentences_N = 2 * rng.normal(size=50)
    found = statistics.two_level_interval(seeds_S1 + sentences_N)
    expected = np.sqrt(seeds_S1.var() / 30 + sentences_N.var() / 50)
    assert found.high - found.low == pytest.approx(2 * 1.96 * expected, rel=0.08)
    one = statistics.two_level_interval(SKEWED_N[None])
    many = statistics.bootstrap_interval(np.mean, SKEWED_N)
    np.testing.assert_allclose(one, many, rtol=0.03)


def test_two_level_intervals_are_too_narrow_for_a_test():
    """Over five seeds, far more than 5 % of true means lie outside."""
    rng = np.random.default_rng(4)
    outside = 0
    for seed in range(200):
        values_SN = 0.04 * rng.normal(size=(5, 1)) + 0.1 * rng.normal(size=(5, 200))
        found = statistics.two_level_interval(values_SN, resamples=200, seed=seed)
        outside += not found.low <= 0 <= found.high
    assert outside / 200 > 0.06


@pytest.mark.parametrize('count', [5, 12])
def test_sign_flip_enumerates_all_signs_of_few_pairs(count):
    difference_N = FIRST_N[:count] - SECOND_N[:count]
    signs_RN = 1 - 2 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
    extreme_R = np.abs(signs_RN @ difference_N) >= abs(difference_N.sum()) - 1e-9
    found = statistics.sign_flip(FIRST_N[:count], SECOND_N[:count])
    assert found == pytest.approx(extreme_R.mean())


def test_sign_flip_of_many_pairs_is_near_the_t_test():
    nearer_N = FIRST_N - 0.2
    expected = stats.ttest_rel(nearer_N, SECOND_N).pvalue
    assert statistics.sign_flip(nearer_N, SECOND_N) == pytest.approx(expected, rel=0.2)
    assert statistics.sign_flip(FIRST_N + 9, SECOND_N) == pytest.approx(1 / 10_001)
    assert statistics.sign_flip(FIRST_N, FIRST_N) == 1


@pytest.mark.slow
@pytest.mark.parametrize('seeds', [5, 6, 8, 12])
def test_over_seeds_has_its_nominal_error_rate(seeds):
    rng, count = np.random.default_rng(1), 1500 if seeds < 12 else 300
    p = [statistics.over_seeds(*rng.normal(size=(2, seeds))).p for _ in range(count)]
    assert 0.03 <= np.mean(np.array(p) <= 0.05) <= 0.06


def test_over_seeds_is_a_paired_t_test_and_sign_flips_from_eight_seeds():
    rng = np.random.default_rng(2)
    for seeds in (5, 7, 8):
        first_S, second_S = rng.normal(size=(2, seeds)) + [[0.5], [0]]
        found = statistics.over_seeds(first_S, second_S)
        theirs = stats.ttest_rel(first_S, second_S)
        assert found[1:3] == pytest.approx(tuple(theirs.confidence_interval(0.95)))
        expected = theirs.pvalue
        if seeds == 8:
            assert found.test == 'sign flips'
            expected = statistics.sign_flip(first_S, second_S)
        assert found.p == pytest.approx(expected)
    # The t-test if 2^-7 times the number of tests can never be small enough.
    many = statistics.over_seeds(first_S, second_S, tests=7)
    assert many.test == 't-test' and many.p == pytest.approx(theirs.pvalue)
    # Of many pairs, no more than 10,000 random signs are drawn.
    assert (
        statistics.over_seeds(*rng.normal(size=(2, 15)), tests=500).test == 'sign flips'
    )
    assert statistics.over_seeds(*rng.normal(size=(2, 15)), tests=501).test == 't-test'


def test_rounding_errors_are_not_a_difference():
    same_S = np.array([0.1, 0.2, 0.3, 0.4, 0.7])
    assert statistics.over_seeds(same_S, same_S).p == 1
    assert statistics.over_seeds(same_S + 1e-16, same_S).p == 1
    constant = statistics.over_seeds(same_S + 1, same_S)
    assert (constant.p, constant.test) == (2 / 2**5, 'sign flips')


def test_p_values_are_corrected_together():
    """A pair with exactly MIN_SEEDS seeds is tested and counted."""
    few = statistics.MIN_SEEDS
    pairs = [(FIRST_N[:8], SECOND_N[:8])] + [(FIRST_N[:few], SECOND_N[:few])] * 6
    found = statistics.corrected([*pairs, ([], []), ([1.0], [2.0])])
    # Seven tests are too many for sign flips of eight seeds.
    assert [one.test for one, _ in found] == ['t-test'] * 7 + ['', '']
    surest, its = min(found[:7], key=lambda pair: pair[0].p)
    assert its == min(1, 7 * surest.p)
    assert [one.seeds for one, _ in found[7:]] == [0, 1] and np.isnan(found[8][1])


def test_holm_rejects_step_by_step_as_published():
    p_T = RNG.random(30) ** 4
    for level in (0.01, 0.05, 0.3):
        rejected = np.zeros(30, bool)
        for step, index in enumerate(np.argsort(p_T)):
            if p_T[index] > level / (30 - step):
                break
            rejected[index] = True
        np.testing.assert_array_equal(statistics.holm(p_T) <= level, rejected)
    assert rejected.any() and not rejected.all()


def test_corrected_p_values_keep_their_order_and_never_shrink():
    p_T = np.array([0.2, 0.01, 0.01, 1.0, 0.0])
    adjusted_T = statistics.holm(p_T)
    assert np.all(adjusted_T >= p_T) and np.all(adjusted_T <= 1)
    assert np.all(np.diff(adjusted_T[np.argsort(p_T)]) >= 0)
    assert statistics.holm([0.03]).tolist() == [0.03] and statistics.holm([]).size == 0


@pytest.mark.parametrize(
    ('call', 'words'),
    [
        (lambda s: s.bootstrap_interval(np.mean, [1.0, np.nan]), 'a value of nan'),
        (lambda s: s.bootstrap_interval(np.mean, []), r'the same length, but have \[0\]'),
        (lambda s: s.bootstrap_interval(np.mean, [1, 2, 3], [1, 2]), r'\[3, 2\]'),
        (lambda s: s.bootstrap_interval(np.mean, [1.0], level=95), 'level=95'),
        (lambda s: s.bootstrap_interval(np.mean, [1.0], resamples=0), '0 resamples'),
        (lambda s: s.two_level_interval([1.0, 2.0]), r'\[seeds, sentences\]'),
        (lambda s: s.two_level_interval([[1.0, np.inf]]), '1 values are not'),
        (lambda s: s.two_level_interval(np.zeros((3, 0))), r'shape is \(3, 0\)'),
        (lambda s: s.sign_flip(FIRST_N, SECOND_N[1:]), r'\(60,\) and \(59,\)'),
        (lambda s: s.over_seeds([1.0, np.nan], [0.0, 0.0]), 'NaN or inf'),
        (lambda s: s.holm([0.1, 1.2]), 'between 0 and 1'),
    ],
)
def test_errors_name_what_is_wrong(call, words):
    with pytest.raises(ValueError, match=words):
        call(statistics)
