"""Means of influences against the scores of others, and influences by leaving one out."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn import metrics

from jepa_text.measures import correlations

RNG = np.random.default_rng(0)
CONTROLS_NC = RNG.normal(size=(50, 2))
FIRST_N = CONTROLS_NC @ [2.0, -1.0] + RNG.normal(size=50) + 7
SECOND_N = CONTROLS_NC @ [1.0, 3.0] + 0.3 * FIRST_N + RNG.normal(size=50)
TIED_N, CONTROL_N = np.round(FIRST_N), CONTROLS_NC[:, 0]
NUMBERS_2N = RNG.normal(size=(2, 300)).round(1)
NUMBERS_2N[1] = (NUMBERS_2N[0] + NUMBERS_2N[1]).round()
RANKS_2N = stats.rankdata(NUMBERS_2N, axis=1)
CLASSES_2N = RNG.random((2, 300)) < 2 / 3


@pytest.mark.parametrize(
    'influence, theirs, lists_2N',
    [
        (correlations.spearman_influence, stats.spearmanr, NUMBERS_2N),
        (correlations.pearson_influence, stats.pearsonr, RANKS_2N),
        (correlations.pearson_influence, metrics.matthews_corrcoef, CLASSES_2N),
        (correlations.f1_influence, metrics.f1_score, CLASSES_2N),
    ],
)
def test_means_match_others_and_influences_leave_one_out(influence, theirs, lists_2N):
    def score(lists_2N):
        found = theirs(*lists_2N)
        return getattr(found, 'statistic', found)

    found_N, expected = influence(*lists_2N), score(lists_2N)
    assert found_N.mean() == pytest.approx(expected)
    left_out_N = [score(np.delete(lists_2N, n, axis=1)) for n in range(300)]
    pseudo_N = 300 * expected - 299 * np.array(left_out_N)
    assert_allclose(found_N, pseudo_N, atol=0.05)
    constant_N = np.full(300, False if lists_2N is CLASSES_2N else 0.1)
    assert influence(constant_N, lists_2N[1]).mean() == pytest.approx(0)


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
