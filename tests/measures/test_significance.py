"""Paired tests and corrections against scipy, and their error rates."""

import doctest
import sys

import numpy as np
import pytest
from scipy import stats

from jepa_text.measures import significance

RNG = np.random.default_rng(0)
FIRST_N = RNG.normal(size=60) + 0.4
SECOND_N = RNG.normal(size=60)


def test_examples():
    assert doctest.testmod(significance).failed == 0


@pytest.mark.parametrize('count', [5, 12])
def test_sign_flip_is_exact_for_few_pairs(count):
    first_N, second_N = FIRST_N[:count], SECOND_N[:count]
    expected = stats.permutation_test(
        (first_N, second_N),
        lambda x, y: np.mean(x - y),
        permutation_type='samples',
        n_resamples=np.inf,
        vectorized=False,
    ).pvalue
    assert significance.sign_flip(first_N, second_N) == pytest.approx(expected)


def test_sign_flip_of_many_pairs_is_near_the_t_test():
    expected = stats.ttest_rel(FIRST_N, SECOND_N).pvalue
    assert significance.sign_flip(FIRST_N, SECOND_N) == pytest.approx(expected, rel=0.4)
    assert significance.sign_flip(FIRST_N + 9, SECOND_N) == 1 / 10_001
    assert significance.sign_flip(FIRST_N, FIRST_N) == 1


def test_sign_flip_is_wrong_as_often_as_it_says():
    rng = np.random.default_rng(1)
    found = [
        significance.sign_flip(*rng.normal(size=(2, 20)), resamples=200)
        for _ in range(300)
    ]
    assert 0.02 < np.mean(np.array(found) <= 0.05) < 0.09


def test_paired_bootstrap_is_of_the_differences():
    found = significance.paired_bootstrap(FIRST_N, SECOND_N)
    difference_N = FIRST_N - SECOND_N
    assert found.difference == pytest.approx(difference_N.mean())
    assert found.high - found.low == pytest.approx(
        2 * 1.96 * stats.sem(difference_N), rel=0.06
    )
    assert (found.p < 0.05) == (found.low > 0)
    assert significance.paired_bootstrap(FIRST_N, FIRST_N).p == 1
    swapped = significance.paired_bootstrap(SECOND_N, FIRST_N)
    assert swapped.difference == -found.difference and swapped.p == found.p


def test_pairing_finds_what_is_small_against_the_sentences():
    hard_N = 10 * RNG.normal(size=60)
    one, two = hard_N + FIRST_N / 10 + 0.1, hard_N + SECOND_N / 10
    assert significance.paired_bootstrap(one, two).p < 0.01
    assert stats.ttest_ind(one, two).pvalue > 0.5


def test_wilcoxon_is_scipys():
    expected = stats.wilcoxon(FIRST_N, SECOND_N).pvalue
    assert significance.wilcoxon(FIRST_N, SECOND_N) == pytest.approx(expected)
    assert significance.wilcoxon(FIRST_N, FIRST_N) == 1


def test_without_scipy_wilcoxon_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, 'scipy', None)
    with pytest.raises(ImportError, match=r'jepa-text\[eval\].*sign_flip'):
        significance.wilcoxon(FIRST_N, SECOND_N)


@pytest.mark.parametrize(('only_first', 'only_second'), [(0, 0), (3, 9), (7, 7), (2, 40)])
def test_mcnemar_is_a_binomial_test(only_first, only_second):
    first_N = [True] * (only_first + 5) + [False] * only_second
    second_N = [False] * only_first + [True] * (only_second + 5)
    count = only_first + only_second
    expected = stats.binomtest(only_first, count).pvalue if count else 1.0
    assert significance.mcnemar(first_N, second_N) == pytest.approx(expected)


def test_mcnemar_of_thousands():
    first_N = np.arange(6000) < 3100
    expected = stats.binomtest(3100, 6000).pvalue
    assert significance.mcnemar(first_N, ~first_N) == pytest.approx(expected)


def test_benjamini_hochberg_against_scipy():
    p_T = RNG.random(30) ** 2
    expected = stats.false_discovery_control(p_T)
    np.testing.assert_allclose(significance.benjamini_hochberg(p_T), expected)


def test_holm_rejects_step_by_step_as_published():
    p_T = RNG.random(30) ** 4
    for level in (0.01, 0.05, 0.3):
        rejected = np.zeros(30, bool)
        for step, index in enumerate(np.argsort(p_T)):
            if p_T[index] > level / (30 - step):
                break
            rejected[index] = True
        np.testing.assert_array_equal(significance.holm(p_T) <= level, rejected)
    assert rejected.any() and not rejected.all()


@pytest.mark.parametrize('correct', [significance.holm, significance.benjamini_hochberg])
def test_corrections_keep_order_and_never_shrink(correct):
    p_T = np.array([0.2, 0.01, 0.01, 1.0, 0.0])
    adjusted_T = correct(p_T)
    assert np.all(adjusted_T >= p_T) and np.all(adjusted_T <= 1)
    assert np.all(np.diff(adjusted_T[np.argsort(p_T)]) >= 0)
    assert correct([0.03]).tolist() == [0.03] and correct([]).size == 0
    with pytest.raises(ValueError, match='between 0 and 1'):
        correct([0.1, 1.2])


@pytest.mark.parametrize(
    'test',
    [
        significance.paired_bootstrap,
        significance.sign_flip,
        significance.wilcoxon,
        significance.mcnemar,
    ],
)
def test_pairs_must_match(test):
    with pytest.raises(ValueError, match=r'\(60,\) and \(59,\)'):
        test(FIRST_N, SECOND_N[1:])


def test_values_that_are_not_finite_raise():
    with pytest.raises(ValueError, match='NaN or inf'):
        significance.sign_flip([1.0, np.nan], [0.0, 0.0])
