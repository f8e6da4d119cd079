"""The evaluate and finetune commands: grid, resuming, selection and files."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import sys
from pathlib import Path
from unittest import mock

import children
import examined
import huggingface_hub as hub
import numpy as np
import pytest

from jepa_text import engine
from jepa_text.data import truncation
from jepa_text.evaluation import config as settings
from jepa_text.evaluation import evaluate, examiner, finetune, finetune_command
from jepa_text.evaluation import groups as grouping
from jepa_text.evaluation.controls import BAG
from jepa_text.evaluation.results import result_files, summary
from jepa_text.evaluation.sets import task as tasks
from jepa_text.pretrained import load, saved
from jepa_text.settings import config_file, schema

FAST = dict(steps=4, batch_size=8)


@pytest.fixture(scope='module')
def place(tmp_path_factory):
    """A folder with a model and a task."""
    folder = tmp_path_factory.mktemp('exam')
    examined.saved_model(folder / 'toy')
    examined.file_of(folder)
    return folder


def config(place, **changes):
    task = dict(name='labeled', path=str(place / 'sea.jsonl'))
    given = dict(models=(str(place / 'toy'),), tasks=(task,), finetuning=FAST)
    given |= dict(learning_rates=(1e-3, 3e-3), seeds=2, controls=())
    return {**given, **changes}


@pytest.fixture(scope='module')
def done(place):
    return evaluate.evaluate(config(place), place / 'out')


def told(lines):
    """The parts of lines that must be reproducible."""
    free = ('seconds', 'side', 'sha256')
    return [{k: v for k, v in line.items() if k not in free} for line in lines]


@pytest.mark.slow
def test_every_member_has_both_definitions_of_metrics(done):
    lines = done['lines']
    members = {(line['learning_rate'], line['seed']) for line in lines}
    assert members == {(rate, seed) for rate in (1e-3, 3e-3) for seed in (0, 1)}
    assert done['damaged'] == {} and done['failed'] == {}
    for line in lines:
        assert set(line['test']) == {'standard', 'paper'} and line['versions']['jax']
        assert 'JAX_DEFAULT_MATMUL_PRECISION' in line['versions']
        assert line['examples'] == [34, 2, 24] and line['steps'] == 4
        assert (line['width'], line['how']) == (1, 'map')


@pytest.mark.slow
def test_a_repeated_evaluation_trains_nothing(place, done, monkeypatch, capsys):
    assert evaluate.evaluate(config(place), place / 'out', dry_run=True) is None
    assert '0 members remain to be trained, 0 steps in total.' in capsys.readouterr().out
    monkeypatch.setattr(finetune.Examination, 'run', None)
    again = evaluate.evaluate(config(place), place / 'out')
    assert again['lines'] == done['lines']
    # Nor with another width, as on another machine.
    wider = evaluate.evaluate(config(place, width=4), place / 'out')
    assert wider['lines'] == done['lines']


@pytest.mark.slow
def test_the_rate_is_selected_on_validation_and_files_are_written(place, done):
    (one,) = done['chosen']
    values = {1e-3: [], 3e-3: []}
    for line in done['lines']:
        accuracy = line['validation']['standard']['accuracy']
        values[line['learning_rate']].append(accuracy)
    assert one.rate == max(values, key=lambda rate: np.mean(values[rate]))
    folder = place / 'out'
    (record,) = json.loads((folder / 'summary.json').read_text())
    wanted = np.mean(list(one.values().values()))
    assert record['standard']['accuracy'][0] == pytest.approx(wanted)
    assert 'sea,paper,accuracy' in (folder / 'summary.csv').read_text()
    assert 'sea' in (folder / 'evaluation.html').read_text()


@pytest.mark.slow
def test_missing_and_damaged_lines_are_recomputed(place, done):
    folder = place / 'out' / 'results'
    first, second, *others = sorted(folder.glob('*.json'))
    first.unlink()
    second.write_text(second.read_text().replace('"seed": 1', '"seed": 7'))
    before = [path.stat().st_mtime_ns for path in others]
    again = evaluate.evaluate(config(place), place / 'out')
    assert told(again['lines']) == told(done['lines'])
    # More seeds keep what is there.
    more = evaluate.evaluate(config(place, seeds=3), place / 'out')
    assert len(more['lines']) == 6
    assert [path.stat().st_mtime_ns for path in others] == before


@pytest.mark.slow
def test_further_seeds_are_trained_at_the_rate_that_the_first_ones_chose(place, capsys):
    """Of models and of the untrained control; resumed, it trains nothing."""
    changes = dict(seeds=3, search_seeds=1, controls=('words', 'untrained'))
    given = config(place, **changes), place / 'searched'
    evaluate.evaluate(*given, dry_run=True)
    assert '8 members remain to be trained' in capsys.readouterr().out
    found = evaluate.evaluate(*given)
    for choice in found['chosen']:
        if choice.first.get('control') not in (None, 'untrained'):
            continue
        own = [x for x in found['lines'] if Path(x['model']).name == choice.model]
        at = {(x['seed'], x['learning_rate']) for x in own}
        assert at == {(0, 1e-3), (0, 3e-3), (1, choice.rate), (2, choice.rate)}
        first = {x['learning_rate']: x for x in own if x['seed'] == 0}
        best = max(first.values(), key=lambda x: x['validation']['standard']['accuracy'])
        assert choice.rate == best['learning_rate'] and len(choice.members) == 3
    capsys.readouterr()
    evaluate.evaluate(*given, dry_run=True)
    assert '0 members remain to be trained' in capsys.readouterr().out
    again = evaluate.evaluate(*given)
    assert told(again['lines']) == told(found['lines'])
    assert 'other settings' not in capsys.readouterr().out


@pytest.mark.slow
def test_members_of_other_settings_are_left_out_and_counted(place, done, capsys):
    """They do not belong in the same table, but are kept on disk."""
    other = config(place, seeds=1, finetuning=FAST | dict(steps=2))
    found = evaluate.evaluate(other, place / 'out')
    assert {line['steps'] for line in found['lines']} == {2}
    left = len(result_files.read(place / 'out' / 'results')[0]) - len(found['lines'])
    printed = capsys.readouterr().out
    assert left >= 4 and f'{left} members in ' in printed
    assert 'have other settings and are left out' in printed
    again = evaluate.evaluate(config(place), place / 'out')
    assert told(again['lines']) == told(done['lines'])


@pytest.mark.slow
def test_controls_are_evaluated_with_the_models(place):
    """Controls without a model, and the untrained encoder through the same grid."""
    asked = config(place, controls=('words', 'untrained'), learning_rates=(3e-3,))
    found = evaluate.evaluate(asked, place / 'controls')
    told = {line['model']: line.get('control') for line in found['lines']}
    toy = str(place / 'toy')
    assert told == {
        toy: None,
        f'{toy}, untrained': 'untrained',
        f'{toy}, bag of embeddings': 'bag of embeddings',
        'TF-IDF': 'TF-IDF',
        'largest class': 'largest class',
    }
    fitted = [line for line in found['lines'] if line['model'] == 'TF-IDF']
    assert 'scikit-learn' in fitted[0]['versions'] and fitted[0]['chosen']['words']
    # TF-IDF contains the word that determines the class.
    values = {line['model']: line['test']['standard'] for line in found['lines']}
    assert values['TF-IDF']['accuracy'] > 0.9 > values['largest class']['accuracy']
    page = (place / 'controls' / 'evaluation.html').read_text()
    assert 'untrained' in page and str(place) not in page


@pytest.mark.parametrize('length', [16, 64])
def test_the_bag_of_embeddings_reads_as_much_as_the_model(length):
    """The word that tells the class is behind the first 16 tokens."""
    task = examined.labeled()
    for split in tasks.SPLITS:
        first = getattr(task, split).first
        first[:] = [f'{"the old " * 10}{text}' for text in first]
    made = examination(task, max_length=length, steps=1)
    ((config, _, _, said),) = examiner.measured_controls(made, (BAG,), made.config)
    assert config['max_length'] == length
    assert len(set(said)) == (1 if length == 16 else 2)


def test_a_dry_run_prints_the_plan_without_reading_weights(place, capsys, monkeypatch):
    """It writes nothing."""
    monkeypatch.setattr(saved, 'load_file', None)
    both = config(place, controls=('words', 'untrained'))
    assert evaluate.evaluate(both, place / 'dry', dry_run=True) is None
    printed = capsys.readouterr().out
    assert '8 members remain to be trained, 32 steps in total.' in printed
    assert re.search(r'controls +sea +0 +0 +\d+ ', printed)
    assert re.search(r'about [\d.e-]+ hours on this machine \(core:\d+\)', printed)
    assert not (place / 'dry').exists()


@pytest.mark.parametrize(
    'model, words',
    [
        ('none', 'none contains no config.json'),
        ('foreign', 'config.json is missing: use a folder'),
        ('toy', 'max_length=65, but .*toy reads at most 64'),
    ],
)
def test_models_that_cannot_be_examined_raise_before_training(place, model, words):
    (place / 'foreign').mkdir(exist_ok=True)
    path = f'hf:{place / model}' if model == 'foreign' else str(place / model)
    longer = FAST | dict(max_length=65 if model == 'toy' else 0)
    given = config(place, models=(str(place / 'toy'), path), finetuning=longer)
    for dry_run in (True, False):
        with pytest.raises((FileNotFoundError, ValueError), match=words):
            evaluate.evaluate(given, place / 'no-model', dry_run)
    assert not (place / 'no-model').exists()


def test_a_model_missing_on_the_hub_raises_before_training(place, monkeypatch):
    asked = []

    def refuse(name, **options):
        asked.append(options['allow_patterns'])
        kind = hub.errors.RepositoryNotFoundError
        raise kind.__new__(kind)

    monkeypatch.setattr(hub, 'snapshot_download', refuse)
    none = config(place, models=(str(place / 'toy'), 'hf:lab/misspelt'))
    for dry_run in (True, False):
        with pytest.raises(FileNotFoundError, match='hf:lab/misspelt does not exist'):
            evaluate.evaluate(none, place / 'no-model', dry_run)
    assert not (place / 'no-model').exists()
    # A dry run downloads no weights.
    assert ['*.safetensors' in patterns for patterns in asked] == [False, True]


def test_a_missing_package_raises_before_training(place, monkeypatch):
    monkeypatch.setitem(sys.modules, 'matplotlib', None)
    with pytest.raises(ImportError, match=r'page .* matplotlib: .*jepa-text\[viz\]'):
        evaluate.evaluate(config(place), place / 'no-page')
    assert not (place / 'no-page').exists()


def test_tasks_that_cannot_be_learned_raise_before_training(place):
    rows = [{'text': f'text {i}', 'label': 'same'} for i in range(40)]
    path = examined.jsonl(place / 'same.jsonl', rows)
    for labels, words in (
        ((), "training examples have the class 'same'"),
        (('same', 'b', 'same'), r"same: labels=\['same', 'b', 'same'\] must be unique"),
    ):
        bad = dict(name='labeled', path=path, labels=labels)
        both = [*config(place)['tasks'], bad]
        with pytest.raises(ValueError, match=words):
            evaluate.evaluate(config(place, tasks=both), place / 'same')
    assert not (place / 'same' / 'results').exists()


@pytest.mark.slow
def test_failed_members_are_reported_and_others_are_written(place, monkeypatch, capsys):
    both = [*config(place)['tasks'], config(place)['tasks'][0] | {'title': 'odd'}]
    given = config(place, tasks=both, learning_rates=(1e-3,))
    made, asked = examiner.examination_of, []

    def fails(model, task, settings):
        asked.append(task.name)
        if task.name == 'odd':
            raise ValueError('the disk went away')
        return made(model, task, settings)

    monkeypatch.setattr(examiner, 'examination_of', fails)
    with pytest.raises(RuntimeError, match='2 of 4 groups .* the disk went away'):
        evaluate.evaluate(given, place / 'fails')
    # It is read and told once, not for each seed.
    assert asked == ['sea', 'odd'] and capsys.readouterr().err.count('Traceback') == 1
    text = (place / 'fails' / 'evaluation.html').read_text()
    assert '2 groups of members failed' in text and 'the disk went away' in text
    assert 'Traceback' not in text and str(Path(__file__).parents[2]) not in text
    (record,) = json.loads((place / 'fails' / 'summary.json').read_text())
    assert record['task'] == 'sea'


def test_small_holds_for_one_model_too():
    get_config = config_file.shared('finetune').get_config
    assert get_config(task='b.conll', size='toy').finetuning.steps == 50
    assert 'finetuning' not in get_config(task='b.conll', size='paper')


def examination(task, **options):
    return finetune.Examination(examined.model(), task, settings.Finetuning(**options))


def test_truncated_texts_and_unseen_classes_warn():
    task = examined.labeled()
    test = dataclasses.replace(task.test, target=np.array(['sky', *task.test.target[1:]]))
    long = [f'{text} {"whale " * 40}' for text in task.train.first[:16]]
    train = dataclasses.replace(task.train, first=[*long, *task.train.first[16:]])
    task = dataclasses.replace(task, train=train, test=test)
    unseen = '1 of 32 test examples have a class or tag that is not in the .*: sky'
    with pytest.warns(UserWarning, match=unseen):
        made = examination(task, max_length=32)
    assert made.config['texts_cut'] == (16, 112)
    line = {**made.config, 'seed': 0, 'model': 'toy'}
    told = truncation.message('sea', 32, *made.cut)
    assert '16 of 112 texts are longer than the 32 tokens of a row' in told
    told = truncation.message('sea, toy', 32, *made.cut)
    assert summary.truncated([line, line, {**line, 'control': 'untrained'}]) == [told]


def test_tags_of_the_test_set_alone_warn():
    sides = (tasks.Examples([['a', 'b']] * 4, None, [['O', x]] * 4) for x in 'XY')
    task = tasks.Task('tagged', 'tags', 'token_accuracy', *sides)
    task = dataclasses.replace(task, validation=task.train)
    with pytest.warns(UserWarning, match='tagged: 4 of 8 test words have a .* set: Y'):
        finetune.kind_of(task, settings.Finetuning())


def test_metrics_that_a_task_lacks_raise_before_training():
    task = dataclasses.replace(examined.labeled(), metric='acc')
    with pytest.raises(ValueError, match="metric='acc'.*Available: accuracy, f1, mac"):
        examination(task)


@pytest.mark.parametrize('last, unanswerable', [([], True), ([(2, 'whale')], False)])
def test_no_answer_is_allowed_only_in_sets_that_have_such_questions(last, unanswerable):
    given = ['why'] * 4, ['a whale'] * 4, [[(2, 'whale')]] * 3 + [last]
    whole = tasks.Examples(*given)
    task = tasks.Task('asked', 'spans', 'f1', whole, whole, validation=whole)
    assert finetune.kind_of(task, settings.Finetuning()).unanswerable == unanswerable


def test_constant_answers_on_one_small_split_are_no_collapse(monkeypatch):
    task = examined.labeled()
    made = examination(task)
    said = {'validation': {'sea'}, 'test': {'sea', 'land'}}

    class Found:
        standard = paper = by_mode = per_instance = {}

    monkeypatch.setattr(made, 'measured', lambda split, _: (Found, [], said[split]))
    assert made._outcome({}, np.ones(2))[0]['status'] == 'done'
    said['test'] = {'sea'}
    assert made._outcome({}, np.ones(2))[0]['status'] == 'collapsed'
    # A small validation set may have examples of one class only.
    is_sea_N = task.validation.target == 'sea'
    seas = task.validation.take(np.flatnonzero(is_sea_N))
    made.task = dataclasses.replace(task, validation=seas)
    assert made._outcome({}, np.ones(2))[0]['status'] == 'collapsed'


@pytest.mark.slow
def test_a_saved_member_predicts_as_it_was_measured(place, capsys):
    given = dict(model=str(place / 'toy'), task=config(place)['tasks'][0])
    tuning = FAST | dict(steps=30, epochs=9, max_length=32)
    given |= dict(learning_rate=3e-3, finetuning=tuning)
    finetune_command.finetune(given, place / 'kept')
    said = capsys.readouterr().out
    reached = r'largest class [\d.]+, TF-IDF [\d.]+, bag of embeddings [\d.]+'
    assert re.search(rf'test +controls +accuracy: {reached}\n', said)
    model = load.load(place / 'kept')
    assert model.length == 32
    made = json.loads((place / 'kept' / 'model.json').read_text())['facts']['tuned']
    task = examiner.task_of(given['task'])
    answers = model.predict(task.test.first)
    assert all(sum(one['probabilities'].values()) == pytest.approx(1) for one in answers)
    with pytest.raises(ValueError, match='This model reads single texts'):
        model.predict(['the old whale'], ['the law'])
    accuracy = np.mean(np.array([one['label'] for one in answers]) == task.test.target)
    assert made['test']['standard']['accuracy'] == pytest.approx(accuracy)
    # It also encodes, and can be fine-tuned on another task.
    assert model.encode(['the old whale']).shape == (1, 64)
    with pytest.raises(FileExistsError, match='contains a fine-tuned model'):
        finetune_command.finetune(given, place / 'kept')
    with (place / 'kept' / 'model.safetensors').open('r+b') as file:
        file.seek(-1, os.SEEK_END)
        file.write(b'\x01')
    with pytest.raises(ValueError, match='is damaged or was edited'):
        load.load(place / 'kept')


def test_predict_needs_a_fine_tuned_model():
    with pytest.raises(ValueError, match='was not fine-tuned, or has a head'):
        examined.model().predict(['the whale'])


@pytest.mark.long
def test_jobs_give_equal_results_and_a_killed_driver_is_replaced(place, done):
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from jepa_text.evaluation import evaluate
evaluate.evaluate({config(place, engine=dict(jobs=2))!r}, {str(place / 'jobs')!r})
"""
    lines = place / 'jobs' / 'results'
    with children.started('-c', program):
        children.until(lambda: any(lines.glob('*.json')), 200)
    children.run('-c', program)
    members, damaged = result_files.read(lines)
    assert told(members) == told(done['lines'])
    assert not damaged


@pytest.mark.slow
def test_groups_that_fail_in_other_processes_are_reported(place, done, monkeypatch):
    """One raises, the other of its process has no results, and the process of two is
    killed, which has written one of them."""

    @contextlib.contextmanager
    def opened(options, folder):
        folder.mkdir()

        def run(tasks):
            raising, killed = tasks
            (group,) = map(grouping.group_of, raising.arguments[-1][:1])
            (folder / 'results').mkdir()
            for path in (place / 'out' / 'results').glob('*.lr0.001.seed1.*'):
                shutil.copy(path, folder / 'results')
            return {
                raising.name: engine.Outcome({group.item: 'OSError: the disk went away'}),
                killed.name: engine.Outcome(error=RuntimeError('SIGKILL')),
            }

        yield run

    monkeypatch.setattr(engine, 'opened', opened)
    given = config(place, engine=dict(jobs=2))
    with pytest.raises(RuntimeError, match='3 of 4 groups .* OSError: the disk went'):
        evaluate.evaluate(given, place / 'fails-apart')
    text = (place / 'fails-apart' / 'evaluation.html').read_text()
    assert 'SIGKILL' in text


def test_other_processes_train_the_groups_of_their_driver(place, monkeypatch):
    """Also if they see other devices. A group without results has failed; further seeds
    of rates that were not chosen are no groups."""
    trained = []

    @contextlib.contextmanager
    def opened(options, folder):
        folder.mkdir()

        def run(tasks):
            monkeypatch.undo()  # a process without a GPU
            monkeypatch.setattr(evaluate, '_examined', lambda *x: trained.extend(x[3]))
            outcomes = [engine._called(one.function, one.arguments) for one in tasks]
            return {x.name: engine.Outcome(y or {}) for x, y in zip(tasks, outcomes)}

        yield run

    monkeypatch.setattr(engine, 'opened', opened)
    seen = mock.Mock(default_backend=lambda: 'gpu', device_count=lambda: 1)
    monkeypatch.setattr(grouping, 'jax', seen)
    given = config(place, seeds=3, search_seeds=2, engine=dict(jobs=2))
    with pytest.raises(RuntimeError, match='2 of 2 groups .* not all of its results'):
        evaluate.evaluate(given, place / 'elsewhere')
    assert [[*one.members] for one in trained] == [
        [(1e-3, 0), (1e-3, 1)],
        [(3e-3, 0), (3e-3, 1)],
    ]
    # Nor are other examples trained under the name of those of the driver.
    section = schema.as_dict(schema.read(settings.Config, given))
    group = dataclasses.asdict(trained[0]) | {'common': 'of other examples'}
    stamps = {str(place / 'toy'): 'weights'}
    with pytest.raises(ValueError, match='sea: the examples or the version .* not those'):
        evaluate.examine(section, str(place / 'elsewhere'), stamps, [group])


@pytest.mark.slow
def test_a_model_at_an_address_is_examined_as_a_local_one(place, done, memory):
    memory.put(str(place / 'toy'), '/shelf/toy', recursive=True)
    given = config(place, models=('memory://shelf/toy',))
    items = [
        {(line['item'], line['learning_rate'], line['seed']) for line in lines}
        for lines in (evaluate.evaluate(given, place / 'away')['lines'], done['lines'])
    ]
    assert items[0] == items[1] and len(items[0]) == 4
    tuned = dict(model='memory://shelf/toy', task=given['tasks'][0], finetuning=FAST)
    finetune_command.finetune(tuned, str(place / 'tuned'))
    assert load.load(str(place / 'tuned')).predict(['the old whale'])
