"""Means of influences against the correlations of scipy."""

import math

import numpy as np
import pytest
from scipy import stats

from jepa_text.measures import correlations

RNG = np.random.default_rng(0)
CONTROLS_NC = RNG.normal(size=(50, 2))
FIRST_N = CONTROLS_NC @ [2.0, -1.0] + RNG.normal(size=50) + 7
SECOND_N = CONTROLS_NC @ [1.0, 3.0] + 0.3 * FIRST_N + RNG.normal(size=50)
TIED_N, CONTROL_N = np.round(FIRST_N), CONTROLS_NC[:, 0]


def test_against_scipy_with_ties():
    for influence, theirs in (
        (correlations.spearman_influence, stats.spearmanr),
        (correlations.pearson_influence, stats.pearsonr),
    ):
        expected = theirs(TIED_N, SECOND_N).statistic
        assert influence(TIED_N, SECOND_N).mean() == pytest.approx(expected)
        assert not influence(np.full(50, 0.1), SECOND_N).any()


def test_one_control_by_the_formula():
    ranked = [stats.rankdata(x) for x in (TIED_N, SECOND_N, CONTROL_N)]
    (_, xy, xz), (_, _, yz), _ = np.corrcoef(ranked)
    expected = (xy - xz * yz) / math.sqrt((1 - xz**2) * (1 - yz**2))
    lists = TIED_N, SECOND_N, CONTROL_N
    found = correlations.partial_spearman_influence(*lists).mean()
    assert found == pytest.approx(expected)


def test_lists_that_the_control_explains_have_correlation_zero():
    lists = np.exp(CONTROL_N), SECOND_N, CONTROL_N
    assert not correlations.partial_spearman_influence(*lists).any()


def test_errors_name_what_is_wrong():
    with pytest.raises(ValueError, match=r'\(50,\) and \(49,\)'):
        correlations.spearman_influence(FIRST_N, SECOND_N[1:])
    with pytest.raises(ValueError, match='NaN or inf'):
        correlations.pearson_influence([1.0, np.nan], [1.0, 2.0])
