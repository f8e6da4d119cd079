"""The power of paired t-tests against tables and simulation."""

import numpy as np
import pytest
from scipy import stats

from jepa_text.measures import power, statistics


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
