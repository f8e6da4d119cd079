"""Finished results are identified by weights, data and settings, not by paths."""

import dataclasses
import itertools
import json
import shutil
from unittest import mock

import examined
import fsspec
import numpy as np
import pytest
from safetensors.numpy import save_file

from jepa_text.evaluation import controls, evaluate, examiner, finetune, groups
from jepa_text.evaluation.config import Config
from jepa_text.evaluation.controls import baselines
from jepa_text.evaluation.members import grid
from jepa_text.evaluation.results import result_files
from jepa_text.pretrained import load, saved
from jepa_text.settings import schema

FAST = dict(steps=2, batch_size=8)


def keys(models, stamps, path, **changes):
    """The keys of all groups on the toy task."""
    section = dict(name='labeled', path=str(path))
    given = dict(learning_rates=(1e-3,), seeds=1, **changes)
    given |= dict(models=models, tasks=(section,))
    config = schema.read(Config, given)
    task = examiner.task_of(section)
    return [one.keys for one in groups.groups_of(config, {task.name: task}, stamps)]


@pytest.mark.parametrize('place', ['memory://weights', 'folder'])
def test_the_stamp_depends_on_the_weights(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    stamps = []
    for number, value in enumerate((0.0, 1.0, 0.0)):
        files, folder = fsspec.url_to_fs(f'{place}/{number}')
        files.makedirs(folder)
        files.pipe(f'{folder}/config.json', b'{}')
        save_file({'a': np.full(2, value, np.float32)}, 'one.safetensors')
        files.put('one.safetensors', f'{folder}/model.safetensors')
        stamps.append(load.fingerprint(f'hf:{place}/{number}'))
    assert stamps[0] == stamps[2] != stamps[1]


def test_keys_depend_on_data_weights_and_settings_only(tmp_path):
    for name in ('a', 'b'):
        (tmp_path / name).mkdir()
    paths = [examined.file_of(tmp_path / name) for name in ('a', 'b')]
    first = keys(('x/run',), {'x/run': 'weights'}, paths[0])
    assert keys(('y/moved',), {'y/moved': 'weights'}, paths[1]) == first
    others = [
        keys(('x/run',), {'x/run': 'other weights'}, paths[0]),
        keys(('x/run',), {'x/run': 'weights'}, paths[0], finetuning=FAST),
        keys(('x/run',), {'x/run': 'weights'}, examined.file_of(tmp_path / 'b', 61)),
    ]
    found = [key for one in (first, *others) for some in one for key in some]
    assert len(set(found)) == len(found)


def test_controls_without_a_model_belong_to_the_first_one(tmp_path):
    """Each control has a key, so that a lost one is noticed; no group is empty."""
    models, data = ('a', 'b'), examined.file_of(tmp_path)
    found = keys(models, dict.fromkeys(models, 'weights'), data)
    assert [sorted(key[1] for key in own) for own in found] == [
        [1e-3],
        [controls.TF_IDF, controls.BAG, controls.LARGEST],
        [1e-3],
        [controls.BAG],
    ]
    task = dataclasses.replace(examined.labeled(), kind='tags')
    config = schema.read(Config, dict(models=models, tasks=({},), seeds=1, width=9))
    found = groups.groups_of(config, {'t': task}, dict.fromkeys(models, 'weights'))
    assert [(one.path, one.controls) for one in found] == [
        ('a', ()),
        ('a', (baselines.COMMONEST,)),
        ('b', ()),
    ]


@pytest.mark.slow
def test_renamed_models_reuse_results_and_new_data_do_not(tmp_path):
    model, data = examined.saved_model(tmp_path / 'toy'), examined.file_of(tmp_path)

    def trained(*models):
        section = dict(name='labeled', path=str(data))
        given = dict(models=tuple(map(str, models)), tasks=(section,), controls=())
        given |= dict(learning_rates=(1e-3,), seeds=1, finetuning=FAST)
        lines = evaluate.evaluate(given, tmp_path / 'out')['lines']
        there = result_files.read(tmp_path / 'out' / 'results')[0]
        return [line['model'] for line in lines], len(there), lines[0]['data_revision']

    names, count, revision = trained(model)
    assert (names, count) == ([str(model)], 1)
    moved = tmp_path / 'moved'
    shutil.copytree(model, moved)
    assert load.fingerprint(model) == load.fingerprint(moved)
    assert trained(moved) == ([str(moved)], 1, revision)
    assert trained(moved, model) == ([str(moved), str(model)], 1, revision)
    # Same name, other rows: results on the old rows are not reused.
    examined.file_of(tmp_path, 61)
    names, count, other = trained(moved)
    assert (names, count) == ([str(moved)], 2) and other != revision
    said = json.loads((moved / saved.FILE).read_text())
    (moved / saved.FILE).write_text(json.dumps(said | {'sha256': 'of other weights'}))
    assert load.fingerprint(model) != load.fingerprint(moved)


def test_each_member_is_given_when_it_is_done_and_not_trained_again(monkeypatch):
    """So a kill loses none, and more seeds train only these."""
    trained = []

    def run(members, width):
        assert width == len(members)
        for member in members:
            trained.append(member.seed)
            yield member, finetune.Outcome({}, {}, None, {})

    made = mock.Mock(run=run, width=lambda count: count, config_of=lambda one: {})
    exam = examiner.Examiner(None, {}, {})
    monkeypatch.setattr(exam, '_examination_of', lambda _: made)
    seeds = tuple(grid.Member(1e-3, seed) for seed in range(4))
    group = groups.Group('common', 'path', 'model', 'task', '', seeds)
    next(exam.run(group))
    assert trained == [0]
    found = list(exam.run(group, {('common', 1e-3, 1), ('common', 1e-4, 2)}))
    assert trained == [0, 0, 2, 3] and len(found) == 3
    assert found[0][0] == dict(width=3, how='vmap', item='common')


def test_a_model_that_changes_meanwhile_is_refused(monkeypatch):
    monkeypatch.setattr(examiner.load, 'load', lambda path: None)
    monkeypatch.setattr(examiner.load, 'fingerprint', lambda path: 'now')
    exam = examiner.Examiner(None, {}, {'runs/a': 'then'})
    group = groups.Group('common', 'runs/a', 'runs/a', 'task', '', ())
    with pytest.raises(ValueError, match='runs/a has changed since .* still train'):
        next(exam.run(group))


def test_a_model_is_let_go_before_the_next_is_loaded(monkeypatch):
    """And an examination before the next is made, as memory may not hold two."""
    exam = examiner.Examiner(mock.Mock(), mock.MagicMock(), dict.fromkeys('ab'))
    held = []

    def made(*_):
        held.append([x is not None for x in (exam._model, exam._examination)])
        return examined.model()

    monkeypatch.setattr(examiner.load, 'load', made)
    monkeypatch.setattr(examiner.load, 'fingerprint', lambda path: None)
    monkeypatch.setattr(examiner, 'examination_of', made)
    for path, task in itertools.product('ab', 'xy'):
        exam._examination_of(groups.Group('common', path, path, task, '', ()))
    assert held == [[False, False], [True, False], [True, False]] * 2
