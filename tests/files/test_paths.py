"""Invalid paths are rejected by every function that takes one, and create nothing."""

import sys
from pathlib import Path

import fsspec  # noqa: F401 (its registry)
import pytest
import tiny
from numpy.testing import assert_allclose

from jepa_text import commands, main
from jepa_text.analysis import analyze
from jepa_text.data import pipeline, prepare, tokenizers
from jepa_text.data.sets import tables
from jepa_text.data.sources import text, tfds
from jepa_text.evaluation import evaluate, finetune_command
from jepa_text.files import addresses, paths
from jepa_text.hf import files, named_tokenizer
from jepa_text.planning import benchmark, plan
from jepa_text.pretrained import export, export_command, load
from jepa_text.running import checkpoint, compilation, workdir
from jepa_text.settings import config_file
from jepa_text.training import begin, init_from, tokenizer
from jepa_text.training import config as settings
from jepa_text.training import prepare as preparing

AWAY = ('gs://bucket/x', 'hf://datasets/x', 'file:///x', Path('gs://b/x'))
BUNDLED = dict(name='bundled')
SECTION = dict(source=BUNDLED, tokenizer='bundled', row_length=64)


def quickstart(**changes):
    config = settings.plain(config_file.shared('toy').get_config('mlm'))
    return {**config, **changes}


def data(folder):
    return dict(folder=str(folder), row_length=64, batch_size=16, repeat=True)


def analysis(**changes):
    return config_file.shared('analyze').get_config().to_dict() | changes


def exam(**changes):
    return dict(models=['run'], tasks=[BUNDLED]) | changes


def prepared(folder='rows', **changes):
    preparing.run({'prepare': SECTION | changes}, folder)


# Functions that take local paths only.
ENTRANCES = {
    'analyze, workdir': lambda p: analyze.analyze(analysis(models=['run']), p),
    'evaluate, workdir': lambda p: evaluate.evaluate(exam(), p),
    'benchmark, workdir': lambda p: benchmark.benchmark(
        config_file.shared('benchmark').get_config(), p
    ),
    'cache': lambda p: compilation.private_folder(p, 'cache'),
    'prepare, function': lambda p: prepare.prepare(
        BUNDLED, tokenizers.load(tokenizers.BUNDLED), p, row_length=64
    ),
    'tasks': tables.splits,
    'tasks, file': tables.read,
    'tfds': lambda p: tfds.make('train', p),
    'workdir': lambda p: workdir.open_workdir(p, {}).__enter__(),
}


# Functions that also take addresses.
DOORS = {
    'text': lambda p: text.make('train', p),
    'prepare, tokenizer': lambda p: prepared(tokenizer=str(p)),
    'prepare, workdir': prepared,
    'train, workdir': lambda p: tiny.train(quickstart(data=data('rows')), p),
    'train, data.folder': lambda p: tiny.train(quickstart(data=data(p)), 'run'),
    'plan, data.folder': lambda p: plan.plan(quickstart(data=data(p))),
    'rows': lambda p: pipeline.Rows(p, 'train'),
    'export, to': lambda p: export_command.run({'to': p}, 'run'),
    'export, workdir': lambda p: export_command.run({'to': 'out'}, p),
    'analyze, models': lambda p: analyze.analyze(analysis(models=[str(p)]), 'x'),
    'evaluate, models': lambda p: evaluate.evaluate(exam(models=[str(p)]), 'x'),
    'finetune, workdir': lambda p: finetune_command.finetune(
        dict(model='run', task=BUNDLED), p
    ),
    'tokenizer, workdir': lambda p: tokenizer.run(dict(source=BUNDLED), p),
    'tokenizer': tokenizers.load,
    'load': load.load,
    'checkpoints': checkpoint.Checkpointer,
    'init_from': lambda p: init_from.parse(dict(path=str(p))),
    'hf': files.folder_of,
}


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """The current folder, which is empty, where gcsfs is not installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, 'gcsfs', None)
    monkeypatch.delitem(sys.modules['fsspec.registry']._registry, 'gs', raising=False)
    return tmp_path


@pytest.mark.parametrize('door', DOORS)
def test_an_address_never_becomes_a_local_folder(door, empty):
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'jepa-text\[gs\]'"):
        DOORS[door]('gs://bucket/x')
    for path in (Path('gs://b/x'), 'gs:b/x', 'gopher://b/x'):
        with pytest.raises(
            ValueError, match='is not a valid address|unsupported protocol'
        ):
            DOORS[door](path)
    assert not list(empty.iterdir())


@pytest.mark.parametrize('entrance', ENTRANCES)
def test_addresses_are_rejected_wherever_a_local_path_is_required(entrance, empty):
    for path in AWAY:
        with pytest.raises(ValueError, match='is an address'):
            ENTRANCES[entrance](path)
        assert not list(empty.iterdir()), f'{path} left something behind'


@pytest.mark.parametrize('command', commands.COMMANDS)
def test_the_command_line_rejects_invalid_workdirs_before_running(command, empty, capsys):
    config = f'--config={Path(config_file.folder(), "quickstart.py")}'
    given = '--to=out' if command == 'export' else config
    for place, message in (
        ('https://host/run', 'is an address'),
        ('hf://NAME', 'is an address'),
        ('gs://bucket/run', "pip install 'jepa-text[gs]'"),
    ):
        words = ['jepa-text', command, given, f'--workdir={place}']
        assert main.main(words) == 2
        assert message in capsys.readouterr().err
    assert not list(empty.iterdir())


def test_a_config_file_at_an_address_is_rejected(capsys):
    words = ['jepa-text', 'train', '--config=gs://b/toy.py', '--workdir=x']
    assert main.main(words) == 2
    assert "'gs://b/toy.py' is an address" in capsys.readouterr().err


def test_model_names_are_accepted_for_reading_only():
    for name in ('hf:org/name', 'hf:/a/folder', 'hf:../folder'):
        addresses.location('init_from.path', name, model=True)
        with pytest.raises(ValueError, match='is an address'):
            paths.local('--workdir', name)
    for name in ('hf://x', 'hf:hf:x', 'hf:'):
        with pytest.raises(ValueError, match='init_from.path'):
            addresses.location('init_from.path', name, model=True)


def test_valid_paths_are_accepted():
    for path in ('runs/a', '/a:b/c', './gs:/x', 'C:/x', 'a:b', Path('x/hf:y')):
        assert paths.local('x', path) == str(path)


@pytest.mark.slow
def test_the_home_folder_is_known_everywhere(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    assert paths.local('x', '~/runs') == f'{tmp_path}/runs'
    assert addresses.location('x', 'hf:~/a', model=True) == f'hf:{tmp_path}/a'
    model = load.load('small')
    model.save('~/saved')
    export.write(model, '~/exported')
    for name in ('~/saved', 'hf:~/exported'):
        again = load.load(name)
        assert_allclose(again.encode(['sea']), model.encode(['sea']), atol=1e-5)
    assert main.main(['jepa-text', 'init', 'toy', str(tmp_path / 'my.py')]) == 0
    assert config_file.read('~/my.py')['steps'] == config_file.read('toy')['steps']
    assert named_tokenizer.exists('~/exported/tokenizer.json')
    (tmp_path / 'a.txt').write_text('a whale\n' * 99)
    source = dict(name='text', path=str(tmp_path / 'a.txt'))
    preparing.make(SECTION | dict(source=source, splits=('train',)), '~/rows')
    assert (tmp_path / 'rows' / preparing.REPORT).is_file()
    config = dict(data=dict(folder='~/run/rows'), prepare=SECTION)
    with pytest.raises(ValueError, match='is in the workdir'):
        begin._check_before_rows(config, tmp_path / 'run')


@pytest.mark.parametrize('path', ['', None, 3, ['a']])
def test_invalid_paths_are_rejected(path):
    with pytest.raises(ValueError, match='data.folder'):
        paths.local('data.folder', path)


def test_an_empty_path_is_not_the_current_folder(empty):
    Path('notes.txt').write_text('a private note')
    for call in (
        lambda: prepared(source=dict(name='text', path='')),
        lambda: tiny.train(quickstart(data=data('')), 'run'),
        lambda: pipeline.Rows('', 'train'),
    ):
        with pytest.raises(ValueError, match="''"):
            call()
    assert [path.name for path in empty.iterdir()] == ['notes.txt']
