"""`jepa-text COMMAND --config=FILE --workdir=DIR`: flags, and one call.

All logic is in functions that a notebook can call too; only this file knows of flags.
Exit codes: 0 done, 1 the run failed, 2 wrong usage or a config that cannot run.
"""

import difflib
import importlib
import os
import re
import sys
from pathlib import Path

# command: what it does, and the function(config, workdir) that does it.
COMMANDS = {
    'prepare': ('text to rows on disk', 'jepa_text.data.prepare', 'run'),
    'train': ('pretrain, or resume', 'jepa_text.train', 'train'),
    'study': ('several runs on the same rows, one report', 'jepa_text.study', 'study'),
}

USAGE = """jepa-text COMMAND --config=FILE[:ARG] --workdir=DIR [--config.KEY=VALUE ...]

{commands}

Every key of the config file can be set on the command line; --traceback shows where an
error arose. Examples that run:

  jepa-text study --config=configs/quickstart.py --workdir=runs/quickstart
  jepa-text train --config=configs/desk.py:clm_mlm --workdir=runs/clm_mlm
  jepa-text train --config=configs/desk.py:mlm --config.steps=200 --workdir=runs/short
"""


def run(argv=None):
    """The console command."""
    sys.exit(main(sys.argv if argv is None else argv))


def main(argv):
    """Runs one command line and returns its exit code."""
    if len(argv) > 1 and argv[1] in ('-h', '--help', 'help'):
        print(usage())
        return 0
    try:
        command, config, workdir = parse(argv)
    except ValueError as error:
        return _fail(error, 2, '--traceback' in argv)
    _, module, function = COMMANDS[command]
    _quiet()
    try:
        getattr(importlib.import_module(module), function)(config, workdir)
    except (ValueError, FileNotFoundError, FileExistsError) as error:
        return _fail(error, 2, '--traceback' in argv)
    except (OSError, RuntimeError, FloatingPointError) as error:
        return _fail(error, 1, '--traceback' in argv)
    except KeyboardInterrupt:
        return _fail('interrupted; the same command goes on from the last checkpoint.', 1)
    return 0


def usage():
    """The text of --help."""
    width = max(map(len, COMMANDS))
    lines = [f'  {name:{width}}  {text}' for name, (text, _, _) in COMMANDS.items()]
    return USAGE.format(commands='\n'.join(lines))


def parse(argv):
    """(command, config, workdir) of a command line; ValueError says what is wrong."""
    command = argv[1] if len(argv) > 1 else ''
    if command not in COMMANDS:
        raise ValueError(f'{command!r} is not a command.{_nearest(command, COMMANDS)}')
    from absl import flags
    from ml_collections import config_flags

    values = flags.FlagValues()
    rest = [argv[0], *argv[2:]]
    config_flags.DEFINE_config_file('config', None, flag_values=values, sys_argv=rest)
    flags.DEFINE_string('workdir', None, 'folder of the run', flag_values=values)
    flags.DEFINE_bool('traceback', False, 'show where', flag_values=values)
    _check_file(rest)
    try:
        left = values(rest)[1:]
        config = values.config
    except (AttributeError, KeyError) as error:
        raise ValueError(_unknown_key(error)) from error
    except (flags.Error, OSError) as error:
        raise ValueError(str(error).strip().splitlines()[-1]) from error
    if left:
        raise ValueError(f'{left[0]!r} is no flag; settings are --config.KEY=VALUE.')
    if not values.workdir:
        raise ValueError('--workdir is missing: the folder to write to, as runs/first.')
    return command, config, values.workdir


def _check_file(argv):
    given = [a.split('=', 1)[1] for a in argv if re.match(r'--?config=', a)]
    if not given:
        raise ValueError(
            '--config is missing: a config file, as --config=configs/quickstart.py.'
        )
    path = Path(given[-1].split(':')[0])
    if not path.is_file():
        near = [str(p) for p in sorted(path.parent.glob('*.py'))]
        raise ValueError(
            f'config file {str(path)!r} does not exist.{_nearest(path, near)}'
        )


def _unknown_key(error):
    lines = str(error.args[0]).splitlines()
    hint = f' {lines[1]}.' if len(lines) > 1 else ''
    return (
        f'the config has no key {lines[0]}.{hint} Keys that the config file does not '
        'spell out must be added there first.'
    )


def _nearest(name, known):
    close = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    hint = f' Did you mean {close[0]!r}?' if close else ''
    return f'{hint} There are: {", ".join(known)}.' if known else hint


def _fail(error, code, traceback=False):
    if traceback:
        raise error
    text = str(error) or type(error).__name__
    print(f'\njepa-text: {text}', file=sys.stderr)
    return code


def _quiet():
    # Libraries report progress of their own at INFO; errors still come through.
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')


if __name__ == '__main__':
    run()
