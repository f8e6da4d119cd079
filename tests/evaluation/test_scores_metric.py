"""Regression metrics against scipy, their invariances, and input checks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jepa_text.evaluation.metrics import answers
from jepa_text.measures import statistics

# Few numbers, so that there are ties.
NUMBERS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(-3, 3)), min_size=2, max_size=30
).filter(lambda pairs: all(len(set(side)) > 1 for side in zip(*pairs)))


@settings(max_examples=25, deadline=None)
@given(pairs=NUMBERS)
def test_values_equal_scipy_and_the_means_of_instances(pairs):
    gold_N, said_N = np.array(pairs, float).T
    found = answers.scores(gold_N, said_N)
    expected = {
        'spearman': stats.spearmanr(gold_N, said_N).statistic,
        'pearson': stats.pearsonr(gold_N, said_N).statistic,
    }
    assert found.standard == pytest.approx(expected, abs=1e-9)
    assert found.paper == {'spearman': found.standard['spearman']}
    means = {name: values_N.mean() for name, values_N in found.per_instance.items()}
    assert means == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize('noise', [0.3, 2.0])
def test_intervals_of_instances_are_those_of_the_correlation(noise):
    rng = np.random.default_rng(0)
    gold_N = rng.standard_normal(500)
    said_N = gold_N + noise * rng.standard_normal(500)
    found = answers.scores(gold_N, said_N).per_instance
    for name, of in (('spearman', stats.spearmanr), ('pearson', stats.pearsonr)):
        one = statistics.mean_interval(found[name], 'correlation')
        whole = stats.bootstrap(
            (gold_N, said_N),
            lambda x_N, y_N, of=of: of(x_N, y_N).statistic,
            paired=True,
            n_resamples=500,
            vectorized=False,
            rng=0,
        ).confidence_interval
        assert one.high - one.low == pytest.approx(whole.high - whole.low, rel=0.15)


@settings(max_examples=20, deadline=None)
@given(pairs=NUMBERS)
def test_spearman_is_invariant_to_scale(pairs):
    gold_N, said_N = np.array(pairs, float).T
    found = answers.scores(gold_N, said_N).standard
    stretched = answers.scores(5 * gold_N - 3, np.exp(said_N)).standard
    assert stretched['spearman'] == pytest.approx(found['spearman'])
    turned = answers.scores(gold_N, -said_N).standard
    assert turned['pearson'] == pytest.approx(-found['pearson'])


def test_constant_predictions_score_zero():
    found = answers.scores([1.0, 2.0, 3.0], [0.5, 0.5, 0.5])
    assert found.standard == {'spearman': 0, 'pearson': 0}
    assert found.per_instance['spearman'].tolist() == [0, 0, 0]
