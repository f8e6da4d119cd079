"""The config file of a command line: found, and what is wrong with it, in words.

It is a program of the user, so reading it may raise anything.
"""

import difflib
import re
import traceback
from pathlib import Path

from jepa_text.files import paths


def check(argv):
    """Raises ValueError unless the config file that a command line names is there."""
    if not name(argv):
        raise ValueError(
            '--config is missing: a config file, as --config=configs/quickstart.py.'
        )
    path = Path(name(argv))
    if not path.is_file():
        near = [str(p) for p in sorted(path.parent.glob('*.py'))]
        raise ValueError(
            f'config file {str(path)!r} does not exist.{nearest(path, near)}'
        )


def name(argv):
    """The config file that a command line names last; '' without one."""
    given = [a.split('=', 1)[1] for a in argv if re.match(r'--?config=', a)]
    return paths.local('--config', given[-1]).split(':')[0] if given else ''


def not_one(argv, found):
    """That get_config of the file gave something else than a config."""
    return f'{name(argv)}: get_config() must return a ConfigDict, not {found!r}.'


def why_not(error, argv):
    """What was wrong with the config file, or with a flag, in words."""
    file = Path(name(argv)).absolute() if name(argv) else None
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if file and Path(frame.filename) == file]
    if isinstance(error, SyntaxError):
        return f'{error.filename}, line {error.lineno}: {error.msg}.'
    if lines:
        return f'{file}, line {lines[-1]}: {type(error).__name__}: {error}'
    if "'get_config'" in str(error):
        return f'{file} defines no function get_config().'
    if "'NoneType'" in str(error):
        return not_one(argv, None)
    if isinstance(error, AttributeError | KeyError):
        return _unknown_key(error)
    return str(error).strip().splitlines()[-1]


def _unknown_key(error):
    lines = str(error.args[0]).splitlines()
    hint = f' {lines[1]}.' if len(lines) > 1 else ''
    return (
        f'the config has no key {lines[0]}.{hint} Keys that the config file does not '
        'spell out must be added there first.'
    )


def nearest(name, known):
    """A phrase that names the closest known spelling, and all that exist."""
    close = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    hint = f' Did you mean {close[0]!r}?' if close else ''
    return f'{hint} There are: {", ".join(known)}.' if known else hint
