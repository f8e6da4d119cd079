"""The command line: what it runs, and what it says when it cannot."""

import subprocess
import sys
from pathlib import Path

import pytest

from jepa_text import main
from jepa_text.parallel import exits

ROOT = Path(__file__).parents[1]
QUICKSTART = str(ROOT / 'configs' / 'quickstart.py')


def test_help_shows_commands_and_examples_that_parse(capsys):
    assert main.main(['jepa-text', '--help']) == 0
    text = capsys.readouterr().out
    assert all(command in text for command in main.COMMANDS)
    examples = [line.split() for line in text.splitlines() if '--workdir=runs' in line]
    assert len(examples) >= 3
    for _, command, *flags in examples:
        flags = [f.replace('=configs/', f'={ROOT}/configs/') for f in flags]
        parsed, config, workdir = main.parse(['jepa-text', command, *flags])
        assert parsed == command and workdir.startswith('runs/')
        assert config['to'] if command == 'export' else config.name


def test_overrides_reach_the_config():
    _, config, workdir = main.parse(
        [
            'jepa-text',
            'study',
            f'--config={QUICKSTART}',
            '--workdir=x',
            '--config.steps=7',
            '--config.runs[0].phases[0].objective.rate=0.5',
        ]
    )
    assert config.steps == 7 and workdir == 'x'
    assert config.runs[0]['phases'][0]['objective']['rate'] == 0.5


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        ([], 'prepare'),
        (['trian'], "'train'"),
        (['train', '--workdir=x'], '--config is missing'),
        (['train', '--config=configs/quikstart.py', '--workdir=x'], 'quickstart.py'),
        (['train', f'--config={QUICKSTART}'], '--workdir is missing'),
        (['train', f'--config={QUICKSTART}', '--wrkdir=x'], 'workdir'),
        (['train', f'--config={QUICKSTART}', '--workdir=x', '--config.stpes=1'], 'steps'),
        (
            ['train', f'--config={QUICKSTART}', '--workdir=x', '--config.model.deth=1'],
            'deth',
        ),
        (
            ['train', f'--config={QUICKSTART}', '--workdir=x', '--config.steps=many'],
            'many',
        ),
        (['train', f'--config={QUICKSTART}', '--workdir=x', 'more'], "'more'"),
    ],
)
def test_wrong_usage_is_explained(arguments, words, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main.main(['jepa-text', *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error and 'Traceback' not in error


def test_a_run_that_cannot_start_exits_with_2_and_one_paragraph(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            '-m',
            'jepa_text.main',
            'study',
            f'--config={QUICKSTART}',
            f'--workdir={tmp_path}/x',
            '--config.prepare.row_length=4',
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 2
    assert 'row_length' in done.stderr and 'Traceback' not in done.stderr


@pytest.mark.parametrize(
    ('error', 'code'),
    [
        (None, 0),
        (RuntimeError('broken'), 1),
        (OSError('disk'), 1),
        (FloatingPointError('nan'), 1),
        (KeyboardInterrupt(), 1),
        # A library's, as jax's for a peer that died: another try may help.
        (ValueError('Gloo all-reduce failed'), 1),
        (FileNotFoundError('rows'), 1),
        (exits.ConfigError('config'), 2),
        (exits.Diverged('nan'), 2),
        (exits.Stopped('stopped after step 3'), 75),
    ],
)
def test_exit_codes(error, code, monkeypatch, capsys):
    def train(config, workdir):
        if error is not None:
            raise error

    monkeypatch.setattr('jepa_text.training.train.train', train)
    command = ['jepa-text', 'train', f'--config={QUICKSTART}', '--workdir=x']
    assert main.main(command) == code
    said = capsys.readouterr().err
    assert str(error or '') in said and 'Traceback' not in said
    if isinstance(error, Exception) and not isinstance(error, exits.Stopped):
        # The flag changes what is printed, and nothing else.
        assert main.main([*command, '--traceback']) == code
        assert 'Traceback' in capsys.readouterr().err


def test_a_supervised_command_is_this_very_one(monkeypatch):
    seen = []

    def supervised(command, restarts, progress):
        seen.append((command[1:], restarts, progress()))
        return 75

    monkeypatch.setattr('jepa_text.running.supervise.supervise', supervised)
    command = ['train', f'--config={QUICKSTART}', '--workdir=nowhere']
    assert main.main(['jepa-text', 'supervise', *command]) == 75
    assert main.main(['jepa-text', 'supervise', '--restarts=9', *command]) == 75
    module = ['-m', 'jepa_text.main', *command]
    assert seen == [(module, 5, set()), (module, 9, set())]


@pytest.mark.parametrize(
    ('words', 'said'),
    [
        (['--restarts=0', 'train'], 'restarts=0'),
        (['--restart=3', 'train'], "'--restart=3' is not a command"),
        (['trian'], "'train'"),
    ],
)
def test_a_supervised_command_is_checked_before(words, said, capsys):
    flags = [f'--config={QUICKSTART}', '--workdir=nowhere']
    assert main.main(['jepa-text', 'supervise', *words, *flags]) == 2
    assert said in capsys.readouterr().err
