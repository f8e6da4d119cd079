"""`jepa-text init my.py --preset=clm_mlm,210m`: a config file to start from.

It is written from the files that are shipped (`config_file.folder`), so that an installed
package, which has no clone beside it, has something to edit. What is not said is as by
default, and stands there as a comment.
"""

import os
import pprint

from jepa_text.config import config_file, display, resolve, schema
from jepa_text.files import paths

TOY, PAPERS = 'toy', 'pretrain'
# Names beside the presets of configs/presets.py: (command, file, its argument).
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
HEAD = '''"""{what}: to be edited.

    jepa-text {command} --config={path} --workdir=runs/{name}

What stands behind # is as by default. `jepa-text {command} --help` says what there is,
and --print-config what it makes of this.
"""

from ml_collections import ConfigDict


def get_config():
    """The config; what is left out is as by default."""
    config = ConfigDict()
'''


def text(preset, path, root_of):
    """(command, text of the file) of a preset, as 'clm_mlm' or 'clm_mlm,210m'.

    `root_of` is the function from a command to the dataclass of its config. Raises
    ValueError for a preset or a size that there is not.
    """
    command, file, argument = _chosen(preset)
    module = config_file.shared(file)
    config = module.get_config(argument) if argument else module.get_config()
    config = schema.plain(config)
    name = preset.split(',')[0]
    head = HEAD.format(what=preset, command=command, path=path, name=name)
    return command, head + _body(root_of(command), config) + '    return config\n'


def write(path, text):
    """A new file; FileExistsError for one that is there."""
    if not path.endswith('.py'):
        raise ValueError(f'{path!r} is to be a config file: give it a name as my.py.')
    paths.local('The config file', path)
    try:
        with open(path, 'x', encoding='utf-8') as file:
            file.write(text)
    except FileExistsError as error:
        raise FileExistsError(
            f'{path} is there already, and stays as it is. Give another name, or '
            'remove it.'
        ) from error
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f'The folder of {path} does not exist: mkdir -p {os.path.dirname(path)}'
        ) from error


def _chosen(preset):
    """(command, file, argument) of a preset."""
    name, _, size = preset.partition(',')
    presets = config_file.shared('toy').PRESETS
    sizes = (TOY, *config_file.shared(PAPERS).SIZES)
    if name not in (*presets, *OTHERS):
        near = resolve.nearest(name, [*OTHERS, *presets])
        raise ValueError(f'There is no preset {name!r}.{near}')
    if size and (size not in sizes or (name in OTHERS and name != 'hybrid')):
        sizes = sizes if name not in OTHERS or name == 'hybrid' else ()
        known = ', '.join(sizes) or f'none of {name}'
        raise ValueError(f'--preset={preset}: there is no size {size!r}, but {known}.')
    command, file, argument = OTHERS.get(name, ('train', 'toy', name))
    if size in ('', TOY):
        return command, file, argument
    return command, PAPERS, f'{argument},{size}'


def _body(root, config):
    """The lines of the keys: each with what it is."""
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
            lines += ['', f'    # {doc}', *_assigned(key, config[key])]
        elif not default:  # a section
            lines += ['', f'    # {doc}', f'    config.{key} = {{}}']
        elif name not in config.get(section, {}):
            lines.append(f'    # config.{key} = {default}  # {doc}')
    return '\n'.join(lines) + '\n'


def _assigned(key, value):
    """Lines of Python that set a key of the config."""
    made = pprint.pformat(value, width=84 - len(key), sort_dicts=False)
    first, *rest = made.splitlines()
    indent = ' ' * len(f'    config.{key} = ')
    return [f'    config.{key} = {first}', *(f'{indent}{line}' for line in rest)]
