"""Summary of a finished run: its files, and commands to continue with."""

import os
import re
import shlex
import sys
from pathlib import Path

from jepa_text.config import config_file
from jepa_text.files import checksums
from jepa_text.running import metrics, restore

ANALYZE = config_file.folder() / 'analyze.py'


def lines(folder, program=None, address=None):
    """The lines to print: the files of a finished run, and three example commands.

    `program` is how jepa-text was called, by default as in this process; `address` is set
    if the folder is the copy of one. Empty without a good checkpoint.
    """
    folder = Path(folder)
    name = address or _relative(folder)
    step = restore.newest_good_step(folder / 'checkpoints')
    if step is None:
        return []
    text = ['', f'Done: {name}']
    for title, path in (
        (f'checkpoint of step {step:,}', folder / 'checkpoints' / str(step)),
        ('metrics, also for TensorBoard', folder / metrics.FILE),
        ('tokenizer', folder / 'tokenizer.json'),
    ):
        place = f'{name}/{path.relative_to(folder)}' if address else _relative(path)
        text.append(f'  {title:<30} {place}')
    text += ['', 'Next, for example:']
    text += [f'  {_quoted(command)}' for command in commands(name, program)]
    key = (
        'tokens' if checksums.read_json(folder / 'config.json').get('tokens') else 'steps'
    )
    text += ['', f'To train longer: the same command with a larger --config.{key}.']
    return text


def commands(run, program=None):
    """Argument vectors of three commands: encode texts, analyze and export the run.

    `run` is its folder, relative to the current one, or its address.
    """
    program = program or _program()
    encode = f"print(load.load({run!r}).encode(['One text.', 'Another text.']))"
    found = [[_relative(sys.executable), '-c', f'from jepa_text import load; {encode}']]
    # A comma would end the name of the model.
    if ANALYZE.is_file() and ',' not in run:
        flag = f'--config={_relative(ANALYZE)}:models={run}'
        found.append([*program, 'analyze', flag, f'--workdir={run}-analysis'])
    found.append([*program, 'export', f'--workdir={run}', f'--to={run}-exported'])
    return found


def _quoted(command):
    """A command in shell syntax; arguments with single quotes get double quotes."""
    return ' '.join(
        f'"{word}"' if "'" in word and not re.search(r'["$`\\!]', word) else quoted
        for word, quoted in zip(command, map(shlex.quote, command))
    )


def _program():
    """The arguments before the subcommand, as this process was started."""
    if Path(sys.argv[0]).name == 'jepa-text':
        return [_relative(sys.argv[0]) if os.sep in sys.argv[0] else sys.argv[0]]
    return [_relative(sys.executable), '-m', f'{__package__.split(".")[0]}.main']


def _relative(path):
    """A path relative to the current folder, if below it; links are not resolved."""
    path, current = os.path.abspath(path), os.getcwd()
    return os.path.relpath(path, current) if path.startswith(current + os.sep) else path
