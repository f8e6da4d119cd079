"""Conversion of texts to rows, and of a head's outputs to answers, also when saved."""

import dataclasses
import tracemalloc
import types

import draws
import examined
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jepa_text.evaluation import config, finetune
from jepa_text.evaluation.members import grid
from jepa_text.evaluation.sets import task as tasks
from jepa_text.pretrained import base, labels, load, prediction, saved, spans, tags

WORDS = st.text('abcdefgh-.,\u00e9', min_size=1, max_size=9)


def reader(length=64):
    model = examined.model()
    begin, end = model.ends()
    return base.Reader(model.tokenizer, begin, end, length)


@settings(max_examples=50, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=12))
def test_words_have_their_own_tokens_in_order(words):
    """A row has exactly the tokens of the text, each of one word."""
    examples = tasks.Examples([words], None, [['O'] * len(words)])
    (row,) = tags.Tags(labels=('O', 'X')).rows(reader(256), examples)
    word_N = row.notes[row.notes >= 0]
    assert (np.diff(word_N) >= 0).all() and set(word_N) == set(range(len(words)))
    tokenizer = reader().tokenizer
    for number, word in enumerate(words):
        ids = row.tokens[row.notes == number]
        assert tokenizer.decode(ids).strip() == word.strip()
    # One token of each word has a target.
    assert np.sum(row.targets['labels'] != base.IGNORED) == len(words)


class _Spaces:
    """A tokenizer in which spaces are tokens, and a joiner has none."""

    def encode_batch(self, texts, add_special_tokens):
        places = [[n for n, x in enumerate(text) if x != '\u200d'] for text in texts]
        return [
            types.SimpleNamespace(
                ids=[ord(text[n]) for n in found], offsets=[(n, n + 1) for n in found]
            )
            for text, found in zip(texts, places)
        ]


@pytest.mark.parametrize('names', [('O', 'B-X'), ('B-X', 'O')])
def test_spaces_belong_to_the_next_word_and_words_without_a_token_are_outside(names):
    sentences, kind = [['\u200d', 'a', 'bc'], ['\u200d']], tags.Tags(labels=names)
    examples = tasks.Examples(sentences, None, [['O', 'O', 'B-X'], ['O']])
    read = base.Reader(types.SimpleNamespace(backend=_Spaces()), (1,), (2,), 9)
    with pytest.warns(UserWarning, match=r"2 of 4 words have no token .*'\\u200d'.*'O'"):
        rows = kind.rows(read, examples)
    assert rows[0].notes.tolist() == [-1, 1, 1, 2, 2, 2, -1]
    assert rows[1].notes.tolist() == [-1, -1]
    logits_LC = np.eye(2)[[names.index('B-X')] * 7]
    answers = kind.answers([logits_LC] * 2, rows, examples)
    assert [answer['tags'] for answer in answers] == [['O', 'B-X', 'B-X'], ['O']]


def test_learn_all_trains_every_token():
    examples = tasks.Examples([['unforeseeable', 'whales']], None, [['O', 'X']])
    rows = [
        tags.Tags(labels=('O', 'X'), learn=learn).rows(reader(), examples)[0]
        for learn in ('first', 'all')
    ]
    first, all_ = (row.targets['labels'] for row in rows)
    assert np.sum(first >= 0) == 2 and np.sum(all_ >= 0) == len(rows[0].tokens) - 2
    assert (all_[first >= 0] == first[first >= 0]).all()


def test_learn_all_predicts_by_majority():
    examples = tasks.Examples([['unforeseeable']], None, None)
    kind = tags.Tags(labels=('O', 'X'), learn='all')
    (row,) = kind.rows(reader(), examples)
    count = np.sum(row.notes == 0)
    assert count >= 3
    logits_LC = np.zeros((len(row.tokens), 2))
    logits_LC[row.notes == 0] = [[0.0, 5.0]] * (count - 1) + [[9.0, 0.0]]
    assert kind.answers([logits_LC], [row], examples)[0]['tags'] == ['X']
    first = dataclasses.replace(kind, learn='first')
    logits_LC[np.flatnonzero(row.notes == 0)[0]] = [9.0, 0.0]
    assert first.answers([logits_LC], [row], examples)[0]['tags'] == ['O']


def test_truncated_words_have_the_first_tag_and_probability_zero():
    words = ['whale'] * 30
    kind = tags.Tags(labels=('O', 'X'))
    examples = tasks.Examples([words], None, [['X'] * 30])
    (row,) = kind.rows(reader(12), examples)
    assert len(row.tokens) == 12
    made = np.tile([0.0, 1.0], (12, 1))
    (answer,) = kind.answers([made], [row], examples)
    cut = answer['tags'].index('O')
    assert answer['tags'] == ['X'] * cut + ['O'] * (30 - cut)
    assert answer['probabilities'][cut:] == [0.0] * (30 - cut)


CONTEXT = 'The old man sat by the sea and mended his nets. ' * 8 + 'The whale was white.'


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, len(CONTEXT) - 12),
    st.integers(1, 12),
    st.integers(24, 64),
    st.sampled_from([4, 8, 16]),
)
def test_correct_logits_give_the_answer(start, length, room, stride):
    """Logits that match the targets of a window give the correct answer, up to the
    tokens that an answer touches."""
    answer = CONTEXT[start : start + length]
    kind = spans.Spans(stride=stride, longest=40)
    examples = tasks.Examples(['What?'], [CONTEXT], [[(start, answer)]])
    rows = kind.rows(reader(room), examples)
    outputs = []
    for row in rows:
        logits_L2 = np.zeros((len(row.tokens), 2))
        logits_L2[row.targets['start'], 0] += 5
        logits_L2[row.targets['stop'], 1] += 5
        outputs.append(logits_L2)
    (found,) = kind.answers(outputs, rows, examples)
    holds = [row for row in rows if row.targets['start'] > 0]
    if not holds:  # the answer has more tokens than a window
        assert found['text'] == ''
        return
    assert answer.strip() in found['text'] or not answer.strip()
    assert found['tokens'] == kind.gold(rows)[0]
    assert CONTEXT.startswith(found['text'], found['start'])


def test_the_best_span_needs_no_memory_for_all_pairs_of_tokens():
    """A pair of 8,000 tokens for each start would take 512 MB."""
    count = 8000
    offsets_L2 = np.arange(count)[:, None] + [0, 1]
    logits_L2 = np.zeros((count, 2))
    logits_L2[[7000, 7029], [0, 1]] = 3
    tracemalloc.start()
    found = spans.Spans()._best(logits_L2, spans._Window(offsets_L2, 0, ()))
    assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    tracemalloc.stop()
    assert found[0] == 6 and found[2] == (7000, 7030) and len(found[3]) == 30
    shorter = spans.Spans(longest=29)
    assert shorter._best(logits_L2, spans._Window(offsets_L2, 0, ()))[0] == 3


def test_every_token_of_a_context_is_in_a_window():
    kind = spans.Spans(stride=8)
    rows = kind.rows(reader(40), tasks.Examples(['What?'], [CONTEXT], None))
    covered = set()
    for row in rows:
        assert len(row.tokens) <= 40
        covered |= {tuple(pair) for pair in row.notes.offsets_L2 if pair[1] >= 0}
    ((ids, offsets),) = reader().encode(['Question: What?\nContext: ' + CONTEXT])
    prompt = len('Question: What?\nContext: ')
    wanted = {(max(0, a - prompt), b - prompt) for a, b in offsets if b > prompt}
    assert covered == wanted
    short = reader(40)
    (whole,) = spans.Spans(stride=0).rows(short, tasks.Examples(['?'], [CONTEXT]))
    assert len(whole.tokens) == 40 and short.counts == {'texts': 1, 'cut': 1}


def test_answers_that_are_too_long_to_be_predicted_are_counted():
    examples = tasks.Examples(['?', '?'], [CONTEXT] * 2, [[(0, 'The')], [(0, CONTEXT)]])
    with pytest.warns(UserWarning, match='1 of 2 answers have more than 30 tokens'):
        spans.Spans().rows(reader(), examples)


def test_no_answer_is_the_first_position():
    kind = spans.Spans()
    examples = tasks.Examples(['What?'], ['The whale was white.'], [[]])
    (row,) = kind.rows(reader(), examples)
    assert row.targets == {'start': 0, 'stop': 0}
    logits_L2 = np.zeros((len(row.tokens), 2))
    logits_L2[0] = 3
    (found,) = kind.answers([logits_L2], [row], examples)
    assert found['text'] == '' and found['no_answer'] == pytest.approx(6)
    assert kind.gold([row]) == [()]
    # As in SQuAD 1.1, where each question has an answer: one is always given.
    sure = dataclasses.replace(kind, unanswerable=False)
    (found,) = sure.answers([logits_L2], [row], examples)
    assert found['text'] and found['no_answer'] == pytest.approx(6)


def test_learn_tokens_targets_the_answers_tokens():
    kind = spans.Spans(stride=0, learn='tokens')
    start = CONTEXT.index('mended')
    examples = tasks.Examples(['What?'], [CONTEXT], [[(start, 'mended his')]])
    (row,) = kind.rows(reader(), examples)
    marked = np.flatnonzero(row.targets['labels'] == 1)
    logits_L2 = np.tile([1.0, 0.0], (len(row.tokens), 1))
    logits_L2[marked] = [0.0, 1.0]
    (found,) = kind.answers([logits_L2], [row], examples)
    assert found['text'] == 'mended his' and found['tokens'] == kind.gold([row])[0]
    # Answers beyond the row have no target.
    far = tasks.Examples(['What?'], [CONTEXT], [[(CONTEXT.index('white'), 'white')]])
    assert not kind.rows(reader(), far)[0].targets['labels'].any()


def test_pairs_are_joined_by_the_template():
    kind = labels.Labels(
        labels=('no', 'yes'), template='Premise: {first}\nThen: {second}'
    )
    pair = tasks.Examples(['a {second} b'], ['c'], np.array(['yes']))
    (row,) = kind.rows(reader(), pair)
    text = reader().tokenizer.decode(row.tokens)
    assert text == 'Premise: a {second} b\nThen: c'
    assert row.targets == {'label': 1}


def test_padding_does_not_change_the_loss():
    kind = labels.Labels(labels=('a', 'b'))
    rows = kind.rows(reader(), tasks.Examples(['x', 'y z'], None, np.array(['a', 'b'])))
    whole = base.collate(rows, 2, 16, 0)
    filled = base.collate(rows, 5, 32, 0)
    logits_BC = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    wanted = kind.loss(jnp.array(logits_BC[:2]), whole)
    found = kind.loss(jnp.array(logits_BC), filled)
    assert [float(x) for x in wanted] == pytest.approx([float(x) for x in found])
    scores = labels.Scores()
    rows = scores.rows(reader(), tasks.Examples(['x', 'y'], None, np.array([1.0, 3.0])))
    batch = base.collate(rows, 5, 16, 0)
    total, count = scores.loss(jnp.zeros((5, 1)), batch)
    assert (float(total), int(count)) == (10.0, 2)


def test_scores_are_learned_in_their_deviations_from_the_mean():
    given_N = np.array([1850.0, 1950.0, 1850.0, 1950.0])
    examples = tasks.Examples(['x', 'y', 'z', 'v'], None, given_N)
    task = tasks.Task('years', 'scores', 'spearman', examples, examples)
    kind = finetune.kind_of(task, config.Finetuning())
    rows = kind.rows(reader(), examples)
    assert [float(row.targets['score']) for row in rows] == [-1, 1, -1, 1]
    answers = kind.answers(np.array([[-1.0], [0.5]]), rows, examples)
    assert [answer['score'] for answer in answers] == [1850, 1925]


def test_batches_hold_every_row_once(rng):
    rows = [
        base.Row(np.ones(n, np.int32), {}, i)
        for i, n in enumerate(rng.integers(1, 200, 300))
    ]
    seen = []
    for chosen, batch in prediction.batches(rows, 0, 512, tokens=1024):
        seen.extend(chosen)
        counts = batch['segment_ids'].sum(axis=1)[: len(chosen)]
        assert counts.tolist() == [len(rows[i].tokens) for i in chosen]
    assert sorted(seen) == list(range(300))
    # Few rows make a small batch, whatever the budget.
    ((_, batch),) = prediction.batches(rows[:3], 0, 512, tokens=8192)
    assert len(batch['tokens']) == 4


TEXTS = ['the old sea', 'a law \U0001f469\u200d\U0001f467 of e\u0301', 'x', 'war and tax']
METRICS = {
    'labels': 'accuracy',
    'scores': 'spearman',
    'tags': 'token_accuracy',
    'spans': 'f1',
}


def task_of(kind):
    part = {
        'labels': tasks.Examples(TEXTS, None, np.array(['a', 'b', 'b', 'a'])),
        'scores': tasks.Examples(TEXTS, TEXTS[::-1], np.array([0.5, 1.0, 2.0, 0.0])),
        'tags': tasks.Examples(
            [text.split() for text in TEXTS],
            None,
            [['N' if word < 'm' else 'V' for word in text.split()] for text in TEXTS],
        ),
        'spans': tasks.Examples(
            ['What?'] * 4,
            TEXTS,
            [[(len(text) - 1, text[-1])] for text in TEXTS[:3]] + [[]],
        ),
    }[kind]
    return tasks.Task('t', kind, METRICS[kind], part, part, validation=part)


@pytest.mark.parametrize(
    'kind, rows',
    draws.in_stages(
        *((kind, 'standard') for kind in METRICS),
        ('tags', 'paper'),
        ('spans', 'paper'),
        slow=len(METRICS),
    ),
)
def test_a_saved_model_gives_the_same_answers(tmp_path, kind, rows):
    settings = config.Finetuning(steps=2, batch_size=4, rows=rows)
    model = examined.model()
    made = finetune.Examination(model, task_of(kind), settings)
    ((_, found),) = made.run([grid.Member(1e-3, 0)])
    assert found.outcome['status'] in ('done', 'collapsed')
    assert np.isfinite(found.outcome['losses']).all()
    tuned = dataclasses.replace(
        model, network=made.grid.network, params=found.params, kind=made.kind
    )
    saved.write(tmp_path / 'kept', tuned)
    part = made.task.test
    answers = load.load(tmp_path / 'kept').predict(part.first, part.second)
    said = [finetune._prediction(answer) for answer in answers]
    assert said == list(found.predictions)
