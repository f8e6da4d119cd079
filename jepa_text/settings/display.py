"""Configs as text: keys for --help, values for --print-config, and files for `init`."""

import dataclasses
import pprint

from jepa_text.files import paths
from jepa_text.settings import config_file, resolve, schema

MISSING, NONE = object(), '(none)'
TOY, PAPERS = 'toy', 'pretrain'
# In addition to configs/presets.py; {preset: (command, config file, its argument)}.
OTHERS = {
    'toy': ('train', 'toy', 'clm_mlm'),
    'hybrid': ('train', 'toy', 'clm_jepa_mlm'),
    'adapt': ('train', 'cpt', 'hf:NAME_OR_FOLDER,2k,mlm'),
    'tokenizer': ('tokenizer', 'tokenizer', None),
    'study': ('study', 'quickstart', None),
    'analyze': ('analyze', 'analyze', 'models=runs/first'),
    'evaluate': ('evaluate', 'evaluate', 'models=runs/first,tasks=mine.jsonl'),
    'finetune': ('finetune', 'finetune', 'model=runs/first,task=mine.jsonl'),
    'benchmark': ('benchmark', 'benchmark', 'objectives'),
}
NEW_FILE = '''"""{preset}: a config to edit.

    jepa-text {command} --config={path} --workdir=runs/{name}

Lines that are commented out show the defaults. `jepa-text {command} --help` documents all
keys; add --print-config to the command to see the resolved config.
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
            text = repr(default) if is_empty else NONE if default is None else ''
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


def origin_lines(resolved, origins):
    """Returns the lines of --print-config: each value and its origin.

    `resolved` is an instance of the root dataclass. `origins` is {origin: config}: a
    value is of the first config that has it.
    """
    configs = [(origin, dict(_values('', origins[origin], {}))) for origin in origins]
    pairs = []
    for path, value in _values('', resolved, {}):
        given = (origin for origin, x in configs if x.get(path, MISSING) == value)
        pairs.append((f'{path} = {value!r}', next(given, '')))
    return two_columns(pairs)


def _values(path, value, rules):
    """Yields (path, value) of a config, as ('runs[0].name', 'mlm').

    In an instance of a dataclass, sections of the fields with these rules also have the
    defaults of their `make` function.
    """
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            if inner is not None:
                yield from _values(schema.dotted(path, field.name), inner, field.metadata)
    elif isinstance(value, dict) and value:
        defaults = {}
        if 'name' in value and 'folder' in rules:
            defaults = resolve.defaults(rules['folder'], value['name'], rules['given'])
        added = {key: x for key, x in defaults.items() if key not in value}
        for key, inner in (value | added).items():
            yield from _values(schema.dotted(path, key), inner, {})
    elif isinstance(value, tuple | list) and any(map(_is_section, value)):
        for index, inner in enumerate(value):
            yield from _values(f'{path}[{index}]', inner, rules)
    else:
        yield path, list(value) if isinstance(value, tuple) else value


def _is_section(value):
    return dataclasses.is_dataclass(value) or isinstance(value, dict)


def preset_of(preset):
    """Returns (command, shipped config file, argument) of a preset such as 'mlm,210m'.

    Raises ValueError for an unknown preset, and for a size of one that has none.
    """
    name, _, size = preset.partition(',')
    presets = config_file.shared('toy').PRESETS
    if name not in (*presets, *OTHERS):
        near = resolve.nearest(name, [*OTHERS, *presets])
        raise ValueError(f'There is no preset {name!r}.{near}')
    command, file, argument = OTHERS.get(name, ('train', TOY, name))
    if size in ('', TOY):
        return command, file, argument
    if file != TOY:
        raise ValueError(f'--preset={preset}: {name} has no sizes, only --preset={name}.')
    return command, PAPERS, f'{argument},{size}'


def write_preset(preset, path, root):
    """Writes a new config file, with the documentation of each key of `root`.

    It is made of a shipped config, so that users of an installed package, who have no
    clone, get a file to edit. Keys that have their default values are comments. Raises
    ValueError for an unknown preset, and an OSError if the file cannot be created.
    """
    if not path.endswith('.py'):
        raise ValueError(f'{path!r} must end in .py, as in my.py: it is a config file.')
    paths.local('The config file', path)
    command, shipped, argument = preset_of(preset)
    config = config_file.shared(shipped).get_config(*([argument] if argument else []))
    body = '\n'.join(_assignments(root, schema.plain(config)))
    name = preset.split(',')[0]
    with open(path, 'x', encoding='utf-8') as file:
        values = dict(preset=preset, command=command, path=path, name=name, body=body)
        file.write(NEW_FILE.format(**values))


def _assignments(root, config):
    """Yields the lines of all keys, each with its documentation."""
    absent = ()
    for key, default, doc in fields(root):
        if '[' in key or key.startswith(absent):
            continue
        section, _, name = key.rpartition('.')
        if key in config:
            start = f'    config.{key} = '
            value = pprint.pformat(config[key], width=88 - len(start), sort_dicts=False)
            yield f'\n    # {doc}\n{start}' + value.replace('\n', '\n' + ' ' * len(start))
        elif default == NONE:
            absent = (*absent, f'{key}.')
            yield f'    # config.{key} = None  # {doc}'
        elif not default:  # a section
            yield f'\n    # {doc}\n    config.{key} = {{}}'
        elif name not in config.get(section, {}):
            yield f'    # config.{key} = {default}  # {doc}'
