"""Config files, their arguments, and settings of their keys on the command line.

A config file is a Python program of the user, so loading it may raise anything. The
arguments of its `get_config` follow its name, as in pretrain:clm_mlm,size=610m
(`arguments`). Settings:

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
import inspect
import json
import re
import traceback
import types
import typing
from pathlib import Path

from jepa_text.files import paths
from jepa_text.settings import ranges, resolve, schema

PACKAGE = Path(__file__).parents[1]
SETTING = re.compile(r'--?config\.([^=]+)=(.*)', re.DOTALL)
ARGUMENT = re.compile(r'([A-Za-z_]\w*)=(.*)', re.DOTALL)


class UnknownConfig(ValueError):
    """What is given as a config is neither a shipped one nor a file."""


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
    """Returns {name: first line} of the shipped configs, such as 'studies/pfs'."""
    texts = {
        path.relative_to(folder()).with_suffix('').as_posix(): path.read_text('utf-8')
        for path in sorted(folder().rglob('*.py'))
    }
    return {
        name: text.partition('\n')[0].lstrip('r"')
        for name, text in texts.items()
        if '\ndef get_config(' in text
    }


def read(place):
    """Returns the config of NAME, NAME:ARGUMENTS, FILE.py or FILE.py:ARGUMENTS, as plain
    dicts. NAME is one of `shipped`.

    Raises ValueError, with file and line, if there is no such config or file, and if it
    fails or does not return a config; and for arguments that it does not take.
    """
    name, _, text = (place or '').partition(':')
    path, get_config = _function(place)
    given = arguments(name, get_config, text)
    try:
        config = get_config(**given)
    except Exception as error:
        is_ours = isinstance(error, ValueError) and path.is_relative_to(folder())
        explained = f'{name}: {error}' if is_ours else _explanation(error, path)
        raise ValueError(explained) from error
    if not hasattr(config, 'keys'):
        raise ValueError(
            f'{path}: get_config() must return a ConfigDict, not {config!r}.'
        )
    return schema.plain(config)


def takes(place, key):
    """Whether the config of a place, as for `read`, has an argument of this name."""
    parameters = inspect.signature(_function(place)[1]).parameters.values()
    return any(x.name == key or x.kind is x.VAR_KEYWORD for x in parameters)


def _function(place):
    """Returns (path, get_config) of the file of a place."""
    name = (place or '').partition(':')[0]
    if not name:
        raise ValueError(
            'The config is missing: give the name of a shipped one, such as toy:mlm, or '
            'a file.'
        )
    path = _path_of(name, place)
    try:
        return path, _module(path).get_config
    except Exception as error:  # a config file is a program, and may raise anything
        raise ValueError(_explanation(error, path)) from error


def arguments(what, function, text):
    """Returns the keywords of a function in a text such as 'clm_mlm,size=610m'.

    The first word is the function's first parameter, all others are key=value; a list
    continues until the next key. The type of a value is that of the annotation, which may
    be a Literal, or of the default. Raises ValueError for what the function does not
    take; `what` names it in errors.

    >>> def get_config(preset, *, steps=10, tasks=()): ...
    >>> arguments('mine', get_config, 'clm,tasks=a,b,steps=20')
    {'preset': 'clm', 'tasks': ['a', 'b'], 'steps': 20}
    """
    parameters = inspect.signature(function).parameters
    kinds = {name: {*ranges.kinds_of(x)} for name, x in parameters.items()}
    key = next((x.name for x in parameters.values() if x.kind is not x.KEYWORD_ONLY), '')
    given = {}
    for word in filter(None, text.split(',')):
        if pair := ARGUMENT.fullmatch(word):
            key, word = pair.groups()
        is_list = kinds.get(key) == {list}
        if pair and key in given:
            raise ValueError(f'{what}: {key!r} is given twice.')
        if not pair and (not key or key in given and not is_list):
            raise ValueError(f'{what}: {_with_key(word, parameters, kinds, given)}')
        value = word if is_list else _parsed(kinds.get(key, set()), word, '')
        given[key] = [*given.get(key, []), value] if is_list else value
    resolve.check_keywords(what, function, given)
    return given


def _with_key(word, parameters, kinds, given):
    """Returns the error message of a word without a key, with that of its value."""
    known = [name for name in parameters if name not in given]
    fitting = (
        name
        for name in known
        if word in typing.get_args(parameters[name].annotation)
        or (int in kinds[name] and word.isdecimal())
        or kinds[name] == {list}
    )
    key = next(fitting, 'KEY')
    return f'{word!r} has no key; write {key}={word}.{resolve.nearest("", known)}'


def _path_of(name, place):
    """Returns the path of a config file, given itself or as the name of a shipped one."""
    if name in shipped():
        return folder() / f'{name}.py'
    path = Path(name).expanduser()
    if path.suffix == '.py' and path.is_file():
        return path
    paths.local('--config', place)
    near = resolve.nearest(Path(name).stem, shipped())
    raise UnknownConfig(
        f'{name!r} is neither the name of a shipped config nor an existing file '
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


# Sections that name a file or a function. With another name, their keys are others, too.
NAMED = 'model', 'objective', 'source', 'optimizer', 'schedule'


def with_settings(root, config, settings):
    """Returns the config, as plain dicts, with all settings [(path, text)] applied.

    A value that is not a text is taken as it is. A text stays one where `root` has only a
    string, or where the config has one in a section that `root` does not describe. A dict
    is merged into an existing section unless it has another `name`. Raises ValueError for
    a path through what is neither a section nor a list, and for the shared steps of a
    study whose runs have steps of their own.
    """
    given = {path for path, _ in settings}
    _check_steps(config.get('runs'), given)
    for path, text in settings:
        if (other := ranges.other_length(path)) in given:
            raise ValueError(f'--config.{path} and --config.{other}: give one of them.')
        pairs = re.findall(r'([^.\[\]]+)|\[(\d+)\]', path)
        keys = [int(number) if number else key for key, number in pairs]
        if not keys:
            raise ValueError(f'--config.{path} names no key, such as --config.steps.')
        text = text if isinstance(text, str) else schema.plain({path: text})[path]
        parse = functools.partial(_parsed, _kinds(root, keys), text)
        if keys[-1] == 'name' and keys[-2:-1] and keys[-2] in NAMED:
            start = path.removesuffix('name')
            own = {p[len(start) :].split('.')[0] for p in given if p.startswith(start)}
            whole = (_parsed({dict}, x, None) for p, x in settings if f'{p}.' == start)
            own |= {key for x in whole if ranges.is_section(x) for key in x}
            parse, keys = functools.partial(_renamed, parse, own), keys[:-1]
        config = _set(config, keys, parse, f'--config.{path}')
    return config


def _check_steps(runs, given):
    """Raises ValueError if the shared steps are set, but a run would not take them."""
    runs = runs if isinstance(runs, list | tuple) and 'steps' in given else ()
    own = [
        f'{run.get("name")} (runs[{n}])'
        for n, run in enumerate(runs)
        if ranges.is_section(run)
        and run.get('steps') is not None
        and f'runs[{n}].steps' not in given
    ]
    if own:
        shown = ', '.join(own[:4]) + f' and {len(own) - 4} more' * (len(own) > 4)
        raise ValueError(
            f'steps is given, but {shown} would keep the steps of their own. Set those, '
            'as --config.runs[0].steps=100, or a smaller scale if the config has one.'
        )


def _renamed(parse, own, section):
    """Returns the section with another name, and only the keys `own` of the old one."""
    section = section if ranges.is_section(section) else {}
    kept = {key: section[key] for key in own if key in section}
    return kept | {'name': parse(section.get('name'))}


def _set(at, keys, parse, what):
    """Returns `at` with the value parse(old value) set below it."""
    if not keys:
        value = parse(at)
        if not ranges.is_section(value) or not ranges.is_section(at):
            return value
        is_other = value.get('name', at.get('name')) != at.get('name')
        return value if is_other else schema.merged(at, value)
    key, *rest = keys
    if isinstance(key, int):
        length = len(at) if isinstance(at, list | tuple) else 0
        if key >= length:
            raise ValueError(f'{what}: there is no [{key}], but {length} items.')
        return [*at[:key], _set(at[key], rest, parse, what), *at[key + 1 :]]
    if at is not None and not ranges.is_section(at):
        raise ValueError(f'{what}: there is no {key!r} in {at!r}.')
    at = dict(at or {})
    return schema.merged(at, {key: _set(at.get(key), rest, parse, what)})


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
        return text
    is_text = isinstance(old, str) if kinds == {None} else kinds <= {str, types.NoneType}
    is_none = text in ('None', 'null') and kinds != {str}
    if is_text and not is_none:
        return text
    for parse in (ast.literal_eval, json.loads, float):  # float: inf
        try:
            return schema.plain({'': parse(text)})['']
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue  # the last three of literal_eval: [] as a key, deep nesting
    return text
