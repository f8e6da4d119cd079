"""Classification metrics against scikit-learn, and their input checks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from jepa_text.evaluation.metrics import answers

LABELS = ('contradiction', 'entailment', 'neutral')
PAIRS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30)


@settings(max_examples=25, deadline=None)
@given(pairs=PAIRS)
def test_values_equal_scikit_learn(pairs):
    gold, said = zip(*[(LABELS[g], LABELS[p]) for g, p in pairs])
    found = answers.classes(gold, said, LABELS)
    accuracy = metrics.accuracy_score(gold, said)
    expected = {
        'accuracy': accuracy,
        'macro_f1': metrics.f1_score(gold, said, average='macro', zero_division=0),
        'mcc': metrics.matthews_corrcoef(gold, said),
    }
    assert found.standard == pytest.approx(expected)
    assert found.paper == {'accuracy': pytest.approx(accuracy)}
    right_N = found.per_instance['accuracy']
    assert right_N.tolist() == [float(g == p) for g, p in zip(gold, said)]


@settings(max_examples=25, deadline=None)
@given(pairs=PAIRS)
def test_binary_f1_is_that_of_the_second_class(pairs):
    gold_N, said_N = np.array(pairs).T > 0
    found = answers.classes(gold_N.astype(str), said_N.astype(str), ['False', 'True'])
    expected = metrics.f1_score(gold_N, said_N, zero_division=0)
    assert found.standard['f1'] == pytest.approx(expected)
    swapped = answers.classes(gold_N, said_N, [True, False]).standard['f1']
    expected = metrics.f1_score(~gold_N, ~said_N, zero_division=0)
    assert swapped == pytest.approx(expected)


def test_a_single_class():
    found = answers.classes(['0', '0'], ['0', '0'], ['0', '1']).standard
    assert found == {'accuracy': 1, 'macro_f1': 1, 'mcc': 0, 'f1': 0}
    never = answers.classes(['1', '1', '0'], ['0', '0', '0'], ['0', '1']).standard
    assert never['mcc'] == never['f1'] == 0
    assert never['macro_f1'] == pytest.approx((0.5 + 0) / 2)
