"""Masks filled without training: rows, log-likelihoods, ranks, and what is refused."""

import dataclasses
import json

import examined
import jax
import numpy as np
import pytest
import tiny
from test_hf_export import imported

from jepa_text.evaluation import cloze, evaluate, examiner, zero_shot
from jepa_text.evaluation import config as settings
from jepa_text.evaluation.controls import baselines
from jepa_text.evaluation.metrics import cloze as ranks
from jepa_text.evaluation.results import lines as results
from jepa_text.evaluation.sets import task as tasks
from jepa_text.training import train

PLACES = ('sea', 'land', 'war', 'house')
WORDS = {'land': 'law', 'sea': 'sea'}


def model(scale=20.0, **changes):
    """An untrained one that is surer of itself."""
    made = examined.model()
    head = jax.tree.map(lambda x: x * scale, made.params['lm_head'])
    given = {'params': made.params | {'lm_head': head}} | changes
    return dataclasses.replace(made, **given)


def log_probabilities(made, tokens):
    """[L, V] of one row, by the network's own head, in numpy."""
    batch = made.pad([np.asarray(tokens)], 1)
    hidden = made.network.apply('encoder', made.params, *batch, causal=False)
    embedding = made.params['encoder']['embedding']
    logits = made.network.apply('lm_head', made.params, hidden, embedding)
    logits = np.asarray(logits[0], np.float64)
    logits -= logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def questions(rows):
    return [cloze.Question(*row[:2], tuple(row[2]), 0, *row[3:]) for row in rows]


def written(folder, rows, name='hidden.jsonl'):
    path = folder / name
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    return str(path)


def hidden(count=40, **more):
    """Rows whose answer is among four words."""
    rng = np.random.default_rng(0)
    chosen = [PLACES[int(i)] for i in rng.choice(4, count, p=[0.55, 0.15, 0.15, 0.15])]
    return [
        dict(text=f'In number {n} of the [MASK], they say.', answer=word) | more
        for n, word in enumerate(chosen)
    ]


@pytest.mark.slow
def test_a_row_is_what_fill_reads_and_its_values_are_those_of_the_whole_row():
    made = model()
    reading = cloze.Reading(made)
    given = questions(
        [('The old ', ' swam.', ('whale',), True), ('', ' am.', ('I',), True)]
    )
    for question, told in zip(given, reading.told(given)):
        (row,) = reading._rows([question])
        text = question.before + '<mask>' + question.after
        begin, end = made.ends()
        wanted = [*begin, *made.tokenizer.encode_masked(text), *end]
        assert row.tokens.tolist() == wanted
        log_V = log_probabilities(made, row.tokens)[row.notes.masks[0]]
        ((id_,),) = row.notes.words.values()
        assert made.tokenizer.decode([id_]).strip() == question.words[0]
        assert told.log_likelihood == pytest.approx(log_V[id_], abs=1e-4)
        assert told.rank == 1 + np.sum(log_V > log_V[id_])
        ((best, share), *_) = made.fill(text)[0]
        assert told.said == best.strip()
        assert np.exp(log_V.max()) == pytest.approx(share, rel=1e-3)


@pytest.mark.slow
def test_words_of_several_tokens_have_as_many_masks():
    made = model()
    words = ('whale', 'congressman', 'law')
    (told,) = cloze.Reading(made).told(questions([('The ', ' is gone.', words)]))
    values = []
    for word in words:
        ids = made.tokenizer.encode(f' {word}')
        around = [made.tokenizer.encode(x) for x in ('The', ' is gone.')]
        masks = [made.tokenizer.mask_id] * len(ids)
        row = [*made.ends()[0], *around[0], *masks, *around[1], *made.ends()[1]]
        start = 1 + len(around[0])
        log_LV = log_probabilities(made, row)[start : start + len(ids)]
        values.append(log_LV[np.arange(len(ids)), ids].sum())
    assert len(made.tokenizer.encode(' congressman')) > 1
    assert told.log_likelihood == pytest.approx(values[0], abs=1e-3)
    assert told.said == words[int(np.argmax(values))]
    assert told.rank == 1 + sum(value > values[0] for value in values)


def test_a_masked_word_may_be_told_by_the_position_before():
    (one,), (two,) = (
        cloze.Reading(model(shift=shift)).told(
            questions([('The ', '.', ('whale',), True)])
        )
        for shift in (0, 1)
    )
    made, (row,) = (
        model(),
        cloze.Reading(model())._rows(questions([('The ', '.', ('whale',), True)])),
    )
    log_LV, place = log_probabilities(made, row.tokens), row.notes.masks[0]
    ((id_,),) = row.notes.words.values()
    for told, at in ((one, place), (two, place - 1)):
        assert told.log_likelihood == pytest.approx(log_LV[at, id_], abs=1e-4)
    with pytest.raises(ValueError, match='no place for 1 masks at 0'):
        bare = model(shift=1, begin=())
        cloze.Reading(bare).told(questions([('', ' am.', ('I',), True)]))


def test_of_a_long_text_what_is_near_the_mask_is_read():
    reading = cloze.Reading(model(), 12)
    long = 'the old sea and the law of war ' * 9
    for before, after in ((long, ' end'), ('Begin ', long), (long, f' {long}')):
        given = questions([(before.rstrip() + ' ', after, ('whale', 'law'))])
        with pytest.warns(UserWarning, match='1 of 1 texts are longer than the 12'):
            (row,) = reading._rows(given)
        assert len(row.tokens) == 12
        is_mask = row.tokens == reading.model.tokenizer.mask_id
        assert np.flatnonzero(is_mask).tolist() == list(row.notes.masks)
    assert row.notes.masks == (1 + 4,)  # in the middle


def test_text_that_spells_a_mask_stays_text():
    task = labeled({'template': '{text} So [MASK].', 'words': WORDS})
    texts = ['It says <mask>.', 'the [MASK]'] * 2
    made = tasks.Examples(texts, None, np.array(['sea', 'land'] * 2))
    given = zero_shot.questions_of(task, made)
    assert given[0] == ('It says <mask>. So ', '.', ('law', 'sea'), 1, False)
    rows = cloze.Reading(model())._rows(given[:2])
    assert all(len(row.notes.masks) == 1 for row in rows)
    assert all(np.sum(row.tokens == model().tokenizer.mask_id) == 1 for row in rows)


def labeled(given):
    made = examined.labeled()
    return zero_shot.task_of(made, given)


def test_labels_are_the_words_that_stand_for_them():
    words = {'land': 'law', 'sea': 'whale'}
    task = labeled({'template': 'It is of the <mask>: {text}', 'words': words})
    made = examiner.examination_of(model(), task, settings.Finetuning())
    ((_, found),) = made.run([zero_shot.MEMBER])
    reading = cloze.Reading(model())
    said = []
    for text in task.test.first:
        halves = 'It is of the ', f': {text}'
        pairs = {
            label: reading.told(questions([(*halves, (word,))]))[0].log_likelihood
            for label, word in words.items()
        }
        said.append(max(pairs, key=pairs.get))
    assert found.predictions == said
    standard = found.outcome['test']['standard']
    assert standard['accuracy'] == np.mean(np.array(said) == task.test.target)
    assert {'macro_f1', 'mcc', 'mrr', 'log_likelihood'} < set(standard)
    assert made.config['template'] == 'It is of the <mask>: {text}'
    assert made.config['zero_shot']['words'] == words


def test_another_head_is_another_config(tmp_path):
    """The vectors are the same, and so is the revision of the model."""
    path = written(tmp_path, hidden(candidates=list(PLACES)))
    task = examiner.task_of(dict(name='cloze', path=path))
    one, two, three = (
        examiner.examination_of(made, task, settings.Finetuning()).config_of(
            zero_shot.MEMBER
        )
        for made in (model(), model(), model(scale=3.0))
    )
    assert one['model_revision'] == three['model_revision']
    hashes = [results.config_hash(config) for config in (one, two, three)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_metrics_are_by_hand():
    found = ranks.measure([1, 2, 20, 1], np.log([0.5, 0.25, 0.125, 0.5]), is_open=True)
    assert found.standard == pytest.approx(
        {
            'accuracy': 0.5,
            'mrr': (1 + 0.5 + 0.05 + 1) / 4,
            'accuracy@10': 0.75,
            'log_likelihood': np.log(0.5) * 7 / 4,
        }
    )
    assert set(ranks.measure([1, np.inf]).standard) == {'accuracy'}
    for bad in ([], [0, 1], [np.nan]):
        with pytest.raises(ValueError, match='must be some, each from 1 on'):
            ranks.measure(bad)


def test_equal_words_are_no_hit():
    """A head that says nothing is not right by the order of candidates."""
    rows = hidden(candidates=list(PLACES))
    head = jax.tree.map(np.zeros_like, examined.model().params['lm_head'])
    flat = dataclasses.replace(
        examined.model(), params=examined.model().params | {'lm_head': head}
    )
    given = [
        cloze.Question('The ', ' is.', PLACES, PLACES.index(row['answer']))
        for row in rows
    ]
    assert {one.rank for one in cloze.Reading(flat).told(given)} == {4}


def foreign(count=40, **more):
    """Rows of the words that hf_cases' tokenizer knows."""
    words = {word: f'w{n}' for n, word in enumerate(PLACES, 20)}
    return [
        dict(
            text=f'w{5 + n % 7} w9 [MASK] w1{n % 9} w3{n % 5}',
            answer=words[row['answer']],
        )
        | more
        for n, row in enumerate(hidden(count))
    ]


@pytest.mark.slow
def test_a_file_of_hidden_words_is_examined_beside_the_commonest_answer(tmp_path):
    _, folder = imported(tmp_path, 'bert')
    words = [f'w{n}' for n in range(20, 24)]
    closed = written(tmp_path, foreign(candidates=words))
    opened = written(tmp_path, foreign(), 'opened.jsonl')
    asked = dict(
        models=(f'hf:{folder}',),
        tasks=(dict(name='own', path=closed), dict(name='cloze', path=opened)),
    )
    found = evaluate.evaluate(asked, tmp_path / 'out')
    lines = {(line['model'], line['task']): line for line in found['lines']}
    names = f'hf:{folder}', baselines.ANSWER
    assert set(lines) == {(name, task) for name in names for task in ('hidden', 'opened')}
    line = lines[names[0], 'opened']
    assert (line['kind'], line['steps'], line['zero_shot']) == ('cloze', 0, True)
    assert line['examples'][2] == 16 and sum(line['examples']) == 40
    assert set(line['test']['standard']) == {
        *('accuracy', 'mrr', 'accuracy@10', 'log_likelihood')
    }
    test = examiner.task_of(asked['tasks'][0]).test
    share = np.mean([answer == 'w20' for answer, _ in test.target])
    control = lines[baselines.ANSWER, 'hidden']['test']['standard']
    assert control == {'accuracy': pytest.approx(share)} and 0.3 < share < 0.9
    assert evaluate.evaluate(asked, tmp_path / 'out')['lines'] == found['lines']


def test_a_word_that_the_tokenizer_does_not_know_is_refused(tmp_path):
    made, _ = imported(tmp_path, 'bert')
    with pytest.raises(ValueError, match="does not know the word 'zebra'"):
        cloze.Reading(made).told(questions([('w5 ', ' w6', ('w7', 'zebra'))]))


@pytest.mark.slow
@pytest.mark.parametrize(('objective', 'fits'), [('mlm', True), ('clm', False)])
def test_runs_fill_masks_after_mlm_and_are_refused_after_clm(tmp_path, objective, fits):
    phases = (dict(share=1.0, objective=dict(name=objective)),)
    config = tiny.config(tmp_path, steps=2, phases=phases)
    train.train(config, str(tmp_path / 'run'))
    path = written(tmp_path, hidden(candidates=list(PLACES)))
    asked = dict(models=(str(tmp_path / 'run'),), tasks=(dict(name='cloze', path=path),))
    if not fits:
        with pytest.raises(ValueError, match='run at step 2 reads causally, so it names'):
            evaluate.evaluate(asked, tmp_path / 'out')
        assert not (tmp_path / 'out').exists()
        return
    evaluate.evaluate(asked, tmp_path / 'out', dry_run=True)
    assert len(evaluate.evaluate(asked, tmp_path / 'out')['lines']) == 2


@pytest.mark.slow
def test_models_that_fill_no_masks_are_refused_before_anything(tmp_path):
    toy = str(examined.saved_model(tmp_path / 'toy'))
    task = dict(name='cloze', path=written(tmp_path, hidden()))
    asked = dict(models=(toy,), tasks=(task,))
    for dry_run in (True, False):
        with pytest.raises(
            ValueError, match='toy has no LM head, so it can fill nothing'
        ):
            evaluate.evaluate(asked, tmp_path / 'out', dry_run)
    _, decoder = imported(tmp_path, 'llama')
    asked['models'] = (f'hf:{decoder}',)
    with pytest.raises(ValueError, match='llama reads causally, so it names no masked'):
        evaluate.evaluate(asked, tmp_path / 'out')
    assert not (tmp_path / 'out').exists()
    bare = model(params={'encoder': model().params['encoder']})
    with pytest.raises(ValueError, match='has no LM head'):
        cloze.Reading(bare)


@pytest.mark.parametrize(
    ('row', 'what'),
    [
        ({'text': 'no mask at all'}, 'row 3: .* has 0 masks, and must have one'),
        ({'text': 'a [MASK] and a <mask>'}, 'has 2 masks, and must have one'),
        ({'text': ''}, "row 3: '' has 0 masks"),
        ({'text': None}, 'the text is None, and must be a text'),
        ({'answer': ' '}, "' ' is no word to stand at the mask"),
        (
            {'answer': 'ship'},
            "the answer is 'ship', and the candidates are 'sea', .*one of",
        ),
        ({'candidates': ['sea', 'sea']}, 'it must be one of them, each once'),
        ({'candidates': ['sea']}, 'give two or more'),
        ({'candidates': None}, 'the candidates are None: give two or more'),
    ],
)
def test_bad_rows_are_named(tmp_path, row, what):
    rows = hidden(candidates=list(PLACES))
    rows[2] |= row
    with pytest.raises(ValueError, match=what):
        examiner.task_of(dict(name='cloze', path=written(tmp_path, rows)))


def test_candidates_may_stand_in_a_cell_and_a_named_field_must_be_there(tmp_path):
    rows = hidden(candidates='|'.join(PLACES))
    path = written(tmp_path, rows)
    task = examiner.task_of(dict(name='cloze', path=path))
    assert {others for _, others in task.test.target} == {tuple(sorted(PLACES))}
    with pytest.raises(ValueError, match="has no field 'choices'"):
        examiner.task_of(dict(name='cloze', path=path, candidates='choices'))


@pytest.mark.parametrize(
    ('row', 'what'),
    [
        (
            ('The ', ' is.', ('congressman',), True),
            'without candidates an answer must be',
        ),
        (('The wh', 'le.', ('a', 'o')), "no tokens for 'a' alone: it hangs together"),
        (('The ', '.', ('sea', ' sea')), "reads ' sea' and 'sea' as the same tokens"),
    ],
)
def test_words_that_cannot_be_told_are_refused(row, what):
    with pytest.raises(ValueError, match=what):
        cloze.Reading(model()).told(questions([row]))


@pytest.mark.parametrize(
    ('given', 'what'),
    [
        (True, 'has labels, and zero_shot=True'),
        ({'template': '{text} <mask>'}, 'give template, .* and words'),
        ({'template': '{text} <mask>', 'words': {'sea': 'a'}}, 'labels are land, sea'),
        ({'template': '{text}', 'words': WORDS}, 'has 0 masks, and must have one'),
        ({'template': 'It <mask>', 'words': WORDS}, "must have '{text}' once"),
        ({'template': '{first} <mask>', 'words': WORDS}, "must have '{text}' once"),
        (
            {'template': '{text} <mask>', 'words': {'land': 'x', 'sea': 'x'}},
            'give each label a word of its own',
        ),
    ],
)
def test_bad_verbalizers_are_refused(given, what):
    with pytest.raises(ValueError, match=what):
        labeled(given)
