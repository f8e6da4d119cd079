"""Old names of keys, values and files: refused with an error that says the new one."""

import functools
import re
from pathlib import Path

# Where a key stands, by old name: its new name. * is one key; before a name, any path.
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
# {where: {old value: new value}}
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
    """Raises ValueError for the first key or value with an old name; it says the new one.

    `config` is a dict or ConfigDict, of any depth; `where` names it.

    >>> check({'evaluate': {'max_rows': 8}})
    """
    for path, value in _leaves(config):
        for number in range(1, len(path) + 1):
            if new := _new('keys', path[:number]):
                old = '.'.join(path[:number])
                raise ValueError(
                    f'{where} has {old}, which is {_renamed(path[:number], new)} now: '
                    'rename it.'
                )
        known = _new('values', path) or {}
        if isinstance(value, str) and value in known:
            raise ValueError(
                f'{where} has {".".join(path)}={value!r}, which is {known[value]!r} now.'
            )


def check_setting(path, text):
    """Raises ValueError, as `check`, for --config.PATH=TEXT of a command line."""
    section = text
    for name in reversed(re.findall(r'[^.\[\]]+', path)):
        section = {name: section}
    check(section, 'The command line')


def check_folder(folder):
    """Raises ValueError for a workdir with files under old names."""
    for pattern, new in OLD_FILES.items():
        if found := sorted(Path(folder).glob(pattern)):
            raise ValueError(
                f'{found[0]} is of an older version: that file is {new} now. Go on with '
                'that version, or rename the files and the keys of config.json.'
            )


def _leaves(value, path=()):
    """(path, value) of everything that is no section and no list."""
    if hasattr(value, 'keys'):
        inner = [(str(key), value[key]) for key in value]
    elif isinstance(value, list | tuple):
        inner = [(str(index), one) for index, one in enumerate(value)]
    else:
        inner = []
        yield path, value
        return
    if path and not inner:
        yield path, None
    for name, one in inner:
        yield from _leaves(one, (*path, name))


@functools.lru_cache(maxsize=2**14)  # a few hundred names, which recur in every config
def _new(kind, path):
    name = '.'.join(path)
    return next((new for old, new in OLD[kind].items() if _fits(old, name)), None)


def _fits(old, name):
    """Does a dotted name stand where a pattern of the tables says?"""
    anywhere = old.startswith('*')
    keys = re.escape(old.removeprefix('*')).replace(r'\*', '[^.]+')
    return re.fullmatch(f'(?:.*[.])?{keys}' if anywhere else keys, name) is not None


def _renamed(path, new):
    """The whole path with the new names of all its keys."""
    kept = [_new('keys', path[: n + 1]) or path[n] for n in range(len(path) - 1)]
    return '.'.join([*kept, new])
