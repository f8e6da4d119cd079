"""Validation of configs against dataclasses: keys, types and ranges at every level.

A section is a frozen dataclass, declared next to the code that uses it. A config is a
dataclass of sections. This module knows none of them; callers pass the root.

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Data:
        folder: str = field('', 'folder of the rows')
        row_length: int = field(doc='tokens per row', minimum=1)

    read(Config, {'data': {'row_length': 64}}).data.folder

A field is a number, string, bool, list (`tuple`, `tuple[int, ...]`), dataclass, list of
dataclasses (`tuple[Phase, ...]`), or `dict` for a section whose `name` stands for a file
and which is checked against that file's `make`; or a union of these. Fields whose value
and default are None are left out of a resolved config.
"""

import copy
import dataclasses
import difflib
import functools
import json
import types
import typing

from jepa_text.settings import ranges, resolve

REQUIRED = dataclasses.MISSING


def field(default=REQUIRED, doc='', **rules):
    """Returns a field of a section; one without a default is required.

    doc        its line in --help
    rules      the bounds of `ranges.number`; `choices`, the allowed values; `folder`, the
               folder of the names of its sections, and `given`, the keywords that the
               program passes to their `make`
    """
    metadata = {'doc': doc, **rules}
    if isinstance(default, dict | list):
        make = lambda: copy.deepcopy(default)  # noqa: E731
        return dataclasses.field(default_factory=make, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def plain(config):
    """Converts a config, such as a ConfigDict, to plain dicts, lists and numbers.

    Raises ValueError if it is not a config or cannot be written as JSON.
    """
    if not ranges.is_section(config):
        raise ValueError(
            f'The config={config!r} must be a ConfigDict or a dict. That of a name, as '
            "'toy:mlm', is jt.config('toy:mlm')."
        )
    try:
        return json.loads(json.dumps(_as_json(config)))
    except (TypeError, RecursionError) as error:
        # A key that is no string, or a dict or list that contains itself.
        raise ValueError(f'The config cannot be written as JSON: {error}.') from error


def _as_json(value, at=''):
    """Converts sections to dicts. Raises ValueError for what JSON does not support."""
    if ranges.is_section(value):
        return {key: _as_json(item, dotted(at, key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item, dotted(at, index)) for index, item in enumerate(value)]
    if value is not None and not isinstance(value, bool | int | float | str):
        raise ValueError(
            f'The config contains a value that JSON does not support ({at}={value!r}): '
            'use numbers, strings, booleans, None, lists and dicts.'
        )
    return value


def read(root, config, what=''):
    """Returns an instance of the dataclass `root`, with defaults for missing keys.

    `what` names the section in errors: 'data', or '' for the whole config. A section
    without `name`, whose default has one, is merged into the default. Raises ValueError
    for an unknown key, with the closest one; for a missing required key; for a value of
    wrong type or out of range; and as `root` itself does.
    """
    ranges.section(what or 'The config', config)
    fields = {field.name: field for field in dataclasses.fields(root)}
    for key in config:
        if key not in fields:
            known = resolve.nearest(str(key), fields)
            if meant := ' or '.join(dotted(what, x) for x in _meant(root, str(key))):
                known += f' It may be {meant}.'
            raise ValueError(f'{what or "The config"} has no key {key!r}.{known}')
    hints = hints_of(root)
    values = {}
    for name, field in fields.items():
        value = _with_default(field, config, what)
        values[name] = _checked(hints[name], field, value, dotted(what, name))
    return root(**values)


def _meant(root, key):
    """Yields the keys of a dataclass that a key which it lacks may be: that of a section,
    such as data.batch_size, or one whose documentation has its words."""
    words = key.replace('_', ' ')
    for field in dataclasses.fields(root):
        kinds = kinds_of(hints_of(root)[field.name])
        if any(dataclasses.is_dataclass(x) and key in hints_of(x) for x in kinds):
            yield f'{field.name}.{key}'
        elif ' ' in words and words in field.metadata.get('doc', ''):
            yield field.name


@functools.cache
def hints_of(root):
    """Returns {field: type} of a dataclass."""
    return typing.get_type_hints(root)


def resolved(root, config, what=''):
    """Returns the config as plain dicts with all defaults, checked as in `read`."""
    return as_dict(read(root, config, what))


def as_dict(instance):
    """Converts an instance to a plain dict, without fields that are None by default."""
    fields = dataclasses.fields(instance)
    pairs = ((field, getattr(instance, field.name)) for field in fields)
    return {
        field.name: _plain(value)
        for field, value in pairs
        if value is not None or field.default is not None
    }


def default_of(field):
    """Returns the default of a field as plain values, or REQUIRED if it has none."""
    if field.default_factory is not REQUIRED:
        return field.default_factory()
    return field.default


def kinds_of(hint):
    """Returns the types of a union, or the type itself in a tuple."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def item_of(kind):
    """Returns the item type of a `tuple[X, ...]`; None for any other type."""
    arguments = typing.get_args(kind)
    is_list = typing.get_origin(kind) is tuple and arguments[1:] == (...,)
    return arguments[0] if is_list else None


def dotted(what, name):
    """Returns the path of a key in a section; that of the whole config is ''."""
    return f'{what}.{name}' if what else name


def _with_default(field, config, what):
    """Returns the value of a field, merged into or replaced by its default if needed."""
    default = default_of(field)
    if field.name not in config:
        return default
    value = config[field.name]
    is_unnamed = ranges.is_section(value) and 'name' not in value
    if is_unnamed and isinstance(default, dict) and 'name' in default:
        _check_name(value, dotted(what, field.name))
        return merged(default, value)
    return value


def merged(section, changes):
    """Returns a section with changes; a length in steps replaces that as a fraction.

    >>> merged({'name': 'wsd', 'decay_fraction': 0.1}, {'decay_steps': 9})
    {'name': 'wsd', 'decay_steps': 9}
    """
    replaced = {ranges.other_length(key) for key in changes}
    return {k: x for k, x in section.items() if k not in replaced} | dict(changes)


def _checked(hint, field, value, what):
    """Converts a value to the type of its field. Raises ValueError if it is invalid."""
    kinds, rules = kinds_of(hint), field.metadata
    if value is REQUIRED:
        raise ValueError(f'The config has no {what}: {rules["doc"]}.')
    if types.NoneType in kinds and value in (None, {}):
        return None
    known = [kind for kind in kinds if kind is not types.NoneType]
    for kind in known:
        if _fits(kind, value):
            return _converted(kind, value, what, rules)
    words = ' or '.join(_words(kind, rules) for kind in known)
    raise ValueError(f'{what}={value!r} must be {words}.')


def is_list(kind):
    """Returns whether a type is `tuple` or a `tuple[X, ...]`."""
    return tuple in (kind, typing.get_origin(kind))


def _fits(kind, value):
    """Returns whether a value may have a type; ranges and contents are checked later."""
    if dataclasses.is_dataclass(kind) or kind is dict:
        return ranges.is_section(value)
    if is_list(kind):
        return isinstance(value, list | tuple)
    if kind in (int, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is kind


def _bounds(rules):
    return {name: rules[name] for name in rules if name in (*ranges.HOLDS, 'finite')}


def _words(kind, rules):
    """Returns the description of a type in error messages."""
    if dataclasses.is_dataclass(kind):
        return f'a section, as dict({dataclasses.fields(kind)[0].name}=...)'
    if kind in (int, float):
        return ranges.describe(kind is int, **_bounds(rules))
    return ranges.WORDS[list if is_list(kind) else kind]


def _converted(kind, value, what, rules):
    """Checks the range and contents of a value that fits its type, and converts it."""
    if dataclasses.is_dataclass(kind):
        return read(kind, value, what)
    if kind in (int, float):
        ranges.number(what, value, whole=kind is int, **_bounds(rules))
        value = int(value) if kind is int else value
    if is_list(kind):
        return _items(kind, value, what, rules)
    if kind is dict:
        if 'name' in value and 'folder' in rules:
            resolve.check(rules['folder'], value, rules['given'])
        _check_name(value, what)
    if kind is str and 'choices' in rules:
        resolve.check_choice(what, value, rules['choices'])
    return value


def _check_name(section, what):
    """Raises ValueError for a misspelled `name` in a section or within it.

    Otherwise the section would get the default name, and the error would be that this one
    does not take the misspelled key.
    """
    if '.' in str(section.get('name')):  # a module of the user, with options of its own
        return
    for key, inner in section.items():
        if 'name' not in section and difflib.get_close_matches(key, ['name'], 1, 0.7):
            raise ValueError(f"{what} has no key {key!r}. Did you mean 'name'?")
        for item in inner if isinstance(inner, list | tuple) else [inner]:
            if ranges.is_section(item):
                _check_name(item, f'{what}.{key}')


def _items(kind, value, what, rules):
    """Returns the items of a list, each checked."""
    item = item_of(kind)
    if item is None:
        return tuple(value)
    field = dataclasses.field(metadata=rules)
    return tuple(
        _checked(item, field, inner, f'{what}[{index}]')
        for index, inner in enumerate(value)
    )


def _plain(value):
    if dataclasses.is_dataclass(value):
        return as_dict(value)
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return value
