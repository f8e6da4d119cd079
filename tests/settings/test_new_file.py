"""`jepa-text init` writes the shipped configs as files to edit, which train."""

import random
import re

import draws
import pytest
import tiny

from jepa_text import commands, main
from jepa_text.parallel import exits
from jepa_text.pretrained import load
from jepa_text.settings import config_file, display, schema

PRESETS = [*display.OTHERS, *config_file.shared('toy').PRESETS]
SIZES = [f'{name},{size}' for name in ('mlm', 'hybrid') for size in ('35m', '210m', '1b')]


def init(path, preset):
    """Writes a file and returns (command, config) as the command line reads them."""
    assert main.main(['jepa-text', 'init', str(path), f'--preset={preset}']) == 0
    command, *_ = display.preset_of(preset)
    return command, config_file.read(str(path))


@pytest.mark.parametrize('preset', PRESETS + SIZES)
def test_a_new_file_equals_the_shipped_config(preset, tmp_path):
    command, config = init(tmp_path / 'my.py', preset)
    root = commands.root_of(command, config)
    _, file, argument = display.preset_of(preset)
    shipped = config_file.shared(file).get_config(*filter(None, [argument]))
    shipped = schema.plain(shipped)
    assert schema.resolved(root, config) == schema.resolved(root, shipped)


def test_commented_out_defaults_can_be_enabled(tmp_path):
    """Every commented-out line is valid code that sets the default."""
    path = tmp_path / 'my.py'
    _, before = init(path, 'clm_mlm')
    text = path.read_text()
    lines = re.findall(r'^    # (config\.\S+ = .*?)  # ', text, re.M)
    assert len(lines) > 25
    path.write_text(re.sub(r'^    # (config\.)', r'    \1', text, flags=re.M))
    root = commands.root_of('train', before)
    config = config_file.read(str(path))
    assert schema.resolved(root, config) == schema.resolved(root, before)


def test_errors_of_init_are_explained(tmp_path, capsys):
    path = tmp_path / 'my.py'
    path.write_text('mine')
    for words, message in (
        ([str(path)], 'File exists'),
        ([str(tmp_path / 'none' / 'my.py')], 'No such file or directory'),
        ([str(tmp_path / 'my.txt')], 'must end in .py, as in my.py'),
        ([str(tmp_path / 'b.py'), '--preset=clm_mml'], "Did you mean 'clm_mlm'"),
        ([str(tmp_path / 'b.py'), '--preset=mlm,2b'], "'2b' is not one of 35m, 210m"),
        ([str(tmp_path / 'b.py'), '--preset=study,1b'], 'study has no sizes'),
        ([str(tmp_path / 'b.py'), '--size=1b'], 'only flag of init is --preset=clm_mlm'),
        ([str(tmp_path / 'b.py'), '--preset', 'mlm,2b'], "'2b' is not one of 35m"),
        ([], 'takes one file to write'),
    ):
        assert main.main(['jepa-text', 'init', *words]) == exits.USAGE
        assert message in capsys.readouterr().err
    assert path.read_text() == 'mine'
    assert [p.name for p in tmp_path.iterdir()] == ['my.py']


def toy(config, folder):
    """Returns the config reduced to four steps, small rows and a small model."""
    small = [
        ('steps', '4'),
        ('data', f'{{"folder": {tiny.rows(folder)!r}, "row_length": {tiny.LENGTH}}}'),
        ('data', '{"batch_size": 4}'),
        ('evaluate.every', '0'),
        ('model.dtype', 'float32'),
    ]
    if 'name' in config['model']:
        model = "{'name': 'transformer', 'preset': 'tiny', 'depth': 3, 'scan': False}"
        small.append(('model', model))
        config = config | {'model': {}}
    steps = [key for key in ('warmup', 'decay') if config['schedule'].get(key, 0) >= 1]
    small += [(f'schedule.{key}', '0') for key in steps]
    return config_file.with_settings(commands.root_of('train', config), config, small)


TRAINED = (*config_file.shared('toy').PRESETS, 'mlm,210m', 'hybrid,35m')


@pytest.mark.slow
def test_each_trains(folder, tmp_path):
    for preset in random.Random(draws.seed()).sample(TRAINED, 2):
        print(preset)
        _, config = init(tmp_path / f'{preset}.py', preset)
        state = tiny.train(toy(config, folder), tmp_path / preset)
        assert (int(state.step), int(state.skipped)) == (4, 0)


@pytest.mark.slow
def test_adapting_trains(folder, tmp_path, capsys):
    _, first = init(tmp_path / 'first.py', 'mlm')
    tiny.train(toy(first, folder), tmp_path / 'first')
    _, config = init(tmp_path / 'my.py', 'adapt')
    config = toy(config, folder)
    config['init_from'] = {'path': str(tmp_path / 'first')}
    config['prepare']['tokenizer'] = 'bundled'
    assert int(tiny.train(config, tmp_path / 'run').step) == 4
    assert load.load(tmp_path / 'run').network is not None
    # Values of init_from are shown with that origin.
    words = [f'--config={tmp_path / "my.py"}', '--print-config', '--workdir=x']
    words += [f'--config.init_from.path={tmp_path / "first"}']
    assert main.main(['jepa-text', 'train', *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("  model.preset = 'tiny'")]
    assert line.endswith(' init_from')


@pytest.mark.parametrize(
    ('name', 'argument', 'words'),
    [
        ('small_gpu', 'mlm,h100', "'h100' is not one of t4, l4"),
        ('benchmark', 'speed', 'objectives'),
        ('benchmark', 'batch,16,many', "'batch,16,many'.*batch,16,32"),
        ('finetune', 'model=a,b,task=bundled', 'one model and one task'),
        ('finetune', 'task=a.jsonl,b.jsonl', 'one model and one task'),
        ('cpt', 'hf:x,2k,mlm,toy,toy', 'must be a model, steps, an objective and `toy`'),
    ],
)
def test_an_invalid_argument_is_named(name, argument, words):
    with pytest.raises(ValueError, match=words):
        config_file.shared(name).get_config(argument)
