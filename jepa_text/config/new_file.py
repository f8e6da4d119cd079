"""`jepa-text init my.py --preset=clm_mlm,210m`: writes a config file to start from.

The file is generated from the shipped config files (`config_file.folder`), so that users
of an installed package, who have no clone, get a file to edit. Keys that have their
default values are written as comments.
"""

import os
import pprint

from jepa_text.config import config_file, display, resolve, schema
from jepa_text.files import paths

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
HEAD = '''"""{preset}: a config to edit.

    jepa-text {command} --config={path} --workdir=runs/{name}

Lines that are commented out show the defaults. `jepa-text {command} --help` documents all
keys; add --print-config to the command to see the resolved config.
"""

from ml_collections import ConfigDict


def get_config():
    """Returns the config; missing keys have their default values."""
    config = ConfigDict()
'''


def text(preset, path, root_of):
    """Returns (command, content of the file) of a preset, as 'clm_mlm' or 'clm_mlm,210m'.

    `root_of` maps a command to the dataclass of its config. Raises ValueError for an
    unknown preset or size.
    """
    command, file, argument = _chosen(preset)
    module = config_file.shared(file)
    config = module.get_config(argument) if argument else module.get_config()
    config = schema.plain(config)
    name = preset.split(',')[0]
    head = HEAD.format(preset=preset, command=command, path=path, name=name)
    return command, head + _body(root_of(command), config) + '    return config\n'


def write(path, text):
    """Writes a new file. Raises FileExistsError if it exists."""
    if not path.endswith('.py'):
        raise ValueError(f'{path!r} must end in .py, as in my.py: it is a config file.')
    paths.local('The config file', path)
    try:
        with open(path, 'x', encoding='utf-8') as file:
            file.write(text)
    except FileExistsError as error:
        raise FileExistsError(
            f'{path} already exists and is not overwritten. Give another name, or delete '
            'it first.'
        ) from error
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f'The folder of {path} does not exist: mkdir -p {os.path.dirname(path)}'
        ) from error


def _chosen(preset):
    """Returns (command, config file, argument) of a preset."""
    name, _, size = preset.partition(',')
    presets = config_file.shared('toy').PRESETS
    if name not in (*presets, *OTHERS):
        near = resolve.nearest(name, [*OTHERS, *presets])
        raise ValueError(f'There is no preset {name!r}.{near}')
    has_sizes = name not in OTHERS or name == 'hybrid'
    sizes = (TOY, *config_file.shared(PAPERS).SIZES) if has_sizes else ()
    if size and size not in sizes:
        known = f'it has: {", ".join(sizes)}' if sizes else 'it has no sizes'
        raise ValueError(f'--preset={preset}: {name} has no size {size!r}; {known}.')
    command, file, argument = OTHERS.get(name, ('train', 'toy', name))
    if size in ('', TOY):
        return command, file, argument
    return command, PAPERS, f'{argument},{size}'


def _body(root, config):
    """Returns the lines of all keys, each with its documentation."""
    lines, absent = [], ()
    for key, default, doc in display.fields(root):
        if '[' in key or key.startswith(absent):
            continue
        if default == display.NONE and key not in config:
            absent = (*absent, f'{key}.')
            lines += [f'    # config.{key} = None  # {doc}']
            continue
        section, _, name = key.rpartition('.')
        if key in config:
            lines += ['', f'    # {doc}', *_assignment(key, config[key])]
        elif not default:  # a section
            lines += ['', f'    # {doc}', f'    config.{key} = {{}}']
        elif name not in config.get(section, {}):
            lines.append(f'    # config.{key} = {default}  # {doc}')
    return '\n'.join(lines) + '\n'


def _assignment(key, value):
    """Returns the lines of Python that set a key of the config."""
    text = pprint.pformat(value, width=84 - len(key), sort_dicts=False)
    first, *rest = text.splitlines()
    indent = ' ' * len(f'    config.{key} = ')
    return [f'    config.{key} = {first}', *(f'{indent}{line}' for line in rest)]
