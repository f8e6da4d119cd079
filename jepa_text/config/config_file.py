"""The config file of a command line: found, read, and what is wrong with it, in words.

It is a program of the user, so reading it may raise anything.
"""

import importlib.util
import re
import traceback
from pathlib import Path

from jepa_text.config import resolve, schema
from jepa_text.files import paths

PACKAGE = Path(__file__).parents[1]


def folder():
    """The folder of the config files that are shipped: of an installed package inside it,
    of a clone beside it."""
    installed = PACKAGE / 'configs'
    return installed if installed.is_dir() else PACKAGE.parent / 'configs'


def shared(name):
    """A config file of `folder` as a module: what several of them share.

    >>> shared('quickstart').get_config().name
    'quickstart'
    """
    return _module(folder() / f'{name}.py')


def read(argv):
    """The config of the file that a command line names last, as plain dicts.

    Raises ValueError, which names file and line, for a file that is not there, fails, or
    gives no config.
    """
    path, _, argument = named(argv).partition(':')
    if not path:
        raise ValueError(
            '--config is missing: a config file, as --config=configs/quickstart.py; '
            '`jepa-text init my.py` writes one.'
        )
    if not Path(path).is_file():
        near = [str(p) for p in sorted(Path(path).parent.glob('*.py'))]
        raise ValueError(
            f'config file {path!r} does not exist.{resolve.nearest(path, near)}'
        )
    try:
        make = _module(Path(path)).get_config
        config = make(argument) if ':' in named(argv) else make()
    except Exception as error:  # a config file is a program, and may raise anything
        raise ValueError(_why_not(error, path)) from error
    if not hasattr(config, 'keys'):
        raise ValueError(
            f'{path}: get_config() must return a ConfigDict, not {config!r}.'
        )
    return schema.plain(config)


def named(argv):
    """What a command line names last as its config: FILE or FILE:ARGUMENT; '' if none."""
    given = [a.split('=', 1)[1] for a in argv if re.match(r'--?config=', a)]
    return paths.local('--config', given[-1]) if given else ''


def _module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _why_not(error, path):
    """What was wrong with the config file, in words."""
    file = Path(path).absolute()
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if Path(f.filename).absolute() == file]
    if isinstance(error, SyntaxError):
        return f'{error.filename}, line {error.lineno}: {error.msg}.'
    if lines:
        return f'{file}, line {lines[-1]}: {type(error).__name__}: {error}'
    if isinstance(error, AttributeError) and "'get_config'" in str(error):
        return f'{file} defines no function get_config().'
    return f'{file}: {type(error).__name__}: {error}'
