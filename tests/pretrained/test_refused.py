"""Invalid inputs of task kinds raise before training or prediction."""

import dataclasses
import warnings

import examined
import numpy as np
import pytest

from jepa_text.data import truncation
from jepa_text.evaluation import config, finetune
from jepa_text.evaluation.sets import task as tasks
from jepa_text.pretrained import labels, load, prediction, spans, tags
from jepa_text.settings import schema

LABELS = labels.Labels(labels=('land', 'sea'))


def reader(length=64):
    return prediction.reader(examined.model(), length)


def test_invalid_settings_raise():
    with pytest.raises(ValueError, match="pool='maen'. Did you mean 'mean'"):
        labels.Labels(labels=('a', 'b'), pool='maen')
    with pytest.raises(ValueError, match='pool'):
        schema.read(config.Finetuning, {'pool': 'maen'})
    for setting, words in (
        (dict(stride=-1), 'stride=-1'),
        (dict(longest=0), 'longest=0'),
    ):
        with pytest.raises(ValueError, match=f'{words} must be an integer at least'):
            spans.Spans(**setting)
    kind = tags.Tags(labels=('O', 'X'), act='relu')
    with pytest.raises(ValueError, match="act='relu'. Did you mean 'gelu'"):
        kind.modules(examined.model().network.encoder)


def test_rows_without_room_raise_before_training():
    settings = config.Finetuning(max_length=2)
    with pytest.raises(ValueError, match='max_length=2 leaves no room'):
        finetune.Examination(examined.model(), examined.labeled(), settings)


TAGS = tags.Tags(labels=('O', 'X'))
ALONE, PAIRED = (
    dataclasses.replace(LABELS, template=template)
    for template in ('{first}', '{first} / {second}')
)
ASKED = [
    (ALONE, (['a'], ['b']), 'reads single texts'),
    (PAIRED, (['a'], None), "reads pairs .*'{first} / {second}'.* give the second texts"),
    (LABELS, ('whale', None), 'got a str: put texts in'),
    (LABELS, (['a', 'b'], ['c']), '2 first texts, but 1 second'),
    (LABELS, ([['a', 'b']], None), r"need a text per example, not \['a', 'b'\]"),
    (LABELS, (['a'], [None]), 'labels need a text per example, not None'),
    (TAGS, (['a b'], None), "need a list of words per example, not 'a b'"),
    (TAGS, ([['a'], None], None), 'a list of words per example, not None, as example 1'),
    (TAGS, ([{'a': 'b'}], None), 'need a list of words per example, not {'),
    (TAGS, ([['a', 3]], None), r"a list of words per example, not \['a', 3\]"),
    (TAGS, ([['a']], ['b']), 'without second texts'),
    (spans.Spans(), (['What?'], None), 'give the questions, then the contexts'),
]


@pytest.mark.parametrize('kind, texts, message', ASKED)
def test_texts_of_the_wrong_type_raise(kind, texts, message):
    model = dataclasses.replace(examined.model(), kind=kind)
    with pytest.raises(ValueError, match=message):
        model.predict(*texts)


# (kind, first texts, second texts, target, message) of rows of at most 32 tokens.
UNREADABLE = [
    (spans.Spans(), ['What?'] * 2, ['The whale.', ''], None, 'context 1 has no tokens'),
    (
        *(spans.Spans(), ['What?'], ['The whale.'], [[(0, '')]]),
        r"example 0: the answer \(0, ''\) has no token",
    ),
    (
        *(spans.Spans(), ['What is it? ' * 20], ['The old man. ' * 40], None),
        'question 0 has .* larger max_length',
    ),
    (LABELS, ['x'], None, ['b'], "'b' is unknown; the model has: 'land', 'sea'"),
    (TAGS, [['x']], None, [['b']], "'b' is unknown; the model has: 'O', 'X'"),
    (labels.Scores(), [''], None, None, "the text '' has no tokens"),
]


@pytest.mark.parametrize('kind, first, second, target, message', UNREADABLE)
def test_examples_that_are_no_rows_raise(kind, first, second, target, message):
    with pytest.raises(ValueError, match=message):
        kind.rows(reader(32), tasks.Examples(first, second, target))


ODD = ['', ' ', '\u200d', '\U0001f469\u200d\U0001f467', 'e\u0301\u0301', '<mask>', '\t']


@pytest.mark.parametrize('learn', ['first', 'all'])
@pytest.mark.parametrize('odd', [*ODD, 'whale' * 40])
def test_unusual_words_do_not_shift_tags(odd, learn):
    """Logits that predict each token's own tag give the tags of the words."""
    words = ['the', odd, 'sea', odd, '.']
    kind = tags.Tags(labels=('O', 'X', 'Y'), learn=learn)
    examples = tasks.Examples([words], None, [['X', 'O', 'Y', 'O', 'X']])
    (row,) = kind.rows(reader(), examples)
    assert len(row.tokens) <= 64
    logits_LC = np.zeros((len(row.tokens), 3))
    for word, tag in enumerate(examples.target[0]):
        logits_LC[row.notes == word, kind.labels.index(tag)] = 9.0
    (answer,) = kind.answers([logits_LC], [row], examples)
    seen = [word in row.notes for word in range(5)]
    wanted = [tag if there else 'O' for tag, there in zip(examples.target[0], seen)]
    assert answer['tags'] == wanted and answer['words'] == words
    assert seen[0] and (seen == [True, seen[1], True, seen[3], True] or len(odd) > 99)


def test_predict_warns_of_truncated_texts(tmp_path):
    model = load.load(examined.saved_model(tmp_path / 'toy'))
    with pytest.warns(truncation.TruncationWarning, match='1 of 2 texts .* 64') as told:
        model.predict(['the sea', 'the sea ' * 64])
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        model.predict(['the sea', 'the law'])


@pytest.mark.parametrize('split', ['train', 'validation', 'test'])
def test_constant_scores_raise_before_training(split):
    task = examined.labeled()
    parts = {}
    for name in ('train', 'validation', 'test'):
        part = getattr(task, name)
        target = np.zeros(len(part)) if name == split else np.arange(len(part)) / 3
        parts[name] = dataclasses.replace(part, target=target)
    task = dataclasses.replace(task, kind='scores', metric='spearman', **parts)
    with pytest.raises(ValueError, match=f'scores of the {split} set are 0.0'):
        finetune.Examination(examined.model(), task, config.Finetuning())


def test_invalid_tags_raise_before_training():
    words = [['the', 'sea']] * 4
    good = tasks.Examples(words, None, [['O', 'B-X']] * 4)
    bad = tasks.Examples(words, None, [['O', 'I-X']] * 4)
    given = dict(name='t', kind='tags', metric='entity_f1', train=good)
    for parts in (dict(validation=bad, test=good), dict(validation=good, test=bad)):
        with pytest.raises(ValueError, match="has 'I-X' after 'O'"):
            task = tasks.Task(**given, **parts)
            finetune.Examination(examined.model(), task, config.Finetuning())
    finetune.Examination(
        examined.model(),
        tasks.Task(**given, validation=good, test=good),
        config.Finetuning(),
    )


@pytest.mark.parametrize('rows', ['standard', 'paper'])
def test_correct_answers_have_the_best_score(rows):
    context, answer = 'The whale was white as snow.', (22, 'snow')
    part = tasks.Examples(['What?'] * 4, [context] * 4, [[answer], []] * 2)
    task = tasks.Task('s', 'spans', 'f1', part, part, validation=part)
    settings = config.Finetuning(rows=rows)
    made = finetune.Examination(examined.model(), task, settings)
    examples, read = made.parts['test']
    found = made._measure(examples, read, ['snow', ''] * 2)
    assert found.standard['f1'] == found.paper['token_f1'] == 1.0
