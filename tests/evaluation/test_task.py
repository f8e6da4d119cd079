"""Taking, splitting and comparing examples of every kind."""

import numpy as np
import pytest

from jepa_text.analysis import analyze
from jepa_text.evaluation.sets import retrieval
from jepa_text.evaluation.sets import task as tasks


def labeled(count, repeat=1):
    """Examples of `count` texts, each `repeat` times."""
    texts = [f'text {n // repeat}' for n in range(count * repeat)]
    return tasks.examples(texts, None, [str(n % 3) for n in range(count * repeat)])


def test_take_keeps_targets_of_tags_and_spans():
    tags = tasks.Examples([['a', 'b'], ['c']], None, [['O', 'B-PER'], ['O']])
    assert tags.texts() == ['a b', 'c']
    taken = tags.take(np.array([1, 0]))
    assert taken.first == [['c'], ['a', 'b']] and taken.target == [['O'], ['O', 'B-PER']]
    spans = tasks.Examples(['who?', 'why?'], ['Ann did.', 'No.'], [[(0, 'Ann')], []])
    assert spans.take([1]).target == [[]] and spans.take([1]).second == ['No.']
    assert spans.texts() == ['who?', 'why?', 'Ann did.', 'No.']


def test_validation_is_five_percent_without_shared_texts():
    task = tasks.Task('t', 'labels', 'accuracy', labeled(200, 2), labeled(30))
    made = tasks.with_validation(task)
    assert (len(made.train), len(made.validation)) == (380, 20)
    assert not set(made.train.first) & set(made.validation.first)
    assert sorted(made.train.first + made.validation.first) == sorted(task.train.first)
    again = tasks.with_validation(task).validation
    assert again.first == made.validation.first
    assert made.test is task.test
    assert tasks.with_validation(made) is made


def test_whitespace_does_not_make_another_text():
    texts = [f'the text{" " * (1 + n % 3)}{n // 3}' for n in range(60)]
    whole = tasks.examples(texts, None, ['a', 'b'] * 30)
    train, test = tasks.train_test_split(whole)
    assert not {t.split()[-1] for t in train.first} & {t.split()[-1] for t in test.first}


def test_a_validation_set_that_is_too_small_warns():
    first = [f'a {max(0, n - 94)}' for n in range(100)]
    whole = tasks.Examples(first, [f'b {n}' for n in range(100)], np.zeros(100))
    task = tasks.Task('t', 'scores', 'spearman', whole, whole)
    with pytest.warns(UserWarning, match='t: .* has 5 of 100 .* not 20%: most are con'):
        assert len(tasks.with_validation(task, share=0.2).validation) == 5


def test_shared_texts_are_counted():
    train = tasks.Examples(['a b', 'c'], ['d', 'e'], np.zeros(2))
    test = tasks.Examples(['x', 'y', 'a  b', 'z'], ['e', 'f', 'd', 'c'], np.zeros(4))
    # Shares the second text, none, both, and the first text of another pair.
    assert tasks.shared_texts(tasks.Task('t', 'scores', 'spearman', train, test)) == 3
    words = tasks.Examples([['a', 'b'], ['c']], None, [['O', 'O'], ['O']])
    other = tasks.Examples([['a', 'b'], ['ab']], None, [['O', 'O'], ['O']])
    assert tasks.shared_texts(tasks.Task('t', 'tags', 'entity_f1', words, other)) == 1


def test_shared_queries_are_counted():
    queries = {'1': 'who  is it', '2': 'why', '3': 'not asked'}
    pairs = [('who is it', 'text'), ('not asked', 'text')]
    qrels = {'1': {'d': 1}, '2': {'d': 1}}
    task = retrieval.Retrieval('r', queries, {'d': 'text'}, qrels, pairs=pairs)
    assert retrieval.shared_texts(task) == 1


def test_empty_texts_are_dropped_with_a_warning():
    # The last is half of an emoji, which JSON can express and no tokenizer can read.
    texts = ['a', 'b', ' ', 'c', None, 'd', 'e \ud83d']
    with pytest.warns(UserWarning, match='mine: 3 of 7 .* empty .* first in row 3'):
        made = tasks.examples(texts, None, list('0123456'), 'mine')
    assert made.first == ['a', 'b', 'c', 'd'] and made.target.tolist() == list('0135')


@pytest.mark.parametrize('kind', ['tags', 'spans', 'scores', 'retrieval'])
def test_the_analysis_raises_for_unsupported_kinds(kind):
    task = tasks.Task('mine', kind, '', labeled(9), labeled(9))
    if kind == 'retrieval':
        task = retrieval.Retrieval('mine', {}, {}, {})
    with pytest.raises(ValueError, match='mine has .*Remove the task'):
        analyze.check_kind(task)
