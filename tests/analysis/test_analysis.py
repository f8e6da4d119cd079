"""An analysis end to end: rows, page, cache, and properties of its values."""

import contextlib
import io
import json
import math
import re

import examined
import jax
import numpy as np
import pytest
import tiny
from scipy import stats

from jepa_text.analysis import analyze, features, page, probes
from jepa_text.analysis import results as measured
from jepa_text.data import pipeline
from jepa_text.evaluation.results import result_files
from jepa_text.evaluation.sets import task as tasks
from jepa_text.measures import geometry
from jepa_text.parallel import sharding
from jepa_text.pretrained import load
from jepa_text.report import progress
from jepa_text.running import metrics
from jepa_text.training import geometry as geometry_eval

pytest.importorskip('matplotlib')


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Two seeds of a run of two steps, and a labeled set."""
    folder = tmp_path_factory.mktemp('analysis')
    phases = tiny.phases('mlm')
    changes = dict(steps=2, phases=phases, evaluate=dict(every_steps=0))
    changes |= dict(
        geometry=dict(every_steps=2, texts=24), checkpoint=dict(every_steps=2, keep=1)
    )
    made = tiny.config(folder, **changes)
    for seed in (0, 1):
        tiny.train(made | {'seed': seed}, folder / f'a-{seed}')
    with open(folder / 'a-0' / metrics.FILE, 'a') as file:
        file.write('{"step": 3, "jepa/lambda": 0.5}\n')
    return labeled(folder)


@pytest.fixture(scope='module')
def untrained(tmp_path_factory):
    """Two saved models of these names, and a labeled set."""
    folder = tmp_path_factory.mktemp('untrained')
    for name in ('a-0', 'a-1'):
        examined.saved_model(folder / name)
    return labeled(folder)


def labeled(folder):
    """Writes the labeled set; returns the folder."""
    nouns = ('whale', 'captain', 'sister', 'garden')
    rows = [
        {'text': f'The {noun} and the {other} saw {n} of them.', 'label': noun}
        for noun in nouns
        for other in tiny.NOUNS
        for n in ('one', 'two', 'three')
    ]
    examined.jsonl(folder / 'set.jsonl', rows)
    return folder


def config(folder, **changes):
    made = dict(
        seed=0,
        models=[str(folder / 'a-0'), str(folder / 'a-1')],
        tasks=[dict(name='labeled', path=str(folder / 'set.jsonl'))],
        layers=[],
        poolings=['mean', 'max'],
        train=60,
        test=40,
        half_samples=4,
        controls=['untrained', 'bag of embeddings', 'TF-IDF'],
        threads=1,
    )
    return made | changes


@pytest.fixture(scope='module')
def analysis(folder):
    """(results of an analysis, the lines on the screen)."""
    screen = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(screen):
        patch.setattr(progress, '_EVERY', 0.0)
        found = analyze.analyze(config(folder), folder / 'out')
    return found, screen.getvalue().splitlines()


@pytest.fixture
def results(analysis):
    return analysis[0]


@pytest.mark.slow
def test_progress_covers_every_part(analysis):
    results, lines = analysis
    (task,) = results['tasks']
    for part in ('a, untrained', 'a, bag of embeddings', 'TF-IDF'):
        assert any(line.startswith(f'{part}, {task["name"]}') for line in lines)
    # Two models and untrained ones twice; bags of both, TF-IDF, similarity, comparison.
    assert lines[-1].startswith('comparison 13/13  100%')
    texts = task['train'] + task['test']
    for part in ('measured 2/', 'vectors 64/', f'vectors {texts}/'):
        assert any(part in line for line in lines)


def chosen(results, **wanted):
    return [
        row
        for row in results['rows']
        if all(row[key] == value for key, value in wanted.items())
    ]


@pytest.mark.slow
def test_rows_are_tidy_and_saved(results, folder):
    places = [
        tuple(row[key] for key in row if key not in ('value', 'low', 'high', 'count'))
        for row in results['rows']
    ]
    assert len(set(places)) == len(places)
    saved = json.loads((folder / 'out' / 'analysis.json').read_text())
    assert saved['config']['half_samples'] == 4
    for key in ('rows', 'similarity'):
        assert saved[key] == result_files.plain(results[key])


@pytest.mark.slow
def test_measures_have_controls_forms_and_intervals(results):
    for control in ('', 'untrained', 'bag of embeddings', 'TF-IDF'):
        for form in ('raw', 'centered', 'whitened', 'length_residualized'):
            rows = chosen(results, control=control, metric='effective_rank', form=form)
            assert rows, (control, form)
    last = chosen(results, control='', layer=1, pooling='mean', metric='uniformity')
    assert all(row['low'] <= row['value'] <= row['high'] for row in last)
    (chance,) = chosen(results, control='largest class')
    assert 0.1 < chance['value'] < 0.5
    # Labels are words of these texts, so TF-IDF must recognize them.
    (counted,) = chosen(results, control='TF-IDF', metric='probe_accuracy')
    assert counted['value'] > 0.6


@pytest.mark.slow
def test_page_is_self_contained_and_has_every_figure(results, folder):
    page = (folder / 'out' / 'analysis.html').read_text()
    assert not re.search(r'<script|<img|<link|@import|https?://(?!www.w3.org)', page)
    for words in (
        'Alignment and uniformity, raw',
        'Eigenspectrum',
        'CKA of a seed 0 and a seed 1',
        'Effective rank by layer',
        'Values and their strongest controls',
    ):
        assert words.lower() in page.lower(), words
    # Of seed 1 alone there is no map.
    assert '&lt;svg' not in page and page.count('<svg') == 11


@pytest.mark.parametrize(
    'engine',
    [
        pytest.param(dict(jobs=2), marks=pytest.mark.long),
        pytest.param(dict(name='ray'), marks=pytest.mark.ray),
    ],
    ids=['jobs', 'ray'],
)
def test_other_processes_give_equal_results(
    results, folder, monkeypatch, request, engine
):
    """They compute the vectors, here or on a cluster."""
    if engine == {'name': 'ray'}:
        from ray import cluster_utils

        cluster = cluster_utils.Cluster(True, head_node_args=dict(num_cpus=2))
        request.addfinalizer(cluster.shutdown)
        monkeypatch.setenv('RAY_ADDRESS', cluster.address)
    monkeypatch.setattr(features, '_compute', None)
    out = folder / request.node.callspec.id
    apart = analyze.analyze(config(folder, engine=engine), out)
    for part in ('rows', 'spectra', 'cuts'):
        assert str(apart[part]) == str(results[part])
    assert list((out / 'logs').iterdir())


@pytest.mark.slow
def test_second_analysis_uses_the_cache(results, folder, monkeypatch):
    monkeypatch.setattr(features, '_compute', lambda *_: pytest.fail('computed again'))
    monkeypatch.setattr(page, 'write', lambda *_: None)
    one = [str(folder / 'a-0')]
    again = analyze.analyze(config(folder, models=one), folder / 'out')
    rows = [row for row in results['rows'] if row['seed'] == 0]
    expected = [{**row, 'model': row['model'] and 'a-0'} for row in rows]
    assert sorted(map(repr, again['rows'])) == sorted(map(repr, expected))


SAME = [dict(name='sentences', made='word_order', max_texts=200, seed=n) for n in (0, 1)]


@pytest.mark.parametrize(
    'changes, words',
    [
        (dict(models=[]), 'analyze needs models, as --model='),
        (dict(models=['nowhere']), 'nowhere contains no config.json'),
        (dict(tasks=[dict(name='sst3', path='x')]), "Did you mean 'sst2'"),
        (dict(tasks=[dict(name='labeled')]), "requires 'path'"),
        (dict(poolings=['last4']), 'that every layer has'),
        (dict(poolings=['last4-specials', 'mean']), 'that every layer has'),
        (dict(poolings=['men']), "Did you mean 'mean'"),
        (dict(layers=[7]), 'no layer 7; layers are 0'),
        (dict(controls=['random']), "'random'. .*Available: .*untrained"),
        (dict(halfs=3), "Did you mean 'half_samples'"),
        (dict(half_samples=1), 'half_samples=1 has no standard deviation'),
        (dict(half_samples=-1), 'half_samples=-1 must be an integer at least 0'),
        (dict(test=3), 'test=3 must be an integer at least 8'),
        (dict(train=1), 'train=1 must be an integer at least 2'),
        (dict(tasks=SAME), "Two tasks are named 'word_order'"),
        (dict(tasks=[dict(name='one')]), "one: all training examples have the class 'a'"),
        (dict(tasks=[dict(name='few')]), 'few has 6 different test examples, but at l'),
        (
            dict(tasks=[dict(name='labeled', path='', label='x')]),
            'is empty: give a file or folder',
        ),
    ],
)
def test_invalid_configs_are_rejected(changes, words, untrained):
    # Before any model is loaded.
    made = {'one': ['a'] * 30, 'few': list('aaabbb') * 2 + list('aab')}
    for task in changes.get('tasks', ()):
        if task['name'] in made:
            labels = enumerate(made[task['name']])
            rows = [dict(text=f't{n}', label=x) for n, x in labels]
            path = examined.jsonl(untrained / f'{task["name"]}.jsonl', rows)
            task |= dict(name='labeled', path=path)
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        analyze.analyze(config(untrained, **changes), untrained / 'bad')


def test_scores_that_are_all_equal_raise(untrained):
    rows = [dict(text_a=f'a {n}', text_b=f'b {n}', score=1) for n in range(40)]
    flat = [dict(name='own', path=examined.jsonl(untrained / 'flat.jsonl', rows))]
    with pytest.raises(ValueError, match='flat: all 24 scores of the train set are 1.0'):
        analyze.analyze(config(untrained, tasks=flat), untrained / 'bad')


def test_run_names():
    named = analyze.run_names
    assert named(['r/a-0', 'r/a-1', 'hf:x/m-2'])['hf:x/m-2'] == ('m-2', 0)
    assert named(['r/mlm_seed3', 'q/mlm_seed4'])['r/mlm_seed3'] == ('mlm', 3)
    assert named(['hf:x/m-1', 'hf:x/m-2'])['hf:x/m-1'] == ('m-1', 0)
    study = named(['s/mlm/seed_0', 's/mlm/seed_1', 's/clm/seed_1'])
    assert [*study.values()] == [('mlm', 0), ('mlm', 1), ('clm/seed_1', 0)]
    # No seeds of a model that has their common name.
    assert set(named(['r/a', 'r/a-0', 'r/a-1']).values()) == {
        *(('a', 0), ('a-0', 0), ('a-1', 0))
    }
    # Names that would be equal are replaced by paths.
    assert set(named(['r/a', 'q/a']).values()) == {('r/a', 0), ('q/a', 0)}
    deep = ['/runs/old/r/a', '/runs/old/q/a', 'runs/b']
    assert list(named(deep[:2]).values()) == [('r/a', 0), ('q/a', 0)]
    assert list(named(deep).values()) == [*((path, 0) for path in deep)]
    both = [f'{folder}/mlm-{n}' for folder in 'rq' for n in (0, 1)]
    expected = [(f'{folder}/mlm', n) for folder in 'rq' for n in (0, 1)]
    assert list(named(both).values()) == expected
    assert named(['hf:there/minilm/model'])['hf:there/minilm/model'] == ('minilm', 0)


def test_steps_of_a_run_that_were_saved_are_no_seeds(tmp_path):
    places = [str(tmp_path / f'step-{step}') for step in (1, 2)]
    for factor, place in enumerate(places, 1):
        jax.tree.map(lambda x, f=factor: f * x, examined.model()).save(place)
    assert {*analyze.run_names(places).values()} == {('step-1', 0), ('step-2', 0)}


def test_runs_that_differ_in_more_than_the_seed_keep_their_names(tmp_path):
    def run(folder, **config):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / 'config.json').write_text(json.dumps(config))
        return str(tmp_path / folder)

    steps = [run(f'cpt-{n}', seed=0, steps=n, name=f'cpt_{n}') for n in (200, 900)]
    assert set(analyze.run_names(steps).values()) == {('cpt-200', 0), ('cpt-900', 0)}
    starts = [
        run(
            f'on-{n}',
            seed=n,
            steps=5,
            log_every_steps=n,
            init_from=dict(path=f'runs/mlm-{n}'),
        )
        for n in (3, 4)
    ]
    assert set(analyze.run_names(starts).values()) == {('on', 3), ('on', 4)}
    starts = [run(f'off-{n}', seed=n, init_from=dict(path=f'a-{n}00')) for n in (3, 4)]
    assert set(analyze.run_names(starts).values()) == {('off-3', 0), ('off-4', 0)}


@pytest.fixture(scope='module')
def cloud():
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 8)) + 1.0, rng.integers(5, 40, (200, 2))


def test_half_samples_give_the_standard_error_of_a_mean(cloud):
    rows_ND, lengths_N2 = cloud
    found, deviations = measured.geometry_values(rows_ND, lengths_N2, half_samples=32)
    interval = found['mean_cosine', 'raw']
    # Compare with the spread over independent samples of the same distribution.
    others = [
        measured.geometry_values(
            np.random.default_rng(seed).normal(size=(200, 8)) + 1.0, lengths_N2
        )[0]['mean_cosine', 'raw'].value
        for seed in range(1, 17)
    ]
    error = (interval.high - interval.low) / 2 / stats.t.ppf(0.975, 31)
    assert 0.5 < error / np.std(others, ddof=1) < 2
    assert len(deviations['mean_cosine', 'raw']) == 32
    none, nothing = measured.geometry_values(rows_ND, lengths_N2)
    assert math.isnan(none['uniformity', 'raw'].low) and not nothing


def pairs(seed, words):
    rng = np.random.default_rng(seed)
    first = [' '.join(rng.choice(words, 6)) for _ in range(120)]
    second = [' '.join(rng.choice(words, 6)) for _ in range(120)]
    return first, second


@pytest.mark.parametrize('kind', ['labels', 'scores'])
def test_probes_of_pairs(kind):
    words = [f'w{a}{b}' for a in 'abcdefgh' for b in 'klmnopqr']
    rng = np.random.default_rng(1)
    sides, vectors = [], []
    for seed in (0, 1):
        same_N = rng.integers(0, 2, 120)
        first_ND = rng.normal(size=(120, 6))
        second_ND = np.where(same_N[:, None], first_ND, rng.normal(size=(120, 6)))
        target = same_N.astype(str) if kind == 'labels' else same_N * 5.0
        sides.append(tasks.Examples(*pairs(seed, words), target))
        vectors.append((first_ND, second_ND))
    metric, positive = ('f1', '1') if kind == 'labels' else ('spearman', 4.0)
    task = tasks.Task('t', kind, metric, *sides, positive=positive)
    rows_ND = np.concatenate([*vectors[0], *vectors[1]])
    found = measured.split(rows_ND, task)
    np.testing.assert_array_equal(found[1][1], vectors[1][1])
    values, per_example = probes.evaluate(task, found)
    unique = measured.unique_texts(task)
    geometry, _ = measured.geometry_values(
        rows_ND[-240:][unique.index_M],
        np.full((240, 1), 6),
        half_samples=2,
        units_N=unique.units_M,
        pairs_P2=unique.positives_P2,
    )
    for form in ('raw', 'centered', 'whitened', 'length_residualized'):
        # Length is residualized per fold; the texts of a pair may be in two folds.
        maximum = 0.01 if form == 'length_residualized' else 1e-6
        assert abs(geometry['alignment', form].value) < maximum
        assert geometry['alignment', form].high < maximum
    if kind == 'labels':
        assert (
            values['probe_f1'].value > 0.9 and len(per_example['probe_accuracy']) == 120
        )
        assert per_example['probe_f1'].mean() == pytest.approx(values['probe_f1'].value)
    else:
        assert values['cosine_spearman'].value > 0.8
        assert per_example['cosine_spearman'].mean() == pytest.approx(
            values['cosine_spearman'].value
        )
        assert abs(values['overlap_spearman'].value) < 0.3


@pytest.mark.slow
def test_geometry_is_written_while_training(folder):
    log = {line['step']: line for line in metrics.read(folder / 'a-0')}
    for step in (0, 2):
        assert log[step]['geometry/effective_rank'] > 1
        assert log[step]['geometry/uniformity_length_residualized'] <= 0
    assert log[0]['geometry/uniformity'] != log[2]['geometry/uniformity']


@pytest.mark.slow
def test_geometry_in_training_is_that_of_the_texts(folder):
    model = load.load(folder / 'a-0')
    rows = pipeline.Rows(tiny.rows(folder), 'heldout')
    mesh = sharding.make_mesh(devices=jax.devices()[:1])
    evaluator = geometry_eval.Evaluator(rows, mesh, batch_size=8, texts=10)
    vectors, lengths_N = evaluator.vectors(model.params, model.network)
    assert [len(vectors_ND) for vectors_ND in vectors.values()] == [10, 10]
    first = rows[0]
    ids = first['tokens'][first['segment_ids'] == 1]
    assert lengths_N[0] == len(ids)
    text = model.tokenizer.decode(ids)
    for pool, vectors_ND in vectors.items():
        expected = model.encode([text], pool=pool)[0]
        np.testing.assert_allclose(vectors_ND[0], expected, atol=1e-4)
    rank = geometry.effective_rank(vectors['max'])
    assert evaluator.run(model.params, model.network)[
        geometry_eval.MAX_POOLED
    ] == pytest.approx(rank)
    broken = {'encoder': jax.tree.map(lambda x: x * np.nan, model.params['encoder'])}
    assert all(
        math.isnan(value) for value in evaluator.run(broken, model.network).values()
    )
