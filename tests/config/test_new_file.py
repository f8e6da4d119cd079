"""`jepa-text init` writes what is shipped: the same config, to be edited; it trains."""

import random
import re
import shutil
import subprocess
import sys

import draws
import pytest
import tiny

from jepa_text import commands, load, main
from jepa_text.config import config_file, display, new_file, overrides, schema
from jepa_text.parallel import exits

PRESETS = [*new_file.OTHERS, *config_file.shared('toy').PRESETS]
SIZES = [f'{name},{size}' for name in ('mlm', 'hybrid') for size in ('35m', '210m', '1b')]


def init(path, preset):
    """(command, config) of a file that is written, as the command line reads it."""
    assert main.main(['jepa-text', 'init', str(path), f'--preset={preset}']) == 0
    command, _ = new_file.text(preset, str(path), lambda name: commands.root(name, {}))
    return command, config_file.read([f'--config={path}'])


@pytest.mark.parametrize('preset', PRESETS + SIZES)
def test_the_file_that_is_written_is_what_is_shipped(preset, tmp_path):
    command, config = init(tmp_path / 'my.py', preset)
    root = commands.root(command, config)
    _, file, argument = new_file._chosen(preset)
    shipped = config_file.shared(file).get_config(*filter(None, [argument]))
    shipped = schema.plain(shipped)
    assert schema.resolved(root, config) == schema.resolved(root, shipped)


def test_what_is_by_default_can_be_set_where_it_stands(tmp_path):
    """Every line behind # is one of the program, when it is no more."""
    path = tmp_path / 'my.py'
    _, before = init(path, 'clm_mlm')
    text = path.read_text()
    lines = re.findall(r'^    # (config\.\S+ = .*?)  # ', text, re.M)
    assert len(lines) > 25
    path.write_text(re.sub(r'^    # (config\.)', r'    \1', text, flags=re.M))
    root = commands.root('train', before)
    config = config_file.read([f'--config={path}'])
    assert schema.resolved(root, config) == schema.resolved(root, before)


def test_what_cannot_be_written_is_said(tmp_path, capsys):
    path = tmp_path / 'my.py'
    path.write_text('mine')
    for words, said in (
        ([str(path)], 'is there already, and stays as it is'),
        ([str(tmp_path / 'none' / 'my.py')], 'does not exist: mkdir -p'),
        ([str(tmp_path / 'my.txt')], 'give it a name as my.py'),
        ([str(tmp_path / 'b.py'), '--preset=clm_mml'], "Did you mean 'clm_mlm'"),
        ([str(tmp_path / 'b.py'), '--preset=mlm,2b'], "no size '2b', but toy, 35m"),
        ([str(tmp_path / 'b.py'), '--preset=study,1b'], 'but none of study'),
        ([str(tmp_path / 'b.py'), '--size=1b'], "'--size=1b' is no flag of init"),
        ([], 'takes the one file to write'),
    ):
        assert main.main(['jepa-text', 'init', *words]) == exits.USAGE
        assert said in capsys.readouterr().err
    assert path.read_text() == 'mine'
    assert [p.name for p in tmp_path.iterdir()] == ['my.py']


def toy(config, folder):
    """The config, of four steps, on rows and a model that are there in seconds."""
    small = [
        ('steps', '4'),
        ('data', f'{{"folder": {tiny.rows(folder)!r}, "row_length": {tiny.LENGTH}}}'),
        ('data', '{"batch_size": 4}'),
        ('evaluate.every', '0'),
        ('model.dtype', 'float32'),
        ('compilation_cache', ''),
    ]
    if 'name' in config['model']:
        model = "{'name': 'transformer', 'preset': 'tiny', 'depth': 3, 'scan': False}"
        small.append(('model', model))
        config = config | {'model': {}}
    steps = [key for key in ('warmup', 'decay') if config['schedule'].get(key, 0) >= 1]
    small += [(f'schedule.{key}', '0') for key in steps]
    return overrides.apply(commands.root('train', config), config, small)


TRAINED = ('toy', 'mlm', 'clm_mlm', 'hybrid', 'mlm,210m', 'hybrid,35m', 'sentence')


@pytest.mark.slow
def test_each_trains(tmp_path, tmp_path_factory):
    for preset in random.Random(draws.seed()).sample(TRAINED, 3):
        _, config = init(tmp_path / f'{preset}.py', preset)
        config = toy(config, tmp_path_factory.getbasetemp())
        assert int(tiny.train(config, tmp_path / preset).step) == 4, preset


@pytest.mark.slow
def test_adapting_trains(tmp_path, tmp_path_factory, capsys):
    folder = tmp_path_factory.getbasetemp()
    _, first = init(tmp_path / 'first.py', 'mlm')
    tiny.train(toy(first, folder), tmp_path / 'first')
    _, config = init(tmp_path / 'my.py', 'adapt')
    config = toy(config, folder)
    config['init_from'] = {'path': str(tmp_path / 'first')}
    config['prepare']['tokenizer'] = 'bundled'
    assert int(tiny.train(config, tmp_path / 'run').step) == 4
    assert load.load(tmp_path / 'run').network is not None
    # What the start decides is shown as such.
    words = [f'--config={tmp_path / "my.py"}', '--print-config', '--workdir=x']
    words += [f'--config.init_from.path={tmp_path / "first"}']
    assert main.main(['jepa-text', 'train', *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("  model.preset = 'tiny'")]
    assert line.endswith(f' {display.INIT_FROM}')


def test_an_installed_package_has_the_files_inside(tmp_path):
    """As a wheel lays them: jepa_text/configs, and no clone."""
    shutil.copytree(
        config_file.PACKAGE,
        tmp_path / 'jepa_text',
        ignore=shutil.ignore_patterns('__pycache__'),
    )
    shutil.copytree(config_file.folder(), tmp_path / 'jepa_text' / 'configs')
    code = (
        'from jepa_text.config import config_file as f; '
        "print(f.folder(), f.shared('toy').get_config('mlm').name)"
    )
    done = subprocess.run(
        [sys.executable, '-c', code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.split() == [f'{tmp_path}/jepa_text/configs', 'mlm'], done.stderr
