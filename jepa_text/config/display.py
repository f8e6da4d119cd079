"""Config text: keys and defaults for --help, values and origins for --print-config."""

import dataclasses

from jepa_text.config import resolve, schema

DEFAULT, FILE, COMMAND_LINE, INIT_FROM = 'default', 'file', 'command line', 'init_from'
MISSING, NONE = object(), '(none)'


def fields(root, prefix=''):
    """Yields (key, default as text, documentation) of every key of a dataclass tree."""
    hints = schema.hints_of(root)
    for field in dataclasses.fields(root):
        key = f'{prefix}{field.name}'
        section, is_list = _section_of(hints[field.name])
        default = schema.default_of(field)
        if section:
            is_empty = is_list and default is not None and default is not schema.REQUIRED
            text = repr(default) if is_empty else NONE if default is None else ''
            yield key, text, field.metadata['doc']
            yield from fields(section, f'{key}[0].' if is_list else f'{key}.')
        elif default is schema.REQUIRED:
            yield key, '(required)', _doc(field)
        else:
            yield key, repr(default), _doc(field)


def _doc(field):
    """Returns the documentation of a field, with the available names if it has a name."""
    doc, folder = field.metadata['doc'], field.metadata.get('folder')
    return f'{doc}: {", ".join(resolve.names(folder))}' if folder else doc


def _section_of(hint):
    """Returns (dataclass in a type or None, whether it is a list of them)."""
    for kind in schema.kinds_of(hint):
        for section, is_list in ((kind, False), (schema.item_of(kind), True)):
            if section and dataclasses.is_dataclass(section):
                return section, is_list
    return None, False


def help_lines(root):
    """Returns the lines of --help: each key with its default and documentation."""
    return two_columns(
        [
            (f'{key} = {default}' if default else key, doc)
            for key, default, doc in fields(root)
        ]
    )


def two_columns(pairs, width=44):
    """Returns lines of two columns. A long first column gets a line of its own."""
    lines = []
    for first, second in pairs:
        if len(first) > width:
            lines.append(f'  {first}')
            first = ''
        lines.append(f'  {first:<{width}}  {second}'.rstrip())
    return lines


def lines(resolved, file, config, before=None):
    """Returns the lines of --print-config: each value and its origin.

    resolved    instance of the root dataclass with all values
    file        config of the config file alone
    config      the same with the settings of the command line
    before      `resolved` before values of init_from were filled in
    """
    file, config = flat(file), flat(config)
    before = flat(schema.as_dict(before or resolved))
    pairs = []
    for path, value, is_implied in _values('', resolved, {}):
        if not is_implied and before.get(path, MISSING) != value:
            origin = INIT_FROM
        elif path in config and (path not in file or config[path] != file[path]):
            origin = COMMAND_LINE
        else:
            origin = FILE if path in file and not is_implied else DEFAULT
        pairs.append((f'{path} = {value!r}', origin))
    return two_columns(pairs)


def flat(value):
    """Returns {path: value} of nested dicts and lists, as {'runs[0].name': 'mlm'}."""
    return {path: leaf for path, leaf, _ in _values('', value, {})}


def _values(path, value, rules):
    """Yields (path, value, whether it is a default of the section's `make` function)."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            if inner is not None:
                yield from _values(schema.dotted(path, field.name), inner, field.metadata)
    elif isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _values(schema.dotted(path, key), inner, {})
        if 'name' in value and 'folder' in rules:
            defaults = resolve.defaults(rules['folder'], value['name'], rules['given'])
            for key in [key for key in defaults if key not in value]:
                yield schema.dotted(path, key), defaults[key], True
    elif isinstance(value, tuple | list) and any(map(_is_section, value)):
        for index, inner in enumerate(value):
            yield from _values(f'{path}[{index}]', inner, rules)
    else:
        yield path, list(value) if isinstance(value, tuple) else value, False


def _is_section(value):
    return dataclasses.is_dataclass(value) or isinstance(value, dict)
