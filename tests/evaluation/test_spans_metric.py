"""Span metrics against SQuAD's script, and the paper's F1 of positions."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from jepa_text.evaluation.metrics import spans

# Answers drawn from awkward words, and what the script of SQuAD 2.0 says of them, in the
# version of transformers 4.57 (squad_metrics.squad_evaluate).
SQUAD = json.loads(Path(__file__).with_name('squad_cases.json').read_text())
NAMES = {
    'exact': 'em',
    'f1': 'f1',
    'NoAns_exact': 'no_answer_em',
    'NoAns_f1': 'no_answer_f1',
}
POSITIONS = st.sets(st.integers(0, 9), max_size=6)


@pytest.mark.parametrize('case', SQUAD, ids=range(len(SQUAD)))
def test_values_equal_squads_script(case):
    found = spans.measure(case['references'], case['predicted']).standard
    said = case['said']
    expected = {ours: said[name] / 100 for name, ours in NAMES.items() if name in said}
    if 'NoAns_f1' in said and 'HasAns_f1' in said:
        expected['has_answer_em'] = said['HasAns_exact'] / 100
        expected['has_answer_f1'] = said['HasAns_f1'] / 100
    assert found == pytest.approx(expected)


def test_the_best_reference_counts():
    references = [[(3, 'the Whale!'), (9, 'a big grey whale')], [(0, 'Ahab')]]
    found = spans.measure(references, ['grey whale', 'ahab.'])
    assert found.per_instance['f1'].tolist() == pytest.approx([0.8, 1])
    assert found.per_instance['em'].tolist() == [0, 1]
    assert found.standard == {'em': 0.5, 'f1': pytest.approx(0.9)}
    assert found.paper == {}


@settings(max_examples=25, deadline=None)
@given(gold=POSITIONS, said=POSITIONS)
def test_the_papers_f1_equals_that_of_token_labels(gold, said):
    found = spans.measure([['x']], ['x'], positions=([gold], [said]))
    marked = np.zeros((2, 10), int)
    marked[0, list(gold) or [0]] = marked[1, list(said) or [0]] = 1
    expected = metrics.f1_score(*marked, zero_division=0)
    assert found.paper == {'token_f1': pytest.approx(expected)}
    assert found.per_instance['paper_token_f1'].tolist() == [found.paper['token_f1']]


def test_never_answering_scores_the_share_of_unanswerable_questions():
    """50.07 on SQuAD 2.0, where 5,945 of 11,873 questions have no answer."""
    unanswerable, count = 5945, 11873
    references = [[]] * unanswerable + [[(7, 'whale')]] * (count - unanswerable)
    gold = [set()] * unanswerable + [{7, 8}] * (count - unanswerable)
    found = spans.measure(references, [''] * count, positions=(gold, [set()] * count))
    assert 100 * found.paper['token_f1'] == pytest.approx(50.07, abs=5e-3)
    assert found.standard['f1'] == found.standard['em'] == found.paper['token_f1']
    assert found.standard['no_answer_f1'] == 1 and found.standard['has_answer_f1'] == 0


def test_the_papers_f1_ignores_contiguity_and_other_references():
    gold, said = [{3, 4}], [{3, 9}]
    found = spans.measure([['grey whale', 'x']], ['x'], positions=(gold, said))
    assert found.paper['token_f1'] == 0.5 and found.standard['em'] == 1
