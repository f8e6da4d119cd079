"""Settings of a command line: `--config.data.row_length=64` into the config of a file.

--config.steps=200                     a value, as the schema has its type
--config.runs[0].name=short            of a list
--config.optimizer.weight_decay=0.05   a section that the file has not: its defaults
--config.data='{"threads": 2}'         several keys; the others stay
--config.model.scan, --noconfig.model.scan    True, False
"""

import ast
import dataclasses
import json
import re
import typing

from jepa_text.config import ranges, renamed, resolve, schema

FLAG = re.compile(r'--?(no)?config\.([^=]+)(?:=(.*))?', re.DOTALL)
TRUE, FALSE = ('true', 't', '1'), ('false', 'f', '0')
NONE = ('none', 'null')


def split(argv):
    """(words that are no settings, [(path, text)]) of a command line."""
    rest, found, words = [], [], list(argv)
    while words:
        word = words.pop(0)
        match = FLAG.fullmatch(word)
        if match is None:
            rest.append(word)
            continue
        is_no, path, text = match.groups()
        if text is None and not is_no and words and not words[0].startswith('--'):
            text = words.pop(0)
        elif text is None:
            text = 'false' if is_no else 'true'
        found.append((path, text))
    return rest, found


def apply(root, config, settings):
    """The config, plain dicts, with settings: (path, text), each as `put`."""
    for path, text in settings:
        renamed.check_setting(path, text)
        config = put(root, config, path, text)
    return config


def put(root, config, path, text):
    """The config with the value of a text at a path such as 'runs[0].phases[1].steps'.

    A section that is not there is made; a dict is added to the section that is there,
    unless it names another file. Raises ValueError for a path that `root` does not have,
    with the nearest one, and for a text that is no value of the type there.
    """
    keys = [int(n) if n else key for key, n in re.findall(r'([^.\[\]]+)|\[(\d+)\]', path)]
    return _put(root, config, keys, text, path)


def _put(kind, at, keys, text, path):
    """`at`, of a type or None for any, with the value of the text at the end of keys."""
    what = f'--config.{path}'
    if not keys:
        return _parsed(kind, at, text, what)
    key, *rest = keys
    kind, inner = _inner(kind, key, what)
    if isinstance(key, int):
        if not isinstance(at, list | tuple) or key >= len(at):
            length = len(at) if isinstance(at, list | tuple) else 'no'
            raise ValueError(f'{what}: there is no [{key}], but {length} items.')
        return [
            _put(inner, item, rest, text, path) if number == key else item
            for number, item in enumerate(at)
        ]
    if at is not None and not ranges.is_section(at):
        raise ValueError(f'{what}: there is no {key!r} in {at!r}.')
    at = dict(at or {})
    return {**at, key: _put(inner, at.get(key), rest, text, path)}


def _inner(kind, key, what):
    """(kind, type of what a key leads to); None for a type that is not known."""
    if kind is None:
        return None, None
    kinds = [one for one in schema.kinds_of(kind) if one is not schema.NOTHING]
    if isinstance(key, int):
        items = [schema.item_of(one) for one in kinds]
        return kind, next(filter(None, items), None)
    for one in kinds:
        if dataclasses.is_dataclass(one):
            hints = typing.get_type_hints(one)
            if key not in hints:
                raise ValueError(
                    f'{what}: there is no key {key!r}.{resolve.nearest(key, hints)}'
                )
            return one, hints[key]
    return kind, None


def _parsed(kind, old, text, what):
    """The value of a text: of its type, or, where that is not known, of the old one's."""
    kinds = _plain_kinds(kind, old)
    if text.lower() in NONE and (schema.NOTHING in kinds or kind is None):
        return None
    for one in kinds:
        try:
            value = _as(one, text)
        except (ValueError, SyntaxError):
            continue
        if isinstance(value, dict) and ranges.is_section(old):
            is_other = value.get('name', old.get('name')) != old.get('name')
            return value if is_other else {**old, **value}
        return value
    words = [ranges.WORDS[one] for one in kinds if one in ranges.WORDS]
    raise ValueError(f'{what}={text!r} must be {" or ".join(dict.fromkeys(words))}.')


def _plain_kinds(kind, old):
    """The types to try, of ranges.WORDS, NoneType and object, for any literal."""
    if kind is None and isinstance(old, bool | int | float | str):
        return {bool: (bool,), int: (int, float), float: (float,), str: (str,)}[type(old)]
    if kind is None:
        return (object,)
    kinds = []
    for one in schema.kinds_of(kind):
        is_list = tuple in (one, typing.get_origin(one))
        one = dict if dataclasses.is_dataclass(one) else one
        kinds.append(list if is_list else one)
    # A text is what nothing else is.
    return sorted(kinds, key=lambda one: one is str)


def _literal(text):
    """A value as Python or JSON writes it."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return json.loads(text)


def _as(kind, text):
    if kind is schema.NOTHING:
        raise ValueError
    if kind is bool:
        if text.lower() not in (*TRUE, *FALSE):
            raise ValueError
        return text.lower() in TRUE
    if kind in (int, float, str):
        return kind(text)
    if text in ('true', 'false'):
        return text == 'true'
    try:
        value = _literal(text)
    except (ValueError, SyntaxError):
        if kind is object:
            return text
        raise
    value = list(value) if isinstance(value, tuple) else value
    if kind is not object and not isinstance(value, kind):
        raise ValueError
    return value
