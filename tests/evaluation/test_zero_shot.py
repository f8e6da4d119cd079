"""Zero-shot similarity: cosines against human scores."""

import dataclasses
import itertools

import examined
import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.spatial import distance
from sklearn.feature_extraction import text

from jepa_text.evaluation import config as settings
from jepa_text.evaluation import controls, evaluate, examiner, finetune_command, zero_shot
from jepa_text.evaluation.controls import baselines
from jepa_text.evaluation.metrics import ranking
from jepa_text.evaluation.results import selection
from jepa_text.evaluation.sets import task as tasks
from jepa_text.pretrained import load, saved

NOUNS = ('whale', 'law', 'ship', 'tax', 'war', 'sea', 'old', 'people', 'house', 'hand')


ALL_PAIRS = [
    dict(text_a=a, text_b=b, score=n, label=n % 2)
    for n, (a, b) in enumerate(itertools.combinations(NOUNS, 2))
]
STSB = [
    dict(sentence1=row['text_a'], sentence2=row['text_b'], label=row['score'])
    for row in ALL_PAIRS
]
ASKED = [dict(query=f'where is the {word}?', document=f'a {word}') for word in NOUNS]


def similar():
    """Pairs whose score is the number of shared nouns, 0 to 2."""
    rng, rows = np.random.default_rng(0), []
    for number in range(60):
        first, score = rng.permutation(NOUNS), int(rng.integers(3))
        second = [*first[:score], *first[4 : 6 - score]]
        one = f'the {first[0]} and the {first[1]} of {number}'
        two = f'a {second[0]}, a {second[1]} at {number}'
        rows.append(dict(text_a=one, text_b=two, score=score))
    return rows


def section(folder, **more):
    path = examined.jsonl(folder / 'near.jsonl', similar())
    return dict(name='own', path=path, zero_shot=True) | more


def examination(folder, given=None, **changes):
    model = dataclasses.replace(examined.model(), **changes)
    task = examiner.task_of(section(folder))
    return examiner.examination_of(model, task, given or settings.Finetuning())


@pytest.mark.parametrize('given, pool', [('auto', 'max'), ('mean', 'mean')])
def test_correlations_equal_scipy(tmp_path, given, pool):
    """By the model's own pooling, or by that of the settings."""
    made = examination(tmp_path, settings.Finetuning(pool=given), pool='max')
    ((member, found),) = made.run([zero_shot.MEMBER])
    test, standard = made.task.test, found.outcome['test']['standard']
    sides = (made.model.encode(x, pool=pool) for x in (test.first, test.second))
    said = [1 - distance.cosine(*pair) for pair in zip(*sides)]
    wanted = (stats.spearmanr(said, test.target)[0], stats.pearsonr(said, test.target)[0])
    reached = [standard[name] for name in ('spearman', 'pearson')]
    assert_allclose(reached, wanted, atol=1e-6)
    assert_allclose(found.predictions, said, atol=1e-6)
    assert made.config['pooling'] == pool
    assert member == (0.0, 0) and found.outcome['status'] == 'done'


def test_equal_pairs_tie(tmp_path):
    made = examination(tmp_path)
    texts = [f'{a} {b}' for a in NOUNS for b in NOUNS]
    same = tasks.Examples(texts, texts, np.arange(len(texts)))
    made.task = dataclasses.replace(made.task, test=same)
    ((_, found),) = made.run([zero_shot.MEMBER])
    assert set(found.predictions) == {1.0} and found.outcome['status'] == 'collapsed'
    assert found.outcome['test']['standard']['spearman'] == 0.0


def test_the_test_set_equals_that_with_training(tmp_path):
    for name, part in (('train', similar()[:40]), ('test', similar()[40:])):
        examined.jsonl(tmp_path / 'near' / f'{name}.jsonl', part)
    given = dict(name='own', path=str(tmp_path / 'near'))
    trained = examiner.task_of(given)
    made = examiner.task_of(given | dict(zero_shot=True))
    assert made.test.first == trained.test.first and len(made.test) == 20
    assert (trained.name, made.name) == ('near', 'near zero-shot')
    assert len(made.train) == len(made.validation) == 0


@pytest.mark.parametrize(
    'file, section, rows',
    [
        # All 45 pairs of ten texts cannot be split without a text on both sides.
        ('near.jsonl', dict(name='own'), ALL_PAIRS),
        ('near.jsonl', dict(name='own'), ASKED),
        ('near/test.jsonl', dict(name='own'), ALL_PAIRS),
        ('near/test.jsonl', dict(name='query_pairs'), ASKED),
        ('near/dev.jsonl', dict(name='stsb'), STSB),
    ],
)
def test_without_training_all_rows_of_a_set_are_answered(tmp_path, file, section, rows):
    examined.jsonl(tmp_path / file, rows)
    path = str(tmp_path / file.split('/')[0])
    task = examiner.task_of(dict(zero_shot=True, path=path) | section)
    assert examiner.sizes_of(task) == (0, 0, len(rows))
    made = examiner.examination_of(examined.model(), task, settings.Finetuning())
    assert made.config['examples'] == [0, 0, len(rows)]
    assert examiner.said_of_shared(task) == ''
    if '/' in file and section['name'] != 'stsb':
        with pytest.raises(ValueError, match="begins with 'train'.*zero_shot=True"):
            examiner.task_of(section | dict(path=path, zero_shot=None))


def test_tf_idf_of_a_task_without_training_is_fitted_on_the_scored_texts(tmp_path):
    rows = [row | dict(text_a=f'{row["text_a"]} or war') for row in ALL_PAIRS]
    path = examined.jsonl(tmp_path / 'near.jsonl', rows)
    task = examiner.task_of(dict(name='own', path=path, zero_shot=True))
    found = baselines.predict(task, controls.TF_IDF)
    vectorizer = text.TfidfVectorizer(sublinear_tf=True).fit(task.test.texts())
    both = map(vectorizer.transform, (task.test.first, task.test.second))
    expected = np.asarray(np.multiply(*(side.toarray() for side in both)).sum(axis=1))
    assert_allclose(found.test, expected, atol=1e-12)
    assert found.validation == []


@pytest.mark.slow
def test_zero_shot_tasks_are_evaluated_with_controls_and_trained_tasks(tmp_path, capsys):
    toy = str(examined.saved_model(tmp_path / 'toy'))
    asked = dict(
        models=(toy,),
        tasks=(section(tmp_path), section(tmp_path, zero_shot=False)),
        learning_rates=(1e-3, 3e-3),
        seeds=1,
        finetuning=dict(steps=2, batch_size=8),
        controls=('words', 'untrained'),
    )
    evaluate.evaluate(asked, tmp_path / 'out', dry_run=True)
    said = capsys.readouterr().out
    assert '6 members remain to be trained, 8 steps in total' in said
    found = evaluate.evaluate(asked, tmp_path / 'out')
    lines = {
        line['model'].removeprefix(toy): line
        for line in found['lines']
        if line['task'] == 'near zero-shot'
    }
    assert set(lines) == {'', ', untrained', ', bag of embeddings', 'TF-IDF'}
    line = lines['']
    assert (line['steps'], line['learning_rate'], line['seed']) == (0, 0, 0)
    assert (line['pooling'], line['causal']) == ('mean', False)
    # The toy was never trained.
    assert line['test'] == lines[', untrained']['test']
    # The score depends only on shared words.
    assert lines['TF-IDF']['test']['standard']['spearman'] > 0.8
    (chosen,) = selection.select([line])
    assert chosen.members == (line,) and not found['compared']
    page = (tmp_path / 'out' / 'evaluation.html').read_text()
    assert 'near zero-shot' in page and 'train and select nothing' in page
    again = evaluate.evaluate(asked, tmp_path / 'out')
    assert again['lines'] == found['lines']


@pytest.mark.slow
def test_two_models_have_intervals_over_texts_and_no_verdict(tmp_path):
    toys = [str(examined.saved_model(tmp_path / name)) for name in ('one', 'two')]
    model = load.load(toys[1])
    (tmp_path / 'two' / saved.FILE).unlink()
    saved.write(toys[1], dataclasses.replace(model, pool='max', length=32))
    asked = dict(models=toys, tasks=(section(tmp_path),), controls=())
    assert len(evaluate.evaluate(asked, tmp_path / 'out')['chosen']) == 2
    page = (tmp_path / 'out' / 'evaluation.html').read_text()
    assert 'No verdict: without training there are no seeds.' in page
    assert '95\xa0%, seeds and texts' in page


def test_vectors_that_are_not_finite_are_recorded(tmp_path):
    params = jax.tree.map(lambda x: x * np.nan, examined.model().params)
    ((_, found),) = examination(tmp_path, params=params).run([zero_shot.MEMBER])
    assert found.outcome['status'] == 'not finite' and found.outcome['test'] is None
    path = examined.jsonl(tmp_path / 'asked.jsonl', ASKED)
    task = examiner.task_of(dict(name='query_pairs', path=path, zero_shot=True))
    model = dataclasses.replace(examined.model(), params=params)
    made = examiner.examination_of(model, task, settings.Finetuning(pool='max'))
    ((_, found),) = made.run([zero_shot.MEMBER])
    assert made.config['pooling'] == 'max' and found.outcome['status'] == 'not finite'


def test_unsupported_zero_shot_tasks_raise(tmp_path):
    made, equal = section(tmp_path), [row | {'score': 2} for row in ALL_PAIRS]
    single = [dict(text=f'the whale {n}', score=n % 3) for n in range(40)]
    for changes, words in (
        (dict(path=examined.jsonl(tmp_path / 'a.jsonl', single)), 'scores of single te'),
        (dict(zero_shot='cosine'), "near has scores, and zero_shot='cosine'"),
        (dict(name='labeled', text='text_a', label='score'), 'near has labels, and zero'),
        (dict(path=examined.jsonl(tmp_path / 'b.jsonl', equal)), 'test set are 2.0, so'),
    ):
        with pytest.raises(ValueError, match=words):
            examiner.task_of(made | changes)
    rows = [dict(text='a [MASK]', answer='b', candidates=['b', 'c'])] * 4
    masked = dict(name='cloze', path=examined.jsonl(tmp_path / 'c.jsonl', rows))
    toy = str(examined.saved_model(tmp_path / 'toy'))
    for task, words in (
        (made, 'near zero-shot is answered without training: remove zero_shot'),
        (masked, 'c is answered without training: cloze tasks are for .*evaluate. only'),
    ):
        with pytest.raises(ValueError, match=words):
            finetune_command.finetune(dict(model=toy, task=task), tmp_path / 'kept')
    assert not (tmp_path / 'kept').exists()


def test_rankings_are_those_of_cosines(tmp_path):
    pairs = itertools.combinations(NOUNS, 2)
    rows = [dict(query=f'where is {a}?', document=f'{b} or {a}') for a, b in pairs]
    path = examined.jsonl(tmp_path / 'asked.jsonl', rows)
    task = examiner.task_of(dict(name='query_pairs', path=path, zero_shot=True))
    made = examiner.examination_of(examined.model(), task, settings.Finetuning())
    ((_, found),) = made.run([zero_shot.MEMBER])
    vectors = [made.model.encode([*x.values()]) for x in (task.queries, task.corpus)]
    unit = [x_ND / np.linalg.norm(x_ND, axis=1, keepdims=True) for x_ND in vectors]
    scores_QN = unit[0] @ unit[1].T
    run = {q: dict(zip(task.corpus, x)) for q, x in zip(task.queries, scores_QN.tolist())}
    expected = ranking.measure(task.qrels, run).standard
    assert found.outcome['test']['standard'] == pytest.approx(expected)
    assert 0 < expected['ndcg@10'] < 1
