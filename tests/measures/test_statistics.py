"""Intervals, tests and their power against scipy, tables and simulation."""

import tracemalloc

import draws
import numpy as np
import pytest
from scipy import stats

from jepa_text.measures import correlations, power, probes, statistics

RNG = np.random.default_rng(0)
SKEWED_N = RNG.exponential(size=80)
FIRST_N = RNG.normal(size=60) + 0.4
SECOND_N = RNG.normal(size=60)


@pytest.mark.parametrize('right', [0, 1, 37, 99, 100])
def test_the_interval_of_a_share_is_wilsons(right):
    values_N = np.arange(100) < right
    expected = stats.binomtest(right, 100).proportion_ci(method='wilson')
    found = statistics.mean_interval(values_N, 'share')
    assert found == pytest.approx((right / 100, *expected))
    assert found.high - found.low > 0.03


def test_examples_without_a_common_key_are_independent():
    values_N, keys = RNG.normal(size=60), np.arange(120).reshape(2, 60)
    expected = stats.ttest_1samp(values_N, 0).confidence_interval()
    for clusters in ((), keys, keys[:1]):
        found = statistics.mean_interval(values_N, 'difference', clusters)
        assert found[1:] == pytest.approx(expected)
    # Each twice: as many examples as different ones, up to the degrees of freedom.
    twice_N, twice = np.repeat(values_N, 2), np.repeat(keys[:1], 2, axis=1)
    found = statistics.variance(twice_N, twice)
    assert found[0] == pytest.approx(values_N.var(ddof=1) / 60, rel=0.02)
    assert found[1] < 60 and found[2] == 60
    assert statistics.variance(twice_N)[0] < 0.6 * found[0]
    # If all are dependent, nothing is known of others.
    for scale in statistics.SCALES:
        assert np.isnan(statistics.mean_interval([0, 1, 1], scale, ['aaa'])[1:]).all()
    # One long text does not give each the memory of the longest.
    long = [['x' * 10**6, *map(str, range(59))]]
    tracemalloc.start()
    assert statistics.variance(values_N, long) == statistics.variance(values_N)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()
    # All examples share a text: nothing is known, but nothing fails.
    shared = [['a'] * 60, keys[1].astype(str)]
    assert np.isfinite(statistics.variance(values_N, shared)[0])


def _reciprocal_ranks(rng, count):
    ranks, p = np.array([1, 1 / 2, 1 / 3, 1 / 10, 0]), (0.6, 0.2, 0.06, 0.04, 0.1)
    return dict(values_N=rng.choice(ranks, count, p=p), scale='share'), float(ranks @ p)


def _repeated(rng, count, times):
    """Right or wrong by the text, of which each occurs several times."""
    group_N = np.repeat(np.arange(count), times)
    right = rng.random(count) < 0.8
    values_N = np.where(rng.random(len(group_N)) < 0.7, right[group_N], 1)
    return dict(values_N=values_N, scale='share', clusters=[group_N]), 0.86


def _pair_scores(rng, texts, first_N, second_N):
    """Cosines of texts against scores of their pairs, with a known Spearman."""
    true_ND = rng.normal(size=(texts, 3))
    read_ND = true_ND + rng.normal(0, 0.5, (texts, 3))
    human_N, model_N = (
        probes.pair_cosine(x_ND[first_N], x_ND[second_N]) for x_ND in (true_ND, read_ND)
    )
    human_N = human_N + rng.normal(0, 0.2, len(human_N))
    values_N = correlations.spearman_influence(human_N, model_N)
    keys = [first_N, second_N]
    return dict(values_N=values_N, scale='correlation', clusters=keys), 0.676


def _all_pairs(rng, texts):
    return _pair_scores(rng, texts, *np.triu_indices(texts, 1))


def _separate_pairs(rng, count):
    return _pair_scores(rng, 2 * count, np.arange(count), np.arange(count) + count)


@pytest.mark.parametrize(
    'draw, sizes, bounds',
    draws.in_stages(
        (_repeated, (60, 5), (0.91, 0.99)),  # as independent: 69 %
        (_all_pairs, (20,), (0.84, 0.98)),  # as independent: 59 %
        (_reciprocal_ranks, (50,), (0.89, 0.98)),
        (_all_pairs, (50,), (0.89, 0.98)),  # as independent: 42 %
        (_separate_pairs, (200,), (0.91, 0.98)),
        fast=2,
        slow=3,
    ),
)
def test_intervals_of_means_have_about_their_nominal_coverage(draw, sizes, bounds):
    rng, held = np.random.default_rng(2), 0
    for _ in range(300):
        given, truth = draw(rng, *sizes)
        found = statistics.mean_interval(**given)
        held += found.low <= truth <= found.high
    assert bounds[0] < held / 300 < bounds[1]


@pytest.mark.parametrize('deviation', [0, 0.02, 0.1])
@pytest.mark.parametrize('seeds', draws.in_stages(2, 3, 5, fast=1, slow=2))
def test_two_level_intervals_hold_for_few_and_unequal_seeds(seeds, deviation):
    """The bootstrap over both held 80 to 83 % for two or three unequal seeds."""
    rng, held = np.random.default_rng(4), 0
    for _ in range(300):
        values_SN = deviation * rng.normal(size=(seeds, 1)) + 0.4 * rng.normal(size=200)
        values_SN += rng.normal(0, 0.3, (seeds, 200))
        found = statistics.two_level_interval(values_SN)
        held += found.low <= 0 <= found.high
    assert held / 300 > 0.93


def test_two_levels_add_their_variances_and_one_seed_is_over_examples_alone():
    seeds_S1, values_N = RNG.normal(size=(30, 1)), 2 * RNG.normal(size=50)
    found = statistics.two_level_interval(seeds_S1 + values_N)
    expected = np.sqrt(seeds_S1.var() / 30 + values_N.var() / 50)
    assert found.high - found.low == pytest.approx(2 * 2.03 * expected, rel=0.03)
    one = statistics.two_level_interval(SKEWED_N[None])
    assert one == pytest.approx(statistics.mean_interval(SKEWED_N, 'difference'))


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


def test_a_paired_test_of_pairs_that_share_texts_has_about_its_nominal_error_rate():
    """All pairs of thirty texts; random signs of pairs reject half of true nulls."""
    rng, rejected = np.random.default_rng(3), np.zeros(2)
    first_N, second_N = np.triu_indices(30, 1)
    for _ in range(150):
        text_N = rng.normal(size=30)
        values_N = text_N[first_N] + text_N[second_N] + rng.normal(size=len(first_N))
        for n, keys in enumerate(([first_N, second_N], ())):
            spread = statistics.variance(values_N, keys)[0]
            p = statistics.paired_p(values_N, 0 * values_N, keys) if not n else None
            z = abs(values_N.mean()) / np.sqrt(spread)
            rejected[n] += p <= 0.05 if not n else z > 1.96
    assert rejected[0] / 150 < 0.11 and rejected[1] / 150 > 0.4
    text_N = rng.normal(size=100)  # a cycle, so that there are as many texts as pairs
    values_N, keys = text_N + np.roll(text_N, -1), [range(100), np.roll(range(100), -1)]
    assert statistics.paired_p(values_N, 0 * values_N, keys) > statistics.sign_flip(
        values_N, 0 * values_N
    )
    alone = statistics.paired_p(FIRST_N, SECOND_N, [np.arange(60)])
    assert alone == statistics.sign_flip(FIRST_N, SECOND_N, resamples=5000)


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
    pairs = rng.normal(size=(2, 15))
    assert statistics.over_seeds(*pairs, tests=500).test == 'sign flips'
    assert statistics.over_seeds(*pairs, tests=501).test == 't-test'


def test_rounding_errors_are_not_a_difference():
    same_S = np.array([0.1, 0.2, 0.3, 0.4, 0.7])
    assert statistics.over_seeds(same_S, same_S).p == 1
    assert statistics.over_seeds(same_S + 1e-16, same_S).p == 1
    almost = statistics.mean_interval([1.0, 1.0, 1 - 2**-53], 'share')
    assert almost.value == almost.high == 1 and almost.low < 0.5
    equal = statistics.mean_interval([0.5] * 3, 'correlation')
    assert equal.low <= equal.value <= equal.high
    assert statistics.sign_flip([2.0], [1.0]) == 1
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
    adjusted = statistics.holm([0.2, 0.01, 0.01, 1.0, 0.0])
    assert adjusted == pytest.approx([0.4, 0.04, 0.04, 1, 0])
    assert statistics.holm([]).size == 0


@pytest.mark.parametrize(
    'call, words',
    [
        (lambda s: s.mean_interval([1.0, np.nan], 'share'), 'a list of finite values'),
        (lambda s: s.mean_interval([], 'share'), r'values of shape \(0,\)'),
        (lambda s: s.mean_interval([1.0], 'shares'), "scale='shares'"),
        (lambda s: s.mean_interval([85.0, 87.0], 'share'), 'mean 86.0: .* not percent'),
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


@pytest.mark.parametrize(
    'difference, seeds, tests, known',
    [
        # R: power.t.test(n, delta, sd = 1, sig.level = 0.05 / tests, type = 'paired',
        # strict = TRUE).
        (1.0, 5, 1, 0.4013904),
        (0.5, 34, 1, 0.8077775),  # Cohen's table; G*Power gives 34 for 80 %
        (0.0, 5, 1, 0.05),
        (0.0, 5, 10, 0.005),
    ],
)
def test_power_matches_tables(difference, seeds, tests, known):
    found = power.power(difference, 1.0, seeds, tests=tests)
    assert found == pytest.approx(known, abs=2e-4)


@pytest.mark.parametrize('seeds, tests', [(5, 1), (5, 12), (7, 30)])
def test_power_matches_simulation(seeds, tests, rng):
    difference = 2.0
    drawn_RS = rng.normal(difference, 1.0, size=(20_000, seeds))
    p_R = stats.ttest_1samp(drawn_RS, 0.0, axis=1).pvalue
    shown = np.mean(p_R <= 0.05 / tests)
    found = power.power(-difference, 1.0, seeds, tests=tests)
    assert found == pytest.approx(shown, abs=0.012)


def test_a_detectable_difference_has_the_requested_power():
    for seeds, tests in ((5, 1), (5, 40), (12, 3)):
        found = power.detectable(0.3, seeds, tests=tests)
        assert power.power(found, 0.3, seeds, tests=tests) == pytest.approx(0.8)
        assert power.power(0.9 * found, 0.3, seeds, tests=tests) < 0.8


def test_power_of_large_differences_is_one():
    assert power.power(1e6, 1.0, 5, tests=10_000) == pytest.approx(1.0)
    assert power.power(0.0, 0.0, 5) == pytest.approx(0.05)
    assert power.detectable(0.0, 5) == 0.0


@pytest.mark.parametrize('tests, needed', [(1, 6), (2, 7), (10, 9), (1000, None)])
def test_seeds_that_show_equal_differences_can_show_them(tests, needed):
    """By sign flips, as t has no value: with five seeds, p is at least 1 / 16."""
    found = statistics.over_seeds([0.8] * 5, [0.7] * 5)
    assert found.test == 'sign flips' and found.p == 0.0625
    assert power.needed(found, tests) == power.seeds(0.1, 0.0, tests=tests) == needed
    for seeds in range(5, (needed or 15) + 1):
        p = statistics.over_seeds([0.8] * seeds, [0.7] * seeds, tests=tests).p
        is_shown = needed is not None and seeds >= needed
        assert (
            (p * tests <= 0.05)
            == bool(power.power(0.1, 0.0, seeds, tests=tests))
            == is_shown
        )


@pytest.mark.parametrize('bad', [np.nan, np.inf])
def test_power_is_nan_for_one_seed_and_for_what_is_not_finite(bad):
    for given in ((1.0, 1.0, 1), (bad, 1.0, 5), (1.0, bad, 5), (bad, 0.0, 5)):
        assert np.isnan(power.power(*given)), given
    assert np.isnan(power.detectable(bad, 5))
