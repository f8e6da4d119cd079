"""Settings of config keys on the command line, such as `--config.data.row_length=64`.

--config.steps=200                     a value, converted to the type in the schema
--config.runs[0].name=short            an item of a list
--config.optimizer.weight_decay=0.05   creates a section that the file does not have
--config.data='{"threads": 2}'         sets several keys; the others are kept
--config.model.scan, --noconfig.model.scan    True, False
"""

import ast
import dataclasses
import json
import re
import types

from jepa_text.config import ranges, renamed, resolve, schema

FLAG = re.compile(r'--?(no)?config\.([^=]+)(?:=(.*))?', re.DOTALL)
TRUE, FALSE = ('true', 't', '1'), ('false', 'f', '0')
NONE = ('none', 'null')


def split(argv):
    """Returns (words that are not settings, [(path, text)] of the settings)."""
    rest, settings, words = [], [], list(argv)
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
        settings.append((path, text))
    return rest, settings


def apply(root, config, settings):
    """Returns the config, as plain dicts, with all settings [(path, text)] applied."""
    for path, text in settings:
        names = [name for name in re.split(r'[.\[\]]+', path) if not name.isdigit()]
        for count in range(len(names) + 1):
            renamed.check(text, 'The command line', ('', *names[:count]))
        config = set_value(root, config, path, text)
    return config


def set_value(root, config, path, text):
    """Returns the config with a value set at a path such as 'runs[0].phases[1].steps'.

    The text is converted to the type that `root` has there. Missing sections are created.
    A dict is merged into an existing section unless it has another `name`. Raises
    ValueError for a path that `root` does not have, with the closest one, and for a text
    that can't be converted.
    """
    keys = [int(n) if n else key for key, n in re.findall(r'([^.\[\]]+)|\[(\d+)\]', path)]
    return _set(root, config, keys, text, path)


def _set(kind, at, keys, text, path):
    """Returns `at`, of type `kind` or None if unknown, with the value set below it."""
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
            _set(inner, item, rest, text, path) if number == key else item
            for number, item in enumerate(at)
        ]
    if at is not None and not ranges.is_section(at):
        raise ValueError(f'{what}: there is no {key!r} in {at!r}.')
    at = dict(at or {})
    return {**at, key: _set(inner, at.get(key), rest, text, path)}


def _inner(kind, key, what):
    """Returns (type, type of its key or item); None for unknown types."""
    if kind is None:
        return None, None
    kinds = [option for option in schema.kinds_of(kind) if option is not types.NoneType]
    if isinstance(key, int):
        items = [schema.item_of(option) for option in kinds]
        return kind, next(filter(None, items), None)
    for option in kinds:
        if dataclasses.is_dataclass(option):
            hints = schema.hints_of(option)
            if key not in hints:
                raise ValueError(
                    f'{what}: there is no key {key!r}.{resolve.nearest(key, hints)}'
                )
            return option, hints[key]
    return kind, None


def _parsed(kind, old, text, what):
    """Converts a text to a type or, if that is unknown, to the type of the old value."""
    kinds = _plain_kinds(kind, old)
    if text.lower() in NONE and (types.NoneType in kinds or kind is None):
        return None
    for option in kinds:
        try:
            value = _converted(option, text)
        except (ValueError, SyntaxError):
            continue
        if isinstance(value, dict) and ranges.is_section(old):
            is_other = value.get('name', old.get('name')) != old.get('name')
            return value if is_other else {**old, **value}
        return value
    words = [ranges.WORDS[option] for option in kinds if option in ranges.WORDS]
    raise ValueError(f'{what}={text!r} must be {" or ".join(dict.fromkeys(words))}.')


def _plain_kinds(kind, old):
    """Returns the types to try: of ranges.WORDS, NoneType, or object for any literal."""
    if kind is None and isinstance(old, bool | int | float | str):
        return {bool: (bool,), int: (int, float), float: (float,), str: (str,)}[type(old)]
    if kind is None:
        return (object,)
    kinds = []
    for option in schema.kinds_of(kind):
        if dataclasses.is_dataclass(option):
            option = dict
        kinds.append(list if schema.is_list(option) else option)
    # Any text is a valid string, so strings are tried last.
    return sorted(kinds, key=lambda option: option is str)


def _literal(text):
    """Parses a Python or JSON literal."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return json.loads(text)


def _converted(kind, text):
    if kind is types.NoneType:
        raise ValueError
    if kind is bool:
        if text.lower() not in (*TRUE, *FALSE):
            raise ValueError
        return text.lower() in TRUE
    if kind in (int, float, str):
        return kind(text)
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
