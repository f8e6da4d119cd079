"""Correlations against scipy and regression residuals, AUC against scikit-learn."""

import math

import numpy as np
import pytest
from scipy import stats

from jepa_text.measures import correlations

RNG = np.random.default_rng(0)
CONTROLS_NC = RNG.normal(size=(50, 2))
FIRST_N = CONTROLS_NC @ [2.0, -1.0] + RNG.normal(size=50) + 7
SECOND_N = CONTROLS_NC @ [1.0, 3.0] + 0.3 * FIRST_N + RNG.normal(size=50)
TIED_N = np.round(FIRST_N)


def test_against_scipy_with_ties():
    expected = stats.spearmanr(TIED_N, SECOND_N).statistic
    assert correlations.spearman(TIED_N, SECOND_N) == pytest.approx(expected)
    expected = stats.pearsonr(TIED_N, SECOND_N).statistic
    assert correlations.pearson(TIED_N, SECOND_N) == pytest.approx(expected)


def residuals(target_N, controls_NC):
    linear = pytest.importorskip('sklearn.linear_model')
    fitted = linear.LinearRegression().fit(controls_NC, target_N)
    return target_N - fitted.predict(controls_NC)


def test_partial_correlation_is_that_of_residuals():
    expected = stats.pearsonr(
        residuals(FIRST_N, CONTROLS_NC), residuals(SECOND_N, CONTROLS_NC)
    ).statistic
    found = correlations.partial_correlation(FIRST_N, SECOND_N, CONTROLS_NC)
    assert found == pytest.approx(expected)


def test_one_control_by_the_formula():
    ranked = [stats.rankdata(x) for x in (TIED_N, SECOND_N, CONTROLS_NC[:, 0])]
    (_, xy, xz), (_, _, yz), _ = np.corrcoef(ranked)
    expected = (xy - xz * yz) / math.sqrt((1 - xz**2) * (1 - yz**2))
    found = correlations.partial_spearman(TIED_N, SECOND_N, CONTROLS_NC[:, 0])
    assert found == pytest.approx(expected)


def test_duplicate_and_constant_controls_change_nothing():
    found = correlations.partial_correlation(FIRST_N, SECOND_N, CONTROLS_NC[:, :1])
    twice_NC = np.repeat(CONTROLS_NC[:, :1], 2, axis=1)
    twice_NC = np.concatenate([twice_NC, np.ones((50, 1))], axis=1)
    again = correlations.partial_correlation(FIRST_N, SECOND_N, twice_NC)
    assert again == pytest.approx(found)


def test_lists_that_the_controls_explain_have_correlation_zero():
    explained_N = CONTROLS_NC @ [1.0, 1.0] + 3
    assert correlations.partial_correlation(explained_N, SECOND_N, CONTROLS_NC) == 0
    assert correlations.pearson(np.full(50, 0.1), SECOND_N) == 0
    assert correlations.spearman(np.full(50, 0.1), SECOND_N) == 0


def test_errors_name_what_is_wrong():
    with pytest.raises(ValueError, match=r'\(50,\) and \(49,\)'):
        correlations.spearman(FIRST_N, SECOND_N[1:])
    with pytest.raises(ValueError, match='NaN or inf'):
        correlations.pearson([1.0, np.nan], [1.0, 2.0])
    with pytest.raises(ValueError, match=r'50 pairs given controls of shape \(49, 2\)'):
        correlations.partial_correlation(FIRST_N, SECOND_N, CONTROLS_NC[1:])
    with pytest.raises(ValueError, match='three more pairs'):
        correlations.partial_correlation([1, 2, 3, 4], [1, 2, 3, 5], np.eye(4)[:, :2])
    with pytest.raises(ValueError, match='controls .* NaN'):
        correlations.partial_correlation(FIRST_N, SECOND_N, CONTROLS_NC * np.nan)
