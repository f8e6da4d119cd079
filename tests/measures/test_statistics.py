"""Intervals against scipy and their promised coverage; verdicts."""

import doctest

import numpy as np
import pytest
from scipy import stats

from jepa_text.measures import geometry, statistics

RNG = np.random.default_rng(0)
SKEWED_N = RNG.exponential(size=80)


def test_examples():
    assert doctest.testmod(statistics).failed == 0


@pytest.mark.parametrize('method', ['percentile', 'BCa'])
@pytest.mark.parametrize('level', [0.9, 0.95])
def test_the_mean_against_scipy(method, level):
    expected = stats.bootstrap(
        (SKEWED_N,),
        np.mean,
        confidence_level=level,
        method=method,
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    ours = {
        'percentile': statistics.mean_interval,
        'BCa': statistics.bca_mean_interval,
    }[method](SKEWED_N, level=level, resamples=20_000)
    assert ours.value == pytest.approx(SKEWED_N.mean())
    width = expected.high - expected.low
    np.testing.assert_allclose(ours[1:], expected, atol=0.03 * width)


def test_bca_of_a_pearson_correlation_against_scipy():
    first_N = RNG.normal(size=40)
    second_N = first_N + RNG.normal(size=40)

    def correlation(first_N, second_N):
        return np.corrcoef(first_N, second_N)[0, 1]

    expected = stats.bootstrap(
        (first_N, second_N),
        correlation,
        paired=True,
        vectorized=False,
        method='BCa',
        n_resamples=4000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    found = statistics.bca_interval(correlation, first_N, second_N, resamples=4000)
    width = expected.high - expected.low
    np.testing.assert_allclose(found[1:], expected, atol=0.06 * width)


def test_bca_differs_from_percentiles_where_values_are_skewed():
    plain = statistics.mean_interval(SKEWED_N)
    bca = statistics.bca_mean_interval(SKEWED_N)
    assert bca.low > plain.low and bca.high > plain.high


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    rng, held = np.random.default_rng(2), 0
    for seed in range(200):
        values_N = rng.normal(size=50)
        found = statistics.mean_interval(values_N, resamples=500, seed=seed)
        held += found.low <= 0 <= found.high
    assert 0.89 < held / 200 < 0.99


def test_a_general_statistic_of_the_mean_is_the_mean():
    quick = statistics.mean_interval(SKEWED_N, resamples=2000, seed=3)
    slow = statistics.bootstrap_interval(np.mean, SKEWED_N, resamples=2000, seed=4)
    np.testing.assert_allclose(quick, slow, rtol=0.05)


def test_the_same_seed_gives_the_same_interval():
    one, two, other = (statistics.mean_interval(SKEWED_N, seed=s) for s in (5, 5, 6))
    assert one == two != other


def test_resamples_in_parts_are_as_many(monkeypatch):
    monkeypatch.setattr(statistics, '_CHUNK', 500)
    assert len(statistics.resampled_means(SKEWED_N, resamples=33)) == 33
    found = statistics.mean_interval(SKEWED_N)
    standard = SKEWED_N.std() / np.sqrt(80)
    assert found.high - found.low == pytest.approx(2 * 1.96 * standard, rel=0.06)


def test_jackknife_gives_the_standard_error_of_the_mean():
    values_N = statistics.jackknife(np.mean, SKEWED_N)
    error = np.sqrt(79 / 80 * np.sum((values_N - values_N.mean()) ** 2))
    assert error == pytest.approx(stats.sem(SKEWED_N))


def test_half_samples_have_the_standard_error_of_the_whole():
    found = statistics.half_sample_interval(np.mean, SKEWED_N, resamples=4000)
    expected = 2 * 1.96 * stats.sem(SKEWED_N)
    assert found.high - found.low == pytest.approx(expected, rel=0.06)
    odd = statistics.half_sample_interval(np.mean, SKEWED_N[:9], resamples=4000)
    assert odd.high - odd.low == pytest.approx(
        2 * 1.96 * stats.sem(SKEWED_N[:9]), rel=0.15
    )


def test_half_samples_hold_uniformity_where_a_bootstrap_is_shifted():
    rows_ND = np.random.default_rng(3).normal(size=(60, 20))
    value = geometry.uniformity(rows_ND)
    halves = statistics.half_sample_interval(geometry.uniformity, rows_ND)
    again = statistics.bootstrap_interval(geometry.uniformity, rows_ND, resamples=100)
    assert halves.low < value < halves.high
    assert again.low > value  # repeated rows are pairs at distance 0


def test_two_levels_add_their_variances():
    rng = np.random.default_rng(4)
    seeds_S1 = rng.normal(size=(30, 1))
    sentences_N = 2 * rng.normal(size=50)
    found = statistics.two_level_interval(seeds_S1 + sentences_N, resamples=20_000)
    expected = np.sqrt(seeds_S1.var() / 30 + sentences_N.var() / 50)
    assert found.high - found.low == pytest.approx(2 * 1.96 * expected, rel=0.08)


def test_one_seed_is_an_interval_over_sentences():
    one = statistics.two_level_interval(SKEWED_N[None], resamples=20_000)
    many = statistics.mean_interval(SKEWED_N, resamples=20_000)
    np.testing.assert_allclose(one, many, rtol=0.03)


FOUND = statistics.Interval(-0.16, -0.19, -0.13)


@pytest.mark.parametrize(
    ('control', 'higher', 'kind'),
    [
        (-0.15, False, 'unclear'),
        (-0.16, False, 'explained'),
        (-0.30, False, 'explained'),
        (-0.05, False, 'beyond'),
        (statistics.Interval(-0.10, -0.14, -0.06), False, 'unclear'),
        (-0.17, True, 'unclear'),
        (0.40, True, 'explained'),
        (-0.30, True, 'beyond'),
        (statistics.Interval(-0.25, -0.30, -0.18), True, 'unclear'),
        (FOUND, True, 'explained'),
    ],
)
def test_verdicts(control, higher, kind):
    found = statistics.explained_by_control(
        FOUND, control, control_name='the untrained encoder', higher=higher
    )
    assert found.kind == kind
    assert 'the untrained encoder' in found.words and '-0.16 (-0.19 to' in found.words


def test_a_paired_test_decides_where_intervals_meet():
    def verdict(control, p):
        return statistics.explained_by_control(FOUND, control, p=p)

    found = verdict(-0.17, 0.4)
    assert found.kind == 'explained' and 'do not differ (p = 0.4)' in found.words
    assert verdict(-0.17, 6e-5).kind == 'unclear'
    assert verdict(-0.30, 0.4).kind == 'beyond'
    assert verdict(-0.15, 6e-5).kind == 'explained'


def test_bad_input_says_what_is_wrong():
    with pytest.raises(ValueError, match='1 that are not finite'):
        statistics.mean_interval([1.0, np.nan])
    with pytest.raises(ValueError, match=r'shape \(0,\)'):
        statistics.mean_interval([])
    with pytest.raises(ValueError, match=r'\[3, 2\]'):
        statistics.bootstrap(np.mean, [1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match=r'level=95'):
        statistics.mean_interval([1.0, 2.0], level=95)
    with pytest.raises(ValueError, match='0 resamples'):
        statistics.mean_interval([1.0, 2.0], resamples=0)
    with pytest.raises(ValueError, match='at least two'):
        statistics.half_sample_interval(np.mean, [1.0])
    with pytest.raises(ValueError, match=r'\[seeds, sentences\]'):
        statistics.two_level_interval([1.0, 2.0])
    with pytest.raises(ValueError, match='finite'):
        statistics.explained_by_control(FOUND, np.nan)
