"""Metrics refuse input that has no value, and name a missing package's extra."""

import sys

import numpy as np
import pytest

from jepa_text.evaluation.metrics import answers, ranking, spans, tags

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ('metric', 'arguments', 'message'),
    [
        (answers.classes, (['0'], ['0', '1'], '01'), '1 labels and 2 predictions'),
        (answers.classes, ([], [], '01'), '0 labels and 0 predictions'),
        (
            answers.classes,
            (['0', '2'], ['0', '1'], '01'),
            "gold label 1 is '2', .* one of: '0'",
        ),
        (
            answers.classes,
            (['0', '1'], ['0', 1], '01'),
            'predicted label 1 is 1, but must',
        ),
        (answers.classes, (['0'], ['0'], '00'), r"\['0', '0'\] must be unique"),
        (answers.classes, (['0'], ['0'], ''), 'must be unique and not empty'),
        (answers.scores, ([1.0, 2.0], [1.0]), '2 scores and 1 predictions'),
        (
            answers.scores,
            ([1.0, 2.0, 3.0], [1.0, NAN, INF]),
            '2 of 3 .* is nan at instance 1',
        ),
        (
            answers.scores,
            ([1.0, -INF], [1.0, 2.0]),
            'gold scores: 1 of 2 values are not finite',
        ),
        (answers.scores, ([2.0, 2.0], [1.0, 2.0]), 'scores that are not all equal'),
        (answers.scores, ([2.0], [1.0]), 'scores that are not all equal'),
        (tags.measure, ([['O']], [['O'], ['O']]), '1 sentences and 2 predictions'),
        (
            tags.measure,
            ([['O'], ['O', 'O']], [['O'], ['O']]),
            '1 has 2 gold and 1 predicted',
        ),
        (tags.measure, ([['O'], []], [['O'], []]), 'Sentence 1 has 0 gold'),
        (tags.measure, ([['O', None]], [['O', 'O']]), 'has the tag None'),
        (tags.measure, ([['I-X', 'O']], [['O', 'O']]), "'I-X' after 'O'.*B-X. Convert"),
        (tags.measure, ([['B-Y', 'I-X']], [['O', 'O']]), "'I-X' after 'B-Y'"),
        (tags.measure, ([['B-X', 'O']], [['NOUN', 'O']]), "predicted tag is 'NOUN'"),
        (
            tags.measure,
            ([['O'], ['B-X', '0']], [['O'], ['O', 'O']]),
            "1: word 2 has the tag '0'",
        ),
        (ranking.measure, ({}, {}), 'qrels are empty'),
        (
            ranking.measure,
            ({'q': {'a': 1}}, {'x': {'a': 1.0}}),
            "1 queries .* such as 'x'",
        ),
        (
            ranking.measure,
            ({'q': {'a': 1}}, {'q': {'a': NAN}}),
            "scores of query 'q': 1 of 1",
        ),
        (ranking.measure, ({'q': {'a': NAN}}, {}), "'a' is nan, but must be an integer"),
        (
            ranking.measure,
            ({'q': {'a': 0.5}}, {'q': {'a': 1.0}}),
            "'a' is 0.5, but must be an",
        ),
        (spans.measure, ([['a']], []), '1 questions and 0 predictions'),
        (spans.measure, ([['b']], ['b'], ([], [{1}])), '0 gold and 1 predicted sets'),
        (answers.cloze, ([],), 'at least one is needed, each at least 1'),
        (answers.cloze, ([0, 1],), 'at least one is needed, each at least 1'),
        (answers.cloze, ([NAN],), 'at least one is needed, each at least 1'),
    ],
)
def test_invalid_input_raises(metric, arguments, message):
    with pytest.raises(ValueError, match=message):
        metric(*arguments)


@pytest.mark.parametrize(
    ('module', 'metric', 'arguments'),
    [
        ('sklearn.metrics', answers.classes, (['0'], ['0'], '01')),
        ('seqeval.metrics.v1', tags.measure, ([['B-X']], [['O']])),
        ('ir_measures', ranking.measure, ({'q': {'a': 1}}, {})),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    module, metric, arguments, monkeypatch
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'{module}.*jepa-text\[eval\]'):
        metric(*arguments)
