"""Cloze scoring: rows, log-likelihoods, ranks, and input checks."""

import dataclasses

import examined
import jax
import numpy as np
import pytest
from test_hf_export import imported

from jepa_text.data import truncation
from jepa_text.evaluation import cloze, evaluate, examiner
from jepa_text.evaluation.controls import baselines
from jepa_text.evaluation.metrics import answers

PLACES = ('sea', 'land', 'war', 'house')


def model(scale=20.0, **changes):
    """An untrained model with more confident predictions."""
    made = examined.model()
    head = jax.tree.map(lambda x: x * scale, made.params['lm_head'])
    given = {'params': made.params | {'lm_head': head}} | changes
    return dataclasses.replace(made, **given)


def log_probabilities(made, tokens):
    """[L, V] of one row, by the network's head, in numpy."""
    apply = made.network.apply

    @jax.jit
    def scores(params, *batch):
        hidden = apply('encoder', params, *batch, causal=False)
        return apply('lm_head', params, hidden, params['encoder']['embedding'])

    logits = scores(made.params, *made.pad([np.asarray(tokens)], 1))
    logits = np.asarray(logits[0], np.float64)
    logits -= logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def questions(rows):
    return [cloze.Question(*row[:2], tuple(row[2]), 0, *row[3:]) for row in rows]


def hidden(**more):
    """Rows whose answer is among four words."""
    rng = np.random.default_rng(0)
    chosen = [PLACES[int(i)] for i in rng.choice(4, 40, p=[0.55, 0.15, 0.15, 0.15])]
    return [
        dict(text=f'In number {n} of the [MASK], they say.', answer=word) | more
        for n, word in enumerate(chosen)
    ]


def test_shift_predicts_a_mask_from_the_previous_position():
    asked = questions([('The ', '.', ('whale',), True)])
    (row,) = cloze.Scorer(model())._rows(asked)
    log_LV, place = log_probabilities(model(), row.tokens), row.notes.masks[0]
    ((id_,),) = row.notes.words.values()
    for shift in (0, 1):
        (predicted,) = cloze.Scorer(model(shift=shift)).predict(asked)
        log_likelihood = log_LV[place - shift, id_]
        assert predicted.log_likelihood == pytest.approx(log_likelihood, abs=1e-4)
    with pytest.raises(ValueError, match='1 masks at position 0 do not fit'):
        bare = model(shift=1, begin=())
        cloze.Scorer(bare).predict(questions([('', ' am.', ('I',), True)]))


def test_long_texts_are_truncated_around_the_mask():
    scorer = cloze.Scorer(model(length=12))
    long = 'the old sea and the law of war ' * 9
    for before, after in ((long, ' end'), ('Begin ', long), (long, f' {long}')):
        given = questions([(before.rstrip() + ' ', after, ('whale', 'law'))])
        with pytest.warns(truncation.TruncationWarning, match='2 of 2 texts .* 12 tok'):
            (row,) = scorer._rows(given)
        assert len(row.tokens) == 12
        is_mask = row.tokens == scorer.model.tokenizer.mask_id
        assert np.flatnonzero(is_mask).tolist() == list(row.notes.masks)
    assert row.notes.masks == (1 + 4,)  # in the middle


def test_metrics_equal_hand_computed_values():
    found = answers.cloze([1, 2, 20, 1], np.log([0.5, 0.25, 0.125, 0.5]), is_open=True)
    assert found.standard == pytest.approx(
        {
            'accuracy': 0.5,
            'mrr': (1 + 0.5 + 0.05 + 1) / 4,
            'accuracy@10': 0.75,
            'log_likelihood': np.log(0.5) * 7 / 4,
        }
    )
    assert set(answers.cloze([1, np.inf]).standard) == {'accuracy'}


def test_rows_without_a_token_are_no_candidates():
    """An embedding may have more rows than there are tokens."""
    made = model()
    scorer = cloze.Scorer(made)
    log_V = np.linspace(-9.0, -1.0, made.tokenizer.vocab_size + 3)
    answer = made.tokenizer.vocab_size - 1
    predicted = scorer._of_vocabulary(log_V, answer)
    assert predicted.rank == 1
    assert predicted.word == made.tokenizer.decode([answer]).strip()


def test_ties_do_not_count_as_correct():
    """A constant head gets no candidate right by its order."""
    rows = hidden(candidates=list(PLACES))
    right = [PLACES.index(row['answer']) for row in rows]
    given = [cloze.Question('The ', ' is.', PLACES, place) for place in right]
    assert {one.rank for one in cloze.Scorer(model(scale=0.0)).predict(given)} == {4}


def foreign(**more):
    """Rows of words that the tokenizer of hf_cases knows."""
    return [
        dict(
            text=f'w{5 + n % 7} w9 [MASK] w1{n % 9} w3{n % 5}',
            answer=f'w{20 + PLACES.index(row["answer"])}',
        )
        | more
        for n, row in enumerate(hidden())
    ]


@pytest.mark.slow
def test_a_cloze_file_is_evaluated_with_its_control(tmp_path):
    _, folder = imported(tmp_path, 'bert')
    words = [f'w{n}' for n in range(20, 24)]
    closed = examined.jsonl(tmp_path / 'hidden.jsonl', foreign(candidates=words))
    opened = examined.jsonl(tmp_path / 'opened.jsonl', foreign())
    both = dict(name='own', path=closed), dict(name='cloze', path=opened)
    asked = dict(models=(f'hf:{folder}',), tasks=both)
    found = evaluate.evaluate(asked, tmp_path / 'out')
    lines = {(line['model'], line['task']): line for line in found['lines']}
    names = f'hf:{folder}', baselines.ANSWER
    assert set(lines) == {(name, task) for name in names for task in ('hidden', 'opened')}
    line = lines[names[0], 'opened']
    assert (line['kind'], line['steps'], line['zero_shot']) == ('cloze', 0, True)
    assert line['examples'] == [0, 0, 40]
    expected = {'accuracy', 'mrr', 'accuracy@10', 'log_likelihood'}
    assert set(line['test']['standard']) == expected
    test = examiner.task_of(asked['tasks'][0]).test
    share = np.mean([answer == 'w20' for answer, _ in test.target])
    control = lines[baselines.ANSWER, 'hidden']['test']['standard']
    assert control == {'accuracy': pytest.approx(share)} and 0.3 < share < 0.9
    assert evaluate.evaluate(asked, tmp_path / 'out')['lines'] == found['lines']


def test_unknown_words_raise(tmp_path):
    made, _ = imported(tmp_path, 'bert')
    with pytest.raises(ValueError, match="does not know the word 'zebra'"):
        cloze.Scorer(made).predict(questions([('w5 ', ' w6', ('w7', 'zebra'))]))


@pytest.mark.slow
def test_a_model_that_cannot_fill_masks_raises_before_training(tmp_path):
    model = str(tmp_path / 'run')
    examined.saved_model(model)
    path = examined.jsonl(tmp_path / 'a.jsonl', hidden(candidates=list(PLACES)))
    asked = dict(models=(model,), tasks=(dict(name='cloze', path=path),))
    with pytest.raises(ValueError, match='run has no LM head, so it cannot fill masks'):
        evaluate.evaluate(asked, tmp_path / 'out')
    # Of the one in the package, a dry run reads no weights.
    evaluate.evaluate(asked | dict(models=('small',)), tmp_path / 'out', dry_run=True)
    assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize(
    'row, what',
    [
        ({'text': 'no mask at all'}, 'row 3: .* has 0 masks, but must have exactly one'),
        ({'text': 'a [MASK] and a <mask>'}, 'has 2 masks, but must have exactly one'),
        ({'text': ''}, "row 3: '' has 0 masks"),
        ({'text': None}, 'the text is None, but must be a string'),
        ({'answer': ' '}, "' ' is not a word"),
        ({'answer': 'ship'}, "is 'ship', but the candidates are 'sea', .*contain it"),
        ({'candidates': ['sea', 'sea']}, 'they must be unique'),
        ({'candidates': ['sea']}, 'give two or more'),
        ({'candidates': None}, 'the candidates are None: give two or more'),
    ],
)
def test_invalid_rows_raise(tmp_path, row, what):
    rows = hidden(candidates=list(PLACES))
    rows[2] |= row
    path = examined.jsonl(tmp_path / 'a.jsonl', rows)
    with pytest.raises(ValueError, match=what):
        examiner.task_of(dict(name='cloze', path=path))


def test_candidates_are_read_from_table_cells(tmp_path):
    rows = hidden(candidates='|'.join(PLACES))
    path = examined.jsonl(tmp_path / 'a.jsonl', rows)
    task = examiner.task_of(dict(name='cloze', path=path))
    assert {others for _, others in task.test.target} == {tuple(sorted(PLACES))}
    with pytest.raises(ValueError, match="has no field 'choices'"):
        examiner.task_of(dict(name='cloze', path=path, candidates='choices'))


@pytest.mark.parametrize(
    'row, what',
    [
        (('The ', ' is.', ('congressman',), True), 'without candidates an answer must'),
        (('The wh', 'le.', ('a', 'o')), "no separate tokens for 'a': they contain adjac"),
        (('The ', '.', ('sea', ' sea')), "has the same tokens for ' sea' and 'sea'"),
    ],
)
def test_words_that_cannot_be_scored_raise(row, what):
    with pytest.raises(ValueError, match=what):
        cloze.Scorer(model()).predict(questions([row]))


WORDS = ('whale', 'congressman', 'law')  # one of several tokens


def test_likelihoods_of_words_are_sums_over_their_masks():
    made, values = model(), []
    begin = made.row('The')[:-1]
    end = made.row('The is gone.')[len(begin) :]
    for word in WORDS:
        ids = made.row(f'The {word} is gone.')[len(begin) : -len(end)]
        masks = np.full(len(ids), made.tokenizer.mask_id)
        log_LV = log_probabilities(made, np.concatenate([begin, masks, end]))
        values.append(log_LV[len(begin) + np.arange(len(ids)), ids].sum())
    asked = [cloze.Question('The ', ' is gone.', WORDS, place) for place in range(3)]
    for value, predicted in zip(values, cloze.Scorer(made).predict(asked)):
        assert predicted.log_likelihood == pytest.approx(value, abs=1e-4)
        assert predicted.word == WORDS[int(np.argmax(values))]
        assert predicted.rank == 1 + sum(other > value for other in values)
