"""Detection of renamed config keys, values and files; errors give the new name."""

import functools
import re
from pathlib import Path

# {old path: new name}. * matches one key; in front of a name, any path.
OLD_KEYS = {
    'start': 'init_from',
    'runs.*.start': 'init_from',
    '*start.become': 'adapt',
    '*init_from.become': 'adapt',
    '*evaluate.most_rows': 'max_rows',
    '*optimizer.rates': 'lr_multipliers',
    '*optimizer.balance_rate': 'balance_lr_multiplier',
    '*model.word_bias': 'lm_head_bias',
    '*latent.normalise': 'normalize',
    '*latent.regularise': 'regularizer',
    '*balance.least': 'minimum',
    'tasks.*.most': 'max_texts',
    'halves': 'half_samples',
}
# {path: {old value: new value}}
OLD_VALUES = {
    '*prepare.tokenizer': {'start': 'init_from'},
    '*model.preset': {'desk': 'toy'},
    '*attends': {'both': 'bidirectional', 'left': 'causal'},
    '*balance.name': {'normalised': 'normalized'},
    'tasks.*.name': {'labelled': 'labeled'},
}
OLD = {'keys': OLD_KEYS, 'values': OLD_VALUES}
OLD_FILES = {'start.json': 'init_from.json', 'checkpoints/*/SEAL.json': 'CHECKSUMS.json'}


def check(config, where='The config'):
    """Raises ValueError for the first key or value with an old name, giving the new one.

    `config` is a nested dict or ConfigDict; `where` names it in errors.

    >>> check({'evaluate': {'max_rows': 8}})
    """
    for path, value in _leaves(config):
        for number in range(1, len(path) + 1):
            if new := _new_name('keys', path[:number]):
                old = '.'.join(path[:number])
                raise ValueError(
                    f'{where} has {old}, which is now {_renamed(path[:number], new)}: '
                    'rename it.'
                )
        values = _new_name('values', path) or {}
        if isinstance(value, str) and value in values:
            raise ValueError(
                f'{where} has {".".join(path)}={value!r}, which is now {values[value]!r}.'
            )


def check_setting(path, text):
    """Raises ValueError, as `check`, for --config.PATH=TEXT on the command line."""
    section = text
    for name in reversed(re.findall(r'[^.\[\]]+', path)):
        section = {name: section}
    check(section, 'The command line')


def check_folder(folder):
    """Raises ValueError for a workdir that contains files with old names."""
    for pattern, new in OLD_FILES.items():
        if found := sorted(Path(folder).glob(pattern)):
            raise ValueError(
                f'{found[0]} was written by an older version: the file is now called '
                f'{new}. Continue with that version, or rename the files and the keys of '
                'config.json.'
            )


def _leaves(value, path=()):
    """Yields (path, value) of everything that is neither a section nor a list."""
    if hasattr(value, 'keys'):
        inner = [(str(key), value[key]) for key in value]
    elif isinstance(value, list | tuple):
        inner = [(str(index), item) for index, item in enumerate(value)]
    else:
        yield path, value
        return
    if path and not inner:
        yield path, None
    for name, item in inner:
        yield from _leaves(item, (*path, name))


@functools.lru_cache(maxsize=2**14)  # a few hundred names recur in every config
def _new_name(kind, path):
    name = '.'.join(path)
    return next((new for old, new in OLD[kind].items() if _matches(old, name)), None)


def _matches(pattern, name):
    """Returns whether a dotted name matches a pattern of the tables."""
    anywhere = pattern.startswith('*')
    keys = re.escape(pattern.removeprefix('*')).replace(r'\*', '[^.]+')
    return re.fullmatch(f'(?:.*[.])?{keys}' if anywhere else keys, name) is not None


def _renamed(path, new):
    """Returns the dotted path with the new names of all its keys."""
    names = [_new_name('keys', path[: n + 1]) or path[n] for n in range(len(path) - 1)]
    return '.'.join([*names, new])
