"""What a run that is done leaves behind, and what to do with it, in lines to copy."""

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
    """Where the things of a finished run are, and three commands that go on from them.

    `program` is how jepa-text was called, by default as this process was; `address` that
    of which the folder is the copy.
    """
    folder = Path(folder)
    name = address or _near(folder)
    step = restore.newest_good_step(folder / 'checkpoints')
    if step is None:
        return []
    said = ['', f'Done: {name}']
    for what, path in (
        (f'checkpoint of step {step:,}', folder / 'checkpoints' / str(step)),
        ('metrics, also for TensorBoard', folder / metrics.FILE),
        ('tokenizer', folder / 'tokenizer.json'),
    ):
        place = f'{name}/{path.relative_to(folder)}' if address else _near(path)
        said.append(f'  {what:<30} {place}')
    said += ['', 'Next, for example:']
    said += [f'  {_line(command)}' for command in commands(name, program)]
    key = (
        'tokens' if checksums.read_json(folder / 'config.json').get('tokens') else 'steps'
    )
    said += ['', f'To train longer: the same command with a larger --config.{key}.']
    return said


def commands(near, program=None):
    """Argument vectors: vectors of texts, what these hold, and the run for others; `near`
    is its folder from here, or its address."""
    program = program or _program()
    encode = f"print(load.load({near!r}).encode(['One text.', 'Another text.']))"
    found = [[_near(sys.executable), '-c', f'from jepa_text import load; {encode}']]
    # A comma would end the name of the model.
    if ANALYZE.is_file() and ',' not in near:
        flag = f'--config={_near(ANALYZE)}:models={near}'
        found.append([*program, 'analyze', flag, f'--workdir={near}-analysis'])
    found.append([*program, 'export', f'--workdir={near}', f'--to={near}-exported'])
    return found


def _line(command):
    """A command as a shell reads it; double quotes around what holds single ones."""
    return ' '.join(
        f'"{word}"' if "'" in word and not re.search(r'["$`\\!]', word) else quoted
        for word, quoted in zip(command, map(shlex.quote, command))
    )


def _program():
    """The words before the command, as this process was started."""
    if Path(sys.argv[0]).name == 'jepa-text':
        return [_near(sys.argv[0]) if os.sep in sys.argv[0] else sys.argv[0]]
    return [_near(sys.executable), '-m', f'{__package__.split(".")[0]}.main']


def _near(path):
    """A path from here, if it is below here; links are not followed."""
    path, here = os.path.abspath(path), os.getcwd()
    return os.path.relpath(path, here) if path.startswith(here + os.sep) else str(path)
