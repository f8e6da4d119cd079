"""Config files, and settings of their keys on the command line.

A config file is a Python program of the user, so loading it may raise anything. Settings:

--config.steps=200                     a value: a Python or JSON literal, or else a string
--config.runs[0].name=short            an item of a list
--config.optimizer.weight_decay=0.05   creates a section that the file does not have
--config.data='{"repeat": true}'       sets several keys; the others are kept

Whether a key exists and may have the value is checked when the config is read (schema).
"""

import ast
import dataclasses
import functools
import importlib.util
import json
import re
import traceback
import types
from pathlib import Path

from jepa_text.files import paths
from jepa_text.settings import ranges, resolve, schema

PACKAGE = Path(__file__).parents[1]
SETTING = re.compile(r'--?config\.([^=]+)=(.*)', re.DOTALL)


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


def shipped():
    """Returns the names of the shipped configs, such as 'toy' and 'studies/pfs'."""
    files = {path.relative_to(folder()): path for path in folder().rglob('*.py')}
    return sorted(
        name.with_suffix('').as_posix()
        for name, path in files.items()
        if '\ndef get_config(' in path.read_text(encoding='utf-8')
    )


def read(place):
    """Returns the config of NAME, NAME:ARGUMENT, FILE.py or FILE.py:ARGUMENT, as plain
    dicts. NAME is one of `shipped`.

    Raises ValueError, with file and line, if there is no such config or file, and if it
    fails or does not return a config.
    """
    name, colon, argument = (place or '').partition(':')
    if not name:
        raise ValueError(
            'The config is missing: give the name of a shipped one, as in '
            '--config=quickstart, or a file; `jepa-text init my.py` writes one.'
        )
    path = _path_of(name, place)
    try:
        get_config = _module(path).get_config
        config = get_config(argument) if colon else get_config()
    except Exception as error:  # a config file is a program, and may raise anything
        raise ValueError(_explanation(error, path)) from error
    if not hasattr(config, 'keys'):
        raise ValueError(
            f'{path}: get_config() must return a ConfigDict, not {config!r}.'
        )
    return schema.plain(config)


def _path_of(name, place):
    """Returns the path of a config file, given itself or as the name of a shipped one."""
    if name in shipped():
        return folder() / f'{name}.py'
    if name.endswith('.py') and Path(name).is_file():
        return Path(name)
    paths.local('--config', place)
    near = resolve.nearest(Path(name).stem, shipped())
    raise ValueError(
        f'--config={name!r} is neither the name of a shipped config nor an existing file '
        f'that ends in .py.{near}'
    )


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


def split_settings(argv):
    """Returns (words that are not settings, [(path, text)] of the settings)."""
    matches = [(word, SETTING.fullmatch(word)) for word in argv]
    rest = [word for word, match in matches if not match]
    return rest, [match.groups() for _, match in matches if match]


def with_settings(root, config, settings):
    """Returns the config, as plain dicts, with all settings [(path, text)] applied.

    A value that is not a text is taken as it is. A text stays one where `root` has only a
    string, or where the config has one in a section that `root` does not describe. A dict
    is merged into an existing section unless it has another `name`. Raises ValueError for
    a path through what is neither a section nor a list.
    """
    for path, text in settings:
        pairs = re.findall(r'([^.\[\]]+)|\[(\d+)\]', path)
        keys = [int(number) if number else key for key, number in pairs]
        parse = functools.partial(_parsed, _kinds(root, keys), text)
        config = _set(config, keys, parse, f'--config.{path}')
    return config


def _set(at, keys, parse, what):
    """Returns `at` with the value parse(old value) set below it."""
    if not keys:
        value = parse(at)
        if not ranges.is_section(value) or not ranges.is_section(at):
            return value
        is_other = value.get('name', at.get('name')) != at.get('name')
        return value if is_other else {**at, **value}
    key, *rest = keys
    if isinstance(key, int):
        length = len(at) if isinstance(at, list | tuple) else 0
        if key >= length:
            raise ValueError(f'{what}: there is no [{key}], but {length} items.')
        return [*at[:key], _set(at[key], rest, parse, what), *at[key + 1 :]]
    if at is not None and not ranges.is_section(at):
        raise ValueError(f'{what}: there is no {key!r} in {at!r}.')
    at = dict(at or {})
    return {**at, key: _set(at.get(key), rest, parse, what)}


def _kinds(kind, keys):
    """Returns the types that a dataclass has at these keys; {None} if unknown."""
    for key in keys:
        options = [
            schema.item_of(option)
            if isinstance(key, int)
            else schema.hints_of(option).get(key)
            for option in schema.kinds_of(kind)
            if isinstance(key, int) or dataclasses.is_dataclass(option)
        ]
        kind = next(filter(None, options), None)
    return {*schema.kinds_of(kind)}


def _parsed(kinds, text, old):
    """Returns the value of a Python or JSON literal, or else the text itself."""
    if not isinstance(text, str):
        return schema.plain({'value': text})['value']
    is_text = isinstance(old, str) if kinds == {None} else kinds <= {str, types.NoneType}
    is_none = text in ('None', 'null') and kinds != {str}
    if is_text and not is_none:
        return text
    for parse in (ast.literal_eval, json.loads, float):  # float: inf
        try:
            value = parse(text)
        except (ValueError, SyntaxError):
            continue
        return list(value) if isinstance(value, tuple) else value
    return text
