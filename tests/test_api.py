"""The public names: `import jepa_text as jt`."""

import dataclasses
import weakref
from pathlib import Path
from unittest import mock

import examined
import jax
import numpy as np
import pandas
import pytest
from numpy.testing import assert_array_equal
from sklearn import compose, pipeline
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import jepa_text as jt
from jepa_text import api, main
from jepa_text.evaluation import train_command
from jepa_text.parallel import exits
from jepa_text.running import self_test

TINY = dict(
    steps=6,
    model=dict(preset='tiny'),
    evaluate=dict(every_steps=0),
    checkpoint=dict(every_steps=3, keep=1),
    log_every_steps=1,
)


SORTS = {'ship': 'the {} ships sail home', 'tax': 'we paid {} taxes last year'}


@pytest.fixture(scope='module')
def run(config, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('HOME', str(tmp_path_factory.mktemp('home')))
        return jt.train(config, '~/run')


@pytest.fixture(scope='module')
def labeled(tmp_path_factory):
    """A CSV of texts and labels."""
    path = tmp_path_factory.mktemp('labeled') / 'sorts.csv'
    lines = ['text,label']
    lines += [
        f'{text.format(n)},{label}' for n in range(40) for label, text in SORTS.items()
    ]
    path.write_text('\n'.join(lines))
    return str(path)


@pytest.fixture(scope='module')
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp('data')
    (folder / 'text.txt').write_text('\n\n'.join(f'The {n}th whale.' for n in range(900)))
    keys = {'prepare.source': dict(name='text', path=str(folder), heldout_every=9)}
    keys['data.folder'] = str(folder / 'rows')
    return api.config('toy:clm_mlm', **TINY, **keys)


def test_the_package_names_what_it_has():
    assert {'load', 'train', 'steps', 'losses', 'sklearn'} < {*dir(jt)}
    assert jt.losses.regularizers.sigreg
    with pytest.raises(AttributeError, match='no attribute'):
        jt.nothing  # noqa: B018


def test_a_config_is_that_of_the_command_line():
    made = api.config('toy:clm', steps=7, optimizer={'weight_decay': 0.05})
    words = ['--config.steps=7', "--config.optimizer={'weight_decay': 0.05}"]
    call = main.read(['jepa-text', 'train', 'toy:clm', '--workdir=x', *words])
    assert made.to_dict() == call.config
    made = api.config('quickstart', jobs=2, **{'runs[0].name': 'first'})
    assert made.engine.jobs == 2 and made.runs[0]['name'] == 'first'
    made = api.config('quickstart', engine=dict(jobs=3), name='mine')
    assert (made.engine.jobs, made.name) == (3, 'mine')
    assert api.config('quickstart', engine='ray').engine.name == 'ray'


@pytest.mark.parametrize(
    'place', ['benchmark:peer', 'finetune:model=a', 'tokenizer', 'evaluate:models=a']
)
def test_a_file_is_for_the_command_of_its_keys(place, tmp_path):
    first, second = tmp_path / 'my.py', tmp_path / 'copy.py'
    assert main.main(['jepa-text', 'init', place, str(first)]) == 0
    assert main.main(['jepa-text', 'init', str(first), str(second)]) == 0
    command = place.partition(':')[0]
    assert f'jepa-text {command} {second}' in second.read_text()
    assert {*api.config(place)} <= {*api.config(second)}


def test_an_analysis_is_known_by_its_own_keys(tmp_path):
    path = tmp_path / 'my.py'
    path.write_text('def get_config():\n    return dict(models=["a"], layers=[1])\n')
    assert api.config(path, tasks=[dict(name='bundled')]).layers == [1]


def test_metrics_at_an_address_are_read(memory):
    line = b'{"step": 3, "train/loss": 2.5}\n'
    memory.pipe('/lab/run/metrics.jsonl', line)
    table = api.Run('memory://lab/run', None).metrics
    assert [*table['step']] == [3] and [*table['train/loss']] == [2.5]


@pytest.mark.parametrize(
    'name, keys, words',
    [
        ('tuy', {}, "Did you mean 'toy'"),
        ('toy', {'stesp': 3}, "Did you mean 'steps'"),
        ('toy', {'steps': np.int64(5)}, r'does not support \(steps=np.int64\(5\)\)'),
        ('evaluate:models=a,tasks=b', {'sedes': 1}, "Did you mean 'seeds'"),
    ],
)
def test_a_wrong_config_is_explained(name, keys, words):
    with pytest.raises(ValueError, match=words):
        api.config(name, **keys)


@pytest.mark.slow
def test_steps_are_those_of_train(config, run):
    """A loop of one's own over both phases ends in the bits of `train`, also if it is
    restarted in the middle of a phase."""
    state = None
    numbers, losses = [], []
    for _ in range(2):
        state, step, batches = jt.steps(config, state)
        for batch in batches:
            state, metrics = step(state, batch)
            numbers.append(int(state.step))
            losses.append(float(metrics['train/loss']))
            if numbers[-1] == 3:
                saved = jax.tree.map(np.asarray, state)
    assert numbers == [1, 2, 3, 4, 5, 6]
    jax.tree.map(assert_array_equal, state.params, run.state.params)
    assert_array_equal(run.metrics['train/loss'], losses)
    state, step, batches = jt.steps(config, saved)
    for batch in batches:
        state, _ = step(state, batch)
    jax.tree.map(assert_array_equal, state.params, run.state.params)
    with pytest.raises(ValueError, match='none is left'):
        jt.steps(config, state)
    given, step, batches = jt.steps(config)
    step(given, next(batches))
    with pytest.raises(ValueError, match='The state is gone: a step was given it'):
        jt.steps(config, given)
    vectors_ND = run.model().encode(['Call me Ishmael.'])
    assert vectors_ND.shape == (1, 64)


def test_a_stopped_run_leaves_no_state_in_memory(monkeypatch, tmp_path):
    """Though a notebook keeps the traceback of the last error."""
    states = []

    def trained(config, workdir):
        state = np.zeros(8)
        states.append(weakref.ref(state))
        raise exits.Stopped('SIGINT')

    monkeypatch.setattr(train_command, 'trained', trained)
    with pytest.raises(exits.Stopped) as caught:
        jt.train({}, tmp_path)
    assert caught.tb and states[0]() is None


def test_a_loop_of_ones_own_refuses_wrong_arithmetic(config, monkeypatch):
    wrong = mock.Mock(side_effect=RuntimeError('wrong results'))
    monkeypatch.setattr(self_test, 'check', wrong)
    with pytest.raises(RuntimeError, match='wrong results'):
        jt.steps(config)


def test_names_may_contain_commas():
    with api._examined('evaluate', 'runs/a,b', ['own@c,d.csv'], None, {}) as (made, _):
        assert list(made.models) == ['runs/a,b']
        assert dict(made.tasks[0]) == {'name': 'own', 'path': 'c,d.csv'}
    section = dict(name='labeled', path='c.csv', text='review', label='stars')
    for tasks in (section, [section]):
        with api._examined('evaluate', 'a', tasks, 'runs/exam', {}) as (made, folder):
            assert [dict(task) for task in made.tasks] == [section]
            assert folder == 'runs/exam'
    with api._examined('evaluate', 'a', section, None, {}) as (_, folder):
        pass
    assert Path(folder).is_dir()  # for the report in it


def test_loaded_models_of_one_name_are_examined_apart():
    model = examined.model()
    smaller = jax.tree.map(lambda x: 0.5 * x, model)
    with api._examined('evaluate', [model, smaller], 'c.csv', None, {}) as (made, _):
        names = [Path(name).name for name in made.models]
        again = [jt.load(name).params for name in made.models]
    assert names == ['toy', 'toy-2']
    for one, other in zip((model, smaller), again):
        jax.tree.map(assert_array_equal, one.params, other)


@pytest.mark.slow
def test_scores_are_a_table_beside_controls(run, labeled, tmp_path):
    keys = dict(seeds=2, steps=2, learning_rates=(1e-3,), **{'finetuning.batch_size': 8})
    table = jt.evaluate(run, Path(labeled), tmp_path / 'exam', **keys)
    again = jt.evaluate([run.workdir], [labeled], tmp_path / 'exam', **keys)
    assert table.equals(again)
    assert {'model', 'metric', 'value', 'low', 'high', 'control'} <= {*table.columns}
    (accuracy,) = table[table.metric == 'accuracy'].to_dict('records')
    assert accuracy['seeds'] == 2 and accuracy['model'] == 'run'
    assert accuracy['low'] <= accuracy['value'] <= accuracy['high']
    # The words alone tell the classes apart.
    assert accuracy['control'].startswith('TF-IDF') and accuracy['control_value'] == 1


@pytest.mark.slow
def test_an_analysis_is_a_table_beside_controls(run, labeled):
    keys = dict(train=40, test=20, half_samples=0, poolings=('mean',))
    table = jt.analyze(dataclasses.replace(run.model(), name='run'), labeled, **keys)
    assert {'model', 'task', 'metric', 'value', 'control', 'reached'} <= {*table.columns}
    assert len(table) and set(table.model) == {'run'}


def test_a_table_instead_of_its_file_is_explained(labeled):
    for tasks in (pandas.read_csv(labeled), 5, None):
        with pytest.raises(ValueError, match=r'tasks is a .*to_csv'):
            jt.evaluate('small', tasks)


def test_vectors_are_a_step_of_scikit_learn(labeled, tmp_path):
    frame = pandas.read_csv(labeled)[:16]
    model = jt.load(examined.saved_model(tmp_path / 'model'))
    steps = pipeline.make_pipeline(jt.sklearn.TextEncoder(model), LogisticRegression())
    grid = {'textencoder__layer': [0, -1]}
    search = GridSearchCV(steps, grid, cv=2).fit(frame.text, frame.label)
    assert search.best_score_ > 0.9
    for wrong in ('a text', frame[['text']]):
        with pytest.raises(ValueError, match='give one column of a table'):
            jt.sklearn.TextEncoder(model).transform(wrong)
    assert set(search.predict(['the 9 ships sail', 'many taxes'])) <= set(SORTS)
    encoder = clone(jt.sklearn.TextEncoder(tmp_path / 'model', pool='max'))
    vectors_ND = encoder.fit_transform(frame.text)
    assert_array_equal(vectors_ND, model.encode(frame.text, pool='max'))
    columns = compose.ColumnTransformer([('said', encoder, 'text')])
    columns.set_output(transform='pandas')
    table = columns.fit_transform(frame.set_axis(range(4, 20)))
    assert_array_equal(table, vectors_ND)
    assert table.index[0] == 4 and [*table][0] == 'said__textencoder0'
    other = dataclasses.replace(model, name='other', pool='max')
    assert encoder.set_params(model=other).transform(['a']).shape == vectors_ND[:1].shape
    assert encoder.model_ is other and clone(encoder).model is other
