"""Invalid configs are reported in one line that names the fault, with exit code 2."""

import json
import re
import types
from pathlib import Path

import children
import config_faults
import draws
import jax.numpy as jnp
import pytest
import tiny

from jepa_text import main
from jepa_text.parallel import exits
from jepa_text.running import metrics, restore
from jepa_text.training import own_loop, train

ROOT = Path(__file__).parents[2]
MLM = tiny.phases('mlm')
PREPARE = dict(tokenizer='bundled', row_length=32, source=dict(name='bundled'))


@pytest.mark.parametrize(
    'count, seed', draws.in_stages((25, 0), (300, draws.seed()), fast=1)
)
def test_random_faults_are_rejected_by_name(folder, count, seed):
    found = config_faults.trials(count, seed, folder)
    assert len(found.pop('refused')) > len(found.pop('built')) > 0
    assert not found


def changed(folder, **changes):
    config = config_faults.lists(tiny.config(folder, phases=MLM))
    for key, value in changes.items():
        section, _, name = key.rpartition('__')
        (config[section] if section else config)[name] = value
    return config


def objective(**section):
    return dict(phases=[dict(objective=section)])


def later(**phase):
    """Changes of the second of two phases."""
    return dict(phases=[MLM[0] | dict(steps=2), MLM[0] | phase])


HALF = "dtype='float16'.*Available: bfloat16, float32"
WSD = dict(name='wsd', peak=1.0, warmup_steps=1, decay_steps=1)
WHOLE = dict(data=-1, fsdp=1, tensor=1)
# (changes of a valid config, what the message must say).
FAULTS = {
    # Found beside rows that are there.
    'rows': (
        (dict(evaluate__rate=1e-4), 'evaluate.rate: mlm: rate=0.0001 masks less than'),
        (dict(data__row_length=64), 'have 32 tokens'),
    ),
    # Before rows are prepared, which may take hours.
    'unprepared': (
        (dict(data__row_length=64), 'row_length=64, but prepare.row_length=32: rows of'),
    ),
    'run': (
        (dict(data__batch_size=6, mesh=WHOLE), 'batch_size=6 is not a multiple of 4'),
        (dict(steps=10**10), 'steps=10000000000 must be an integer at least 0 and'),
        (dict(seed=-1), 'seed=-1'),
        (dict(accumulate=0), 'accumulate=0 must be an integer at least 1'),
        (dict(log_every_steps=1.5), 'log_every_steps=1.5'),
        (dict(stop_after_skips=0), 'stop_after_skips=0'),
        (dict(name=object), 'The config contains a value that JSON does not support'),
        (dict(mesh='all'), "mesh='all' must be a section"),
        (
            dict(watchdog=dict(pause_seconds=-1)),
            'watchdog.pause_seconds=-1 must be a num',
        ),
        (dict(checkpoint__keep=0), 'checkpoint.keep=0 must be an integer at least'),
        (dict(evaluate__max_rows=0), 'evaluate.max_rows=0'),
        (dict(data=[]), r'data=\[\] must be a section'),
        (dict(mesh=WHOLE | dict(data=3)), '4 available devices'),
        (dict(tokens=5), 'exactly one of steps and tokens'),
    ),
    'model': (
        (dict(model={}), 'The config has no model'),
        (dict(phases=None), 'phases=None must be'),
        (dict(model__rope_theta=0), 'rope_theta=0 must be a number above 0'),
        (dict(model__rope_theta=[1e4, 0.0]), 'rope_theta=0.0 must be a number above 0'),
        (dict(model__window=-1), 'window=-1 must be an integer at least 0'),
        (dict(model__depth=0), 'model: depth=0'),
        (dict(model__depth=10**9), 'model: depth=1000000000'),
        *(
            (dict(model=dict(name=name, preset='tiny', dtype='float16')), HALF)
            for name in ('transformer', 'bert', 'modernbert')
        ),
    ),
    'phases': (
        (dict(phases=(1,)), r'phases\[0\]=1 must be a section, as dict.objective'),
        (later(steps=1.5), 'steps=1.5'),
        (later(fraction=2), r'phases\[1\].fraction=2 must be .* and at most 1'),
        (dict(steps=1, phases=[MLM[0] | dict(fraction=0.5)] * 2), 'at least one step'),
        (later(steps=2, fraction=0.5), 'give one of them'),
    ),
    'objective': (
        (objective(name='mlm', rate=None), 'rate=None must be a finite'),
        (objective(name='mlm', rate=1e-4), 'rate=0.0001 masks less than one'),
        (objective(name='mlm', tied='no'), "tied='no' must be True or False"),
        (objective(name='hybrid', latent=dict(top=0)), 'latent: top=0'),
        (objective(name='ijepa', masks=100), 'ijepa: masks=100'),
    ),
    'schedule': (
        (dict(schedule=WSD | dict(peak=float('inf'))), 'peak=inf must be a finite'),
        (
            dict(schedule=WSD | dict(decay_steps=float('inf'))),
            'steps=inf must be an integer',
        ),
        (dict(schedule=WSD | dict(peak=-1.0)), "'wsd': peak=-1.0"),
        (dict(schedule=WSD | dict(warmup_steps=-5)), 'warmup_steps=-5'),
        (
            dict(schedule=dict(name='warmup_cosine', peak=1.0, warmup_steps=24)),
            r'warmup \(24\) takes all 24',
        ),
    ),
    'optimizer': (
        (dict(optimizer=dict(name='adamw', b1=2.0)), 'b1=2.0'),
        (dict(optimizer=dict(name='adamw', momentum_dtype='float16')), HALF),
        (dict(optimizer=dict(name='muon', momentum=1.0)), 'momentum=1.0'),
        (dict(optimizer=dict(name='adamw', weight_decay=-0.1)), 'weight_decay=-0.1'),
        (
            dict(optimizer=dict(name='adamw', decay_paths='(')),
            'not a valid regular expression',
        ),
        (
            dict(optimizer=dict(name='adamw', lr_multipliers=(('(', 0.0),))),
            'not a valid regular expression',
        ),
    ),
}


@pytest.mark.parametrize(
    'kind, changes, words', [(kind, *case) for kind in FAULTS for case in FAULTS[kind]]
)
def test_faults_are_reported_before_anything_is_written(
    kind, changes, words, folder, tmp_path
):
    """Rows neither, if they are not there."""
    config = changed(folder, **changes)
    if kind != 'rows' and config['data']:
        config['prepare'], config['data']['folder'] = PREPARE, str(tmp_path / 'rows')
    with pytest.raises(exits.ConfigError, match=words):
        tiny.train(config, tmp_path / 'run')
    with pytest.raises(ValueError, match=words):
        own_loop.steps(config)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    'rows, access, words',
    [
        ('run/rows', True, 'in the workdir'),
        ('rows', True, 'not the workdir of one'),
        ('rows', False, 'run cannot be written to'),
    ],
)
def test_an_unusable_workdir_is_reported_before_rows_are_prepared(
    rows, access, words, folder, tmp_path, monkeypatch
):
    monkeypatch.setattr('os.access', lambda *_: access)
    config = changed(folder, prepare=PREPARE)
    config['data']['folder'] = str(tmp_path / rows)
    (tmp_path / 'run').mkdir()
    (tmp_path / 'run' / 'thesis.tex').touch()
    with pytest.raises(exits.ConfigError, match=words):
        tiny.train(config, tmp_path / 'run')
    assert {p.name for p in tmp_path.rglob('*')} == {'run', 'thesis.tex'}


@pytest.mark.slow
def test_the_config_of_a_workdir_is_checked_on_resume(folder, tmp_path):
    config = changed(folder, steps=2, evaluate__every_steps=0)
    tiny.train(config, tmp_path)
    saved = json.loads((tmp_path / 'config.json').read_text())
    # As a config that was written before these keys existed.
    for name in ('clip_norm', 'log_every_steps'):
        del saved[name]
    del saved['data']['repeat']
    (tmp_path / 'config.json').write_text(json.dumps(saved))
    assert int(tiny.train(config, tmp_path).step) == 2
    (tmp_path / 'config.json').write_text(json.dumps(saved | {'clip_nrom': 1.0}))
    with pytest.raises(exits.ConfigError, match="config.json.*'clip_nrom'.*'clip_norm'"):
        tiny.train(config, tmp_path)


FILES = {
    'syntax': ('def get_config():\n    return (\n', 'line 2: .* never closed'),
    'nothing': ('def get_config():\n    pass\n', 'must return a ConfigDict, not None'),
    'number': ('def get_config():\n    return 3\n', 'must return a ConfigDict, not 3'),
    'import': ('import nothing_here\n', "line 1: ModuleNotFoundError: .*'nothing_here'"),
    'name': ('def get_config():\n    return x\n', "line 2: NameError: name 'x'"),
    'key': ('def get_config():\n    return {}[1]\n', 'line 2: KeyError: 1'),
    'no_function': ('config = 3\n', 'does not define a function get_config'),
    'argument': ('def get_config(size):\n    pass\n', "mine.py requires 'size'"),
}


@pytest.mark.parametrize('name', FILES)
def test_the_failing_line_of_a_config_file_is_reported(name, tmp_path, capsys):
    text, words = FILES[name]
    path = tmp_path / 'mine.py'
    path.write_text(text)
    flags = [f'--config={path}', f'--workdir={tmp_path}/x']
    for more in [[], ['--config.steps=3']]:
        assert main.main(['jepa-text', 'train', *flags, *more]) == exits.USAGE
        message = capsys.readouterr().err.strip().splitlines()[-1]
        assert re.search(words, message), message
    assert not (tmp_path / 'x').exists()


@pytest.mark.slow
def test_an_unavailable_platform_is_named(monkeypatch):
    words = (f'--config={ROOT / "configs" / "toy.py"}', '--workdir=nowhere')
    words, env = ('-m', 'jepa_text.main', 'train', *words), {'JAX_PLATFORMS': 'cuda'}
    done = children.run(*words, env=env, code=exits.USAGE)
    assert "JAX_PLATFORMS='cuda', but jax finds no such device" in done.stderr
    assert 'Traceback' not in done.stderr


def test_the_exit_code_of_skipped_steps():
    def ended(in_row, value):
        return types.SimpleNamespace(
            step=4,
            skipped_in_row=in_row,
            params={'a': jnp.ones(2), 'b': jnp.array(value)},
        )

    assert not train._problem(ended(0, 1.0))
    assert exits.code_of(exits.Diverged('nan')) == exits.USAGE
    assert exits.code_of(FloatingPointError('nan')) == exits.FAILED
    for state in (ended(3, 1.0), ended(0, jnp.nan), ended(0, [1.0, -jnp.inf])):
        assert 'not finite' in train._problem(state)


@pytest.mark.slow
def test_a_run_whose_last_loss_is_not_finite_does_not_end_well(folder, tmp_path):
    """Steps are skipped, fewer in a row than would stop the run, except at the end."""
    config = changed(folder, steps=4, stop_after_skips=100)
    config |= dict(schedule=dict(name='constant', value=1e38), log_every_steps=1)
    config['evaluate']['every_steps'] = config['telemetry']['every_steps'] = 0
    for _ in range(2):
        with pytest.raises(exits.Diverged, match='the run ended, but the .* not finite'):
            tiny.train(config, tmp_path / 'run')
        assert metrics.read(tmp_path / 'run')[-1]['step'] == 4
    config['checkpoint'] = dict(every_steps=0)
    with pytest.raises(exits.Diverged, match='The state is saved'):
        tiny.train(config, tmp_path / 'unsaved')
    assert restore.steps(tmp_path / 'unsaved' / 'checkpoints') == [4]
