"""Sequence labeling metrics against seqeval, CoNLL's rules and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from seqeval import metrics as seqeval_metrics
from seqeval.scheme import IOB2
from sklearn import metrics

from jepa_text.evaluation.metrics import tags
from jepa_text.measures import statistics

TYPES = ('PER', 'LOC', 'per-son', 'a b')
ANY = ('O', *(f'{begin}-{kind}' for begin in 'BI' for kind in TYPES))


def in_iob2(words):
    """The tags, with B- for an I- that starts an entity."""
    pairs = zip(['O', *words], words)
    return [f'B{t[1:]}' if t[0] == 'I' and b[2:] != t[2:] else t for b, t in pairs]


@st.composite
def sentences(draw):
    lengths = draw(st.lists(st.integers(1, 7), min_size=1, max_size=5))
    sides = [
        [draw(st.lists(st.sampled_from(ANY), min_size=n, max_size=n)) for n in lengths]
        for _ in range(2)
    ]
    return [in_iob2(words) for words in sides[0]], sides[1]


@settings(max_examples=25, deadline=None)
@given(both=sentences())
def test_entity_scores_equal_seqeval(both):
    found = tags.measure(*both).standard
    for name in ('f1', 'precision', 'recall'):
        score = getattr(seqeval_metrics, f'{name}_score')
        strict = score(*both, mode='strict', scheme=IOB2, zero_division=0)
        assert found[f'entity_{name}'] == pytest.approx(strict)


@settings(max_examples=25, deadline=None)
@given(both=sentences())
def test_word_and_sentence_scores_equal_scikit_learn(both):
    found = tags.measure(*both)
    flat = [sum(side, []) for side in both]
    accuracy = metrics.accuracy_score(*flat)
    assert found.standard['token_accuracy'] == pytest.approx(accuracy)
    macro = [
        metrics.f1_score(gold, said, average='macro', zero_division=0)
        for gold, said in zip(*both)
    ]
    sentence_N = found.per_instance['paper_sentence_macro_f1']
    np.testing.assert_allclose(sentence_N, macro)
    assert found.paper == {'sentence_macro_f1': pytest.approx(np.mean(macro))}
    assert np.mean(found.per_instance['token_accuracy']) == pytest.approx(accuracy)


def test_intervals_of_sentences_are_those_of_the_accuracy_per_word():
    rng = np.random.default_rng(0)
    gold = [['NOUN'] * length for length in rng.choice([2, 40], 300)]
    said = [
        rng.choice(['NOUN', 'VERB'], len(words), p=[p, 1 - p]).tolist()
        for words in gold
        for p in [0.6 if len(words) == 40 else 0.95]
    ]
    found = tags.measure(gold, said)
    right_N = np.array([words.count('NOUN') for words in said])
    sizes = right_N, np.array(list(map(len, gold)))
    whole = stats.bootstrap(
        sizes, lambda a, b: a.sum() / b.sum(), paired=True, vectorized=False, rng=0
    ).confidence_interval
    one = statistics.mean_interval(found.per_instance['token_accuracy'], 'share')
    assert one[1:] == pytest.approx(whole, abs=0.005)
    assert one.value == pytest.approx(found.standard['token_accuracy'])


def test_the_papers_examples():
    outside = ['O'] * 5
    assert tags.measure([outside], [outside]).paper == {'sentence_macro_f1': 1}
    missed = tags.measure([['O', 'O', 'B-PER', 'O', 'O']], [outside])
    assert missed.paper['sentence_macro_f1'] == pytest.approx(0.444, abs=5e-4)
    # It is no entity F1: it is far above 0 if no entity is found.
    assert missed.standard['entity_f1'] == 0
    both = tags.measure([outside, ['O', 'O', 'B-PER', 'O', 'O']], [outside, outside])
    assert both.paper['sentence_macro_f1'] == pytest.approx((1 + 4 / 9) / 2)


def test_entities_must_start_with_b():
    for said in (['I-PER', 'I-PER', 'O'], ['B-PER', 'O', 'O']):
        found = tags.measure([['B-PER', 'I-PER', 'O']], [said]).standard
        assert found['entity_f1'] == 0


def test_parts_of_speech_have_no_entities():
    found = tags.measure([['NOUN', 'VERB'], ['ADV']], [['NOUN', 'NOUN'], ['ADV']])
    assert set(found.standard) == {'token_accuracy'}
    assert found.standard['token_accuracy'] == pytest.approx(2 / 3)
