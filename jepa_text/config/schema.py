"""A config against a dataclass: its keys, types and ranges, at every level.

A section is a frozen dataclass, declared beside what uses it; a config is a dataclass of
sections. This file knows none of them: it is handed the root.

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Data:
        folder: str = field('', 'where the rows lie')
        row_length: int = field(doc='tokens in a row', minimum=1)

    read(Config, {'data': {'row_length': 64}}).data.folder

What a field may be: a number, text, bool, a list (`tuple`, `tuple[int, ...]`), another
dataclass, a list of them (`tuple[Phase, ...]`), `dict` for a section that names a file
and is checked by the `make` of that file, and a union of these. What is None by default
is left out of a resolved config.
"""

import copy
import dataclasses
import difflib
import functools
import json
import types
import typing

from jepa_text.config import ranges, renamed, resolve

REQUIRED = dataclasses.MISSING
NOTHING = type(None)
BOUNDS = ('minimum', 'maximum', 'above', 'below', 'finite')


def field(default=REQUIRED, doc='', **rules):
    """A field of a section: its default, its line in --help, and rules.

    Rules are the bounds of `ranges.number`; `choices`, the values there are; `folder`,
    where the files of a section that names one lie, and `given`, what the program tells
    their `make`. A field without default is required.
    """
    metadata = {'doc': doc, **rules}
    if isinstance(default, dict | list):
        make = lambda: copy.deepcopy(default)  # noqa: E731
        return dataclasses.field(default_factory=make, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def section(kind, doc=''):
    """A field that is a section of its own, and may be left out."""
    return dataclasses.field(metadata={'doc': doc, 'section': kind})


def plain(config):
    """A config as plain dicts, lists and numbers, whatever it came as.

    Raises ValueError for what is no config, or cannot be written as JSON.
    """
    config = config.to_dict() if hasattr(config, 'to_dict') else config
    ranges.section('The config', config)
    try:
        return json.loads(json.dumps(config))
    except (TypeError, ValueError, RecursionError) as error:
        # ValueError: a dict or list that holds itself.
        found = _unwritable(config) if isinstance(error, TypeError) else ''
        raise ValueError(
            f'The config holds what JSON cannot ({found or error}): use numbers, texts, '
            'booleans, None, lists and dicts.'
        ) from error


def _unwritable(value, at=''):
    """'a.b=<function f>' of the first value that JSON cannot hold; '' for none."""
    if isinstance(value, dict | list | tuple):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        dot = f'{at}.' if at else ''
        return next(filter(None, (_unwritable(x, f'{dot}{key}') for key, x in inner)), '')
    is_plain = value is None or isinstance(value, bool | int | float | str)
    return '' if is_plain else f'{at}={value!r}'


def read(root, config, what=''):
    """An instance of the dataclass `root`, with the defaults of what is left out.

    `what` names the section in errors: 'data', or '' for the whole config. A section that
    names a file and gives no `name` is changes to the default one. Raises ValueError for
    a key that is no field, with the nearest one, a field without default that is left
    out, a value of another type or out of range, and for what `root` itself refuses.
    """
    ranges.section(what or 'The config', config)
    if not what:
        renamed.check(config)
    fields = {one.name: one for one in dataclasses.fields(root)}
    for key in config:
        if key not in fields:
            known = resolve.nearest(str(key), fields)
            raise ValueError(f'{what or "The config"} has no key {key!r}.{known}')
    kinds = _hints(root)
    return root(
        **{
            name: _value(kinds[name], one, _given(one, config, what), _dotted(what, name))
            for name, one in fields.items()
        }
    )


@functools.cache
def _hints(root):
    """{field: type} of a dataclass."""
    return typing.get_type_hints(root)


def resolved(root, config, what=''):
    """The config as plain dicts with every default in its place, checked as in `read`."""
    return as_dict(read(root, config, what))


def as_dict(made):
    """The plain dict of an instance of a dataclass, without what is None by default."""
    pairs = ((one, getattr(made, one.name)) for one in dataclasses.fields(made))
    return {
        one.name: _plain(value)
        for one, value in pairs
        if value is not None or one.default is not None
    }


def default_of(one):
    """The default of a field as plain values; REQUIRED where it has none."""
    if 'section' in one.metadata:
        return {}
    if one.default_factory is not REQUIRED:
        return one.default_factory()
    return one.default


def kinds_of(hint):
    """The types that a field may have: those of a union, else its own."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def item_of(kind):
    """The type of the items of a `tuple[X, ...]`; None for another type."""
    arguments = typing.get_args(kind)
    is_list = typing.get_origin(kind) is tuple and arguments[1:] == (...,)
    return arguments[0] if is_list else None


def _dotted(what, name):
    return f'{what}.{name}' if what else name


def _given(one, config, what):
    """What a config says of a field: its value, changes to a section, or the default."""
    default = default_of(one)
    if one.name not in config:
        return default
    value = config[one.name]
    is_changes = ranges.is_section(value) and 'name' not in value
    if is_changes and isinstance(default, dict) and 'name' in default:
        _check_name(value, _dotted(what, one.name))
        return {**default, **value}
    return value


def _value(hint, one, value, what):
    """The value of a field, as the type of it has it; ValueError says what is wrong."""
    kinds, rules = kinds_of(hint), one.metadata
    if value is REQUIRED:
        raise ValueError(f'The config has no {what}: {rules["doc"]}.')
    if NOTHING in kinds and value in (None, {}):
        return None
    known = [kind for kind in kinds if kind is not NOTHING]
    for kind in known:
        if _fits(kind, value):
            return _made(kind, value, what, rules)
    words = ' or '.join(_words(kind, rules) for kind in known)
    raise ValueError(f'{what}={value!r} must be {words}.')


def _fits(kind, value):
    """Is a value of the shape of a type? Ranges and what is within come later."""
    if dataclasses.is_dataclass(kind) or kind is dict:
        return ranges.is_section(value)
    if kind is tuple or typing.get_origin(kind) is tuple:
        return isinstance(value, list | tuple)
    if kind in (int, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is kind


def _words(kind, rules):
    """What a type is called in messages."""
    if dataclasses.is_dataclass(kind):
        return f'a section, as dict({dataclasses.fields(kind)[0].name}=...)'
    if kind in (int, float):
        bounds = {name: rules[name] for name in rules if name in BOUNDS}
        return ranges.describe(whole=kind is int, **bounds)
    return ranges.WORDS[list if tuple in (kind, typing.get_origin(kind)) else kind]


def _made(kind, value, what, rules):
    """A value that fits its type, checked in itself."""
    if dataclasses.is_dataclass(kind):
        return read(kind, value, what)
    if kind in (int, float):
        bounds = {name: rules[name] for name in rules if name in BOUNDS}
        ranges.number(what, value, whole=kind is int, **bounds)
        value = int(value) if kind is int else value
    if kind is tuple or typing.get_origin(kind) is tuple:
        return _items(kind, value, what, rules)
    if kind is dict:
        _check_name(value, what)
        if 'name' in value and 'folder' in rules:
            resolve.check(rules['folder'], value, rules['given'])
    if kind is str and value not in rules.get('choices', (value,)):
        known = ', '.join(map(repr, rules['choices']))
        raise ValueError(f'{what}={value!r}; there are: {known}.')
    return value


def _check_name(section, what):
    """Raises ValueError for a `name` that is misspelt, in a section or within it: what
    goes without one takes the default one, and would then not take the key."""
    for key, inner in section.items():
        if 'name' not in section and difflib.get_close_matches(key, ['name'], 1, 0.7):
            raise ValueError(f"{what} has no key {key!r}. Did you mean 'name'?")
        for one in inner if isinstance(inner, list | tuple) else [inner]:
            if ranges.is_section(one):
                _check_name(one, f'{what}.{key}')


def _items(kind, value, what, rules):
    """The items of a list, each checked."""
    item = item_of(kind)
    if item is None:
        return tuple(value)
    one = dataclasses.field(metadata=rules)
    return tuple(
        _value(item, one, inner, f'{what}[{index}]') for index, inner in enumerate(value)
    )


def _plain(value):
    if dataclasses.is_dataclass(value):
        return as_dict(value)
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return value
