"""Invalid configs are reported in one line that names the fault, with exit code 2."""

import json
import re
import subprocess
import sys
import types
from pathlib import Path

import config_faults
import draws
import jax.numpy as jnp
import pytest
import test_configs
import tiny

from jepa_text import main
from jepa_text.parallel import exits
from jepa_text.running import metrics
from jepa_text.study import study
from jepa_text.training import config as settings
from jepa_text.training import train

ROOT = Path(__file__).parents[2]
MLM = (dict(objective=dict(name='mlm')),)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp('rows')
    tiny.rows(path)
    return path


def broken(found):
    return {
        message: faults[:3] for message, faults in found.items() if message not in SAID
    }


SAID = ('built', 'refused')


def test_random_faults_are_rejected_by_name(folder):
    found = config_faults.trials(25, 0, folder)
    assert not broken(found)
    assert len(found['refused']) > len(found['built']) > 0


@pytest.mark.slow
def test_many_random_faults_are_rejected_by_name(folder):
    assert not broken(config_faults.trials(300, draws.seed(), folder))


def test_every_missing_required_key_is_named(folder):
    config = tiny.config(folder)
    settings.plain(config)
    for key in ('phases', 'model', 'data.row_length'):
        section, _, name = key.rpartition('.')
        left = config_faults.lists(config)
        del (left[section] if section else left)[name]
        with pytest.raises(ValueError, match=f'The config has no {key}'):
            settings.plain(left)
        (left[section] if section else left)[name] = None
        with pytest.raises(ValueError, match=f'{key}=None must be'):
            settings.plain(left)


def changed(folder, **changes):
    config = config_faults.lists(tiny.config(folder, phases=MLM))
    for key, value in changes.items():
        section, _, name = key.rpartition('__')
        (config[section] if section else config)[name] = value
    return config


def objective(**section):
    return [dict(objective=section)]


@pytest.mark.parametrize(
    'changes, words',
    [
        (dict(phases=(1,)), r'phases\[0\]=1 must be a section, as dict.objective'),
        (dict(phases=objective(name='mlm', rate=None)), 'rate=None must be a finite'),
        (
            dict(phases=objective(name='mlm', rate=1e-4)),
            'rate=0.0001 masks less than one',
        ),
        (
            dict(phases=objective(name='mlm', tied='no')),
            "tied='no' must be True or False",
        ),
        (dict(phases=objective(name='hybrid', latent=dict(top=0))), 'latent: top=0'),
        (dict(phases=objective(name='ijepa', masks=100)), 'ijepa: masks=100'),
        (dict(steps=10**10), 'steps=10000000000 must be an integer at least 0 and'),
        (dict(schedule__peak=float('inf')), 'peak=inf must be a finite number'),
        (dict(schedule__decay=float('inf')), 'decay=inf must be a finite number'),
        (dict(model__rope_theta=0), 'rope_theta=0 must be a number above 0'),
        (dict(model__rope_theta=[1e4, 0.0]), 'rope_theta=0.0 must be a number above 0'),
        (dict(model__window=-1), 'window=-1 must be an integer at least 0'),
        (dict(model__depth=10**9), 'model: depth=1000000000'),
        (dict(evaluate__rate=1e-4), 'rate=0.0001 masks less than one'),
        (dict(telemetry=None), 'telemetry=None must be a section'),
        (dict(data=[]), r'data=\[\] must be a section'),
        (dict(mesh='all'), "mesh='all' must be a section"),
        (dict(profile_steps=[None, 1]), r'profile_steps\[0\]=None must be'),
        (dict(watchdog=dict(seconds=True)), 'watchdog.seconds=True'),
        (dict(name=object), 'The config contains a value that JSON does not support'),
    ],
)
def test_faults_are_reported_before_anything_is_written(changes, words, folder, tmp_path):
    with pytest.raises(exits.ConfigError, match=words):
        tiny.train(changed(folder, **changes), tmp_path / 'run')
    assert not (tmp_path / 'run' / 'config.json').exists()


@pytest.mark.slow
def test_the_config_of_a_workdir_is_checked_on_resume(folder, tmp_path):
    config = changed(folder, steps=2, evaluate__every=0)
    tiny.train(config, tmp_path)
    saved = json.loads((tmp_path / 'config.json').read_text())
    # As a config that was written before these keys existed.
    for name in ('clip_norm', 'offload'):
        del saved[name]
    del saved['data']['batch_per_device']
    (tmp_path / 'config.json').write_text(json.dumps(saved))
    assert int(tiny.train(config, tmp_path).step) == 2
    (tmp_path / 'config.json').write_text(json.dumps(saved | {'clip_nrom': 1.0}))
    with pytest.raises(exits.ConfigError, match="config.json.*'clip_nrom'.*'clip_norm'"):
        tiny.train(config, tmp_path)


@pytest.mark.parametrize('config', [None, 3, 'configs/toy.py', [1]])
def test_values_that_are_not_configs_are_rejected(config, tmp_path):
    with pytest.raises(ValueError, match='The config=.*must be a section'):
        settings.plain(config)


def test_configs_of_other_commands_are_recognized(tmp_path):
    quickstart = test_configs.module('quickstart').get_config()
    with pytest.raises(ValueError, match='config of a study: use `jepa-text study`'):
        tiny.train(quickstart, tmp_path / 'run')
    with pytest.raises(ValueError, match='A study needs `runs`'):
        study.study(test_configs.module('toy').get_config(), tmp_path / 'study')
    assert not list(tmp_path.iterdir())


FILES = {
    'syntax': ('def get_config():\n    return (\n', 'line 2: .* never closed'),
    'nothing': ('def get_config():\n    pass\n', 'must return a ConfigDict, not None'),
    'number': ('def get_config():\n    return 3\n', 'must return a ConfigDict, not 3'),
    'import': ('import nothing_here\n', "line 1: ModuleNotFoundError: .*'nothing_here'"),
    'name': ('def get_config():\n    return x\n', "line 2: NameError: name 'x'"),
    'key': ('def get_config():\n    return {}[1]\n', 'line 2: KeyError: 1'),
    'no_function': ('config = 3\n', 'does not define a function get_config'),
    'argument': ('def get_config(size):\n    pass\n', "missing 1 required .*'size'"),
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
    command = [sys.executable, '-m', 'jepa_text.main', 'train']
    config = [f'--config={ROOT / "configs" / "toy.py"}', '--workdir=nowhere']
    done = subprocess.run(
        [*command, *config],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={'JAX_PLATFORMS': 'cuda', 'PATH': ''},
    )
    assert done.returncode == exits.USAGE, done.stderr
    assert "JAX_PLATFORMS='cuda', but jax finds no such device" in done.stderr
    assert 'Traceback' not in done.stderr


def test_the_exit_code_of_skipped_steps():
    def ended(in_row, value):
        return types.SimpleNamespace(
            step=4,
            skipped_in_row=in_row,
            params={'a': jnp.ones(2), 'b': jnp.array(value)},
        )

    train._check_end(ended(0, 1.0))
    for state in (ended(3, 1.0), ended(0, jnp.nan), ended(0, [1.0, -jnp.inf])):
        with pytest.raises(
            exits.Diverged, match='step 4: the run ended, but the .* not finite'
        ):
            train._check_end(state)


@pytest.mark.slow
def test_a_run_whose_last_loss_is_not_finite_does_not_end_well(folder, tmp_path):
    """Steps are skipped, fewer in a row than would stop the run, except at the end."""
    config = changed(folder, steps=4, stop_after_skips=100)
    config |= dict(schedule=dict(name='constant', value=1e38), log_every=1)
    config['evaluate']['every'] = config['telemetry']['every'] = 0
    for _ in range(2):
        with pytest.raises(exits.Diverged, match='the run ended, but the .* not finite'):
            tiny.train(config, tmp_path / 'run')
        assert metrics.read(tmp_path / 'run')[-1]['step'] == 4
    assert exits.code_of(exits.Diverged('x')) == exits.USAGE
