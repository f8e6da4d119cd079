"""Metrics refuse input that has no value, and name a missing package's extra."""

import sys

import numpy as np
import pytest

from jepa_text.evaluation.metrics import classes, cloze, ranking, scores, spans, tags

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ('metric', 'arguments', 'message'),
    [
        (classes, (['0'], ['0', '1'], '01'), '1 labels and 2 predictions'),
        (classes, ([], [], '01'), '0 labels and 0 predictions'),
        (classes, (['0', '2'], ['0', '1'], '01'), "gold label 1 is '2', .* one of: '0'"),
        (classes, (['0', '1'], ['0', 1], '01'), 'predicted label 1 is 1, but must'),
        (classes, (['0'], ['0'], '00'), r"\['0', '0'\] must be unique"),
        (classes, (['0'], ['0'], ''), 'must be unique and not empty'),
        (scores, ([1.0, 2.0], [1.0]), '2 scores and 1 predictions'),
        (scores, ([1.0, 2.0, 3.0], [1.0, NAN, INF]), '2 of 3 .* is nan at instance 1'),
        (scores, ([1.0, -INF], [1.0, 2.0]), 'gold scores: 1 of 2 values are not finite'),
        (scores, ([2.0, 2.0], [1.0, 2.0]), 'scores that are not all equal'),
        (scores, ([2.0], [1.0]), 'scores that are not all equal'),
        (tags, ([['O']], [['O'], ['O']]), '1 sentences and 2 predictions'),
        (tags, ([['O'], ['O', 'O']], [['O'], ['O']]), '1 has 2 gold and 1 predicted'),
        (tags, ([['O'], []], [['O'], []]), 'Sentence 1 has 0 gold'),
        (tags, ([['O', None]], [['O', 'O']]), 'has the tag None'),
        (tags, ([['I-X', 'O']], [['O', 'O']]), "'I-X' after 'O'.*B-X. Convert"),
        (tags, ([['B-Y', 'I-X']], [['O', 'O']]), "'I-X' after 'B-Y'"),
        (tags, ([['B-X', 'O']], [['NOUN', 'O']]), "predicted tag is 'NOUN'"),
        (tags, ([['O'], ['B-X', '0']], [['O'], ['O', 'O']]), "1: word 2 has the tag '0'"),
        (ranking, ({}, {}), 'qrels are empty'),
        (ranking, ({'q': {'a': 1}}, {'x': {'a': 1.0}}), "1 queries .* such as 'x'"),
        (ranking, ({'q': {'a': 1}}, {'q': {'a': NAN}}), "scores of query 'q': 1 of 1"),
        (ranking, ({'q': {'a': NAN}}, {}), "'a' is nan, but must be an integer"),
        (ranking, ({'q': {'a': 0.5}}, {'q': {'a': 1.0}}), "'a' is 0.5, but must be an"),
        (spans, ([['a']], []), '1 questions and 0 predictions'),
        (spans, ([['b']], ['b'], ([], [{1}])), '0 gold and 1 predicted sets'),
        (cloze, ([],), 'at least one is needed, each at least 1'),
        (cloze, ([0, 1],), 'at least one is needed, each at least 1'),
        (cloze, ([NAN],), 'at least one is needed, each at least 1'),
    ],
)
def test_invalid_input_raises(metric, arguments, message):
    with pytest.raises(ValueError, match=message):
        metric.measure(*arguments)


@pytest.mark.parametrize(
    ('module', 'metric', 'arguments'),
    [
        ('sklearn.metrics', classes, (['0'], ['0'], '01')),
        ('seqeval.metrics.v1', tags, ([['B-X']], [['O']])),
        ('ir_measures', ranking, ({'q': {'a': 1}}, {})),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    module, metric, arguments, monkeypatch
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'{module}.*jepa-text\[eval\]'):
        metric.measure(*arguments)
