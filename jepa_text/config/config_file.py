"""Loading of config files, with readable errors.

A config file is a Python program of the user, so loading it may raise anything.
"""

import importlib.util
import traceback
from pathlib import Path

from jepa_text.config import resolve, schema
from jepa_text.files import paths

PACKAGE = Path(__file__).parents[1]


def folder():
    """Returns the folder of the shipped config files.

    It is inside an installed package, and next to the package in a clone.
    """
    installed = PACKAGE / 'configs'
    return installed if installed.is_dir() else PACKAGE.parent / 'configs'


def shared(name):
    """Returns a shipped config file as a module, so that others can build on it.

    >>> shared('quickstart').get_config().name
    'quickstart'
    """
    return _module(folder() / f'{name}.py')


def read(place):
    """Returns the config of a FILE or FILE:ARGUMENT, as plain dicts.

    Raises ValueError, with file and line, if the file does not exist, fails, or does not
    return a config.
    """
    path, colon, argument = (place or '').partition(':')
    if not path:
        raise ValueError(
            '--config is missing: give a config file, as in '
            '--config=configs/quickstart.py; `jepa-text init my.py` writes one.'
        )
    if not Path(path).is_file():
        paths.local('--config', place)
        near = [str(p) for p in sorted(Path(path).parent.glob('*.py'))]
        raise ValueError(
            f'config file {path!r} does not exist.{resolve.nearest(path, near)}'
        )
    if not path.endswith('.py'):
        raise ValueError(f'config file {path!r} must end in .py, as in my.py.')
    try:
        get_config = _module(Path(path)).get_config
        config = get_config(argument) if colon else get_config()
    except Exception as error:  # a config file is a program, and may raise anything
        raise ValueError(_explanation(error, path)) from error
    if not hasattr(config, 'keys'):
        raise ValueError(
            f'{path}: get_config() must return a ConfigDict, not {config!r}.'
        )
    return schema.plain(config)


def _module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _explanation(error, path):
    """Returns an error message with the line of the config file that failed."""
    file = Path(path).absolute()
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if Path(f.filename).absolute() == file]
    if isinstance(error, SyntaxError):
        return f'{error.filename}, line {error.lineno}: {error.msg}.'
    if lines:
        return f'{file}, line {lines[-1]}: {type(error).__name__}: {error}'
    if isinstance(error, AttributeError) and "'get_config'" in str(error):
        return f'{file} does not define a function get_config().'
    return f'{file}: {type(error).__name__}: {error}'
