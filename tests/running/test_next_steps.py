"""The commands that a finished run prints can be copied and run."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import tiny

from jepa_text import main
from jepa_text.evaluation import train_command
from jepa_text.running import next_steps

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    """The workdir of a run, whose name must be quoted."""
    folder = tmp_path_factory.mktemp('tiny')
    config = tiny.config(
        folder,
        steps=1,
        phases=(dict(objective=dict(name='mlm')),),
        evaluate=dict(every=0, rate=0.15, max_rows=0),
    )
    train_command.run(config, folder / 'my run')
    return folder / 'my run'


def shown(run):
    """The commands among the lines, as a shell reads them."""
    lines = next_steps.lines(run)
    at = lines.index('Next, for example:')
    return [shlex.split(line) for line in lines[at + 1 :] if line.startswith('  ')]


def test_the_files_of_the_run_are_listed(run, monkeypatch):
    monkeypatch.chdir(run.parent)
    text = '\n'.join(next_steps.lines(run))
    for path in ('checkpoints/1', 'metrics.jsonl', 'tokenizer.json'):
        assert (run / path).exists() and f'my run/{path}' in text
    assert str(run.parent) not in text, 'paths below the current folder are relative'
    assert next_steps.lines(run.parent / 'none') == []


def test_a_run_at_an_address_is_shown_with_its_address(run):
    """Not with the path of its copy, which may be deleted."""
    lines = next_steps.lines(run, address='gs://bucket/runs/one')
    text = '\n'.join(lines)
    assert str(run) not in text and 'my run' not in text
    assert 'gs://bucket/runs/one/checkpoints/1' in text
    assert lines[-3].endswith('--to=gs://bucket/runs/one-exported')


def test_the_commands_parse(run, monkeypatch):
    encode, analyze, export = shown(run)
    compile(encode[2], 'encode', 'exec')
    for line, name in ((analyze, 'analyze'), (export, 'export')):
        command, config, workdir = main.parse(line[line.index(name) - 1 :])
        assert command == name
    assert main.parse(analyze[2:])[1]['models'] == [str(run)]
    assert export[-2:] == [f'--workdir={run}', f'--to={run}-exported']
    assert analyze[1:3] == ['-m', 'jepa_text.main']
    # The program is shown as the user called it.
    monkeypatch.setattr(sys, 'argv', ['/bin/jepa-text', 'train'])
    assert shown(run)[1][:2] == ['/bin/jepa-text', 'analyze']


def test_a_workdir_with_a_comma_has_no_analyze_command(run):
    odd = run.with_name('a,b')
    os.symlink(run, odd)
    assert [line[-2] for line in next_steps.commands(str(odd))] == [
        '-c',
        f'--workdir={odd}',
    ]


@pytest.mark.slow
def test_the_commands_run(run):
    small = ['--config.test=8', '--config.train=8', '--config.half_samples=0']
    for line in shown(run):
        command = [*line, *small] if 'analyze' in line else line
        environment = os.environ | {'PYTHONPATH': str(ROOT)}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        if '-c' in line:
            assert done.stdout.startswith('[[')
    assert (run.with_name('my run-analysis') / 'analysis.html').is_file()
    assert (run.with_name('my run-exported') / 'config.json').is_file()
