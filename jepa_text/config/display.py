"""A config in lines: what a section may hold, for --help, and what a run has, with where
each value came from, for --print-config."""

import dataclasses
import typing

from jepa_text.config import resolve, schema

DEFAULT, FILE, COMMAND_LINE, INIT_FROM = 'default', 'file', 'command line', 'init_from'
MISSING, NONE = object(), '(none)'


def fields(root, prefix=''):
    """(key, its default as text, what it is) of every key of a tree of dataclasses."""
    hints = typing.get_type_hints(root)
    for one in dataclasses.fields(root):
        key = f'{prefix}{one.name}'
        inner, many = _section_of(hints[one.name])
        default = schema.default_of(one)
        is_left_out = default is None
        if inner:
            is_empty = many and not is_left_out and default is not schema.REQUIRED
            text = repr(default) if is_empty else NONE if is_left_out else ''
            yield key, text, one.metadata['doc']
            yield from fields(inner, f'{key}[0].' if many else f'{key}.')
        elif default is schema.REQUIRED:
            yield key, '(needed)', _doc(one)
        else:
            yield key, repr(default), _doc(one)


def _doc(one):
    """What a field is; of a section that names a file, which there are."""
    doc, folder = one.metadata['doc'], one.metadata.get('folder')
    return f'{doc}: {", ".join(resolve.names(folder))}' if folder else doc


def _section_of(hint):
    """(dataclass that a type holds or None, are there many of them?)."""
    for kind in schema.kinds_of(hint):
        item = schema.item_of(kind)
        for one, many in ((kind, False), (item, True)):
            if one and dataclasses.is_dataclass(one):
                return one, many
    return None, False


def help_lines(root):
    """Lines of --help: each key with its default and what it is."""
    found = list(fields(root))
    return aligned(
        [(f'{key} = {default}' if default else key, doc) for key, default, doc in found]
    )


def aligned(pairs, width=44):
    """Two columns; the second begins anew on a line of its own after a long first."""
    lines = []
    for first, second in pairs:
        if len(first) > width:
            lines.append(f'  {first}')
            first = ''
        lines.append(f'  {first:<{width}}  {second}'.rstrip())
    return lines


def lines(made, file, given, before=None):
    """Lines of --print-config: each value of `made`, an instance of a root dataclass, and
    where it is from: the default, the `file`, the command line, whose settings `given`
    has besides, or, where it differs from `before`, what the run starts from."""
    file, given = flat(file), flat(given)
    before = flat(schema.as_dict(before or made))
    pairs = []
    for path, value, is_implied in _values('', made, {}):
        if not is_implied and before.get(path, MISSING) != value:
            origin = INIT_FROM
        elif path in given and (path not in file or given[path] != file[path]):
            origin = COMMAND_LINE
        else:
            origin = FILE if path in file and not is_implied else DEFAULT
        pairs.append((f'{path} = {value!r}', origin))
    return aligned(pairs)


def flat(value, path=''):
    """{path: value} of plain dicts and lists of them: {'runs[0].name': 'mlm'}."""
    return {found: leaf for found, leaf, _ in _values(path, value, {})}


def _values(path, value, rules):
    """(path, value, is it a default of the `make` that the section names?)."""
    if dataclasses.is_dataclass(value):
        for one in dataclasses.fields(value):
            inner = getattr(value, one.name)
            if inner is not None:
                yield from _values(_dotted(path, one.name), inner, one.metadata)
    elif isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _values(_dotted(path, key), inner, {})
        if 'name' in value and 'folder' in rules:
            known = resolve.defaults(rules['folder'], value['name'], rules['given'])
            for key in [key for key in known if key not in value]:
                yield _dotted(path, key), known[key], True
    elif isinstance(value, tuple | list) and any(map(_is_section, value)):
        for index, inner in enumerate(value):
            yield from _values(f'{path}[{index}]', inner, rules)
    else:
        yield path, list(value) if isinstance(value, tuple) else value, False


def _dotted(path, key):
    return f'{path}.{key}' if path else key


def _is_section(value):
    return dataclasses.is_dataclass(value) or isinstance(value, dict)
