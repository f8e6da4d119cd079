"""Configs as text: keys for --help, values for --print-config, and files for `init`."""

import dataclasses
import math
import pprint
import re
import textwrap
from pathlib import Path

from jepa_text.files import paths
from jepa_text.settings import resolve, schema

MISSING = object()
NEW_FILE = '''"""A config to edit, from {place}.

    jepa-text {command} {path} --workdir=runs/{name}

`jepa-text {command} --help` documents all keys with their defaults; add --print-config to
the command to see the resolved config.
"""

from ml_collections import ConfigDict


def get_config():
    """Returns the config; missing keys have their default values."""
    config = ConfigDict()
{body}
    return config
'''


def fields(root, prefix=''):
    """Yields (key, default as text, documentation) of every key of a dataclass tree."""
    hints = schema.hints_of(root)
    for field in dataclasses.fields(root):
        key = f'{prefix}{field.name}'
        section, is_list = _section_of(hints[field.name])
        default, doc = schema.default_of(field), field.metadata['doc']
        if section:
            is_empty = is_list and default is not None and default is not schema.REQUIRED
            text = repr(default) if is_empty else '(none)' if default is None else ''
            yield key, text, doc
            yield from fields(section, f'{key}[0].' if is_list else f'{key}.')
            continue
        if folder := field.metadata.get('folder'):
            doc = f'{doc}: {", ".join(resolve.names(folder))}'
        yield key, '(required)' if default is schema.REQUIRED else repr(default), doc


def _section_of(hint):
    """Returns (dataclass in a type or None, whether it is a list of them)."""
    for kind in schema.kinds_of(hint):
        for section, is_list in ((kind, False), (schema.item_of(kind), True)):
            if section and dataclasses.is_dataclass(section):
                return section, is_list
    return None, False


def two_columns(pairs, width=44):
    """Returns lines of two columns. A long first column gets a line of its own."""
    lines = []
    for first, second in pairs:
        if len(first) > width:
            lines.append(f'  {first}')
            first = ''
        lines.append(f'  {first:<{width}}  {second}'.rstrip())
    return lines


def fit(text, columns):
    """Returns a text whose long lines go on below the last of their columns."""
    lines = []
    for line in text.splitlines():
        indent = re.match(r' *(\S.*?  +)?', line).end() if len(line) > columns else 0
        wrapped = textwrap.wrap(
            line, columns, subsequent_indent=' ' * indent, break_long_words=False
        )
        lines += wrapped or ['']
    return '\n'.join(lines)


def origin_lines(resolved, origins, defaults_of):
    """Returns the lines of --print-config: each value and its origin.

    `resolved` is an instance of the root dataclass. `origins` is {origin: config}: a
    value is of the first config that has it. defaults_of(path, section) are the defaults
    of the keys that a section may have besides.
    """
    configs = []
    for origin, given in origins.items():
        defaults = defaults_of if dataclasses.is_dataclass(given) else lambda *_: {}
        configs.append((origin, dict(_values('', given, defaults))))
    pairs = []
    for path, value in _values('', resolved, defaults_of):
        given = (origin for origin, x in configs if x.get(path, MISSING) == value)
        pairs.append((f'{path} = {value!r}', next(given, '')))
    return two_columns(pairs)


def _values(path, value, defaults_of):
    """Yields (path, value) of a config, as ('runs[0].name', 'mlm')."""
    inner = None
    if dataclasses.is_dataclass(value):
        inner = {key: x for key, x in vars(value).items() if x is not None}
    elif isinstance(value, dict):
        inner = value | {
            k: x for k, x in defaults_of(path, value).items() if k not in value
        }
    if inner:
        for key, item in inner.items():
            yield from _values(schema.dotted(path, key), item, defaults_of)
    elif isinstance(value, tuple | list) and any(map(_is_section, value)):
        for index, item in enumerate(value):
            yield from _values(f'{path}[{index}]', item, defaults_of)
    else:
        yield path, list(value) if isinstance(value, tuple) else value


def _is_section(value):
    return dataclasses.is_dataclass(value) or isinstance(value, dict)


def write_file(place, command, config, path, root):
    """Writes a new config file, with the documentation in `root` of each of its keys.

    It is made of the config at `place`, as plain dicts, so that users of an installed
    package, who have no clone, get a file to edit. Raises ValueError for a path that is
    no .py file and for a key that `root` lacks, and an OSError if the file cannot be
    created.
    """
    if not path.endswith('.py'):
        raise ValueError(f'{path!r} must end in .py, as in my.py: it is a config file.')
    paths.local('The config file', path)
    values = dict(place=place, command=command, path=path, name=Path(path).stem)
    body = '\n'.join(_assignments(place, root, config))
    with open(path, 'x', encoding='utf-8') as file:
        file.write(NEW_FILE.format(**values, body=body))


def _assignments(place, root, config):
    """Yields the lines of the keys of a config, each with its documentation."""
    docs = {key: doc for key, _, doc in fields(root)}
    for key, given in config.items():
        resolve.check_choice(f'{place}: key', key, docs)
        start = f'    config.{key} = '
        value = _Printer(width=88 - len(start), sort_dicts=False).pformat(given)
        value = value.replace('\n', '\n' + ' ' * len(start))
        yield f'\n    # {docs[key]}\n{start}{value}'


class _Printer(pprint.PrettyPrinter):
    """Prints values as expressions of Python, also numbers that are not finite."""

    def format(self, value, *given):
        if isinstance(value, float) and not math.isfinite(value):
            return f"float('{value}')", True, False
        return super().format(value, *given)
