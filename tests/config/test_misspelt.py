"""Every misspelled key of every shipped config is rejected with the correct one."""

import contextlib
import functools
import random

import pytest

from jepa_text import commands
from jepa_text.config import config_file, resolve, schema
from jepa_text.data import tokenizers
from jepa_text.evaluation import tasks
from jepa_text.optim import optimizers, schedules
from jepa_text.planning import benchmark
from jepa_text.training import config as settings

PRESETS = list(config_file.shared('toy').PRESETS)
# (command, file, argument): every objective, size and case once.
SHIPPED = [
    ('study', 'quickstart', None),
    ('study', 'collapse', None),
    *(('train', 'toy', preset) for preset in PRESETS),
    *(('train', 'pretrain', f'{preset},35m') for preset in PRESETS),
    *(('train', 'pretrain', f'clm_mlm,{size}') for size in ('210m', '610m', '1b')),
    *(
        ('train', 'cpt', text)
        for text in ('hf:x,12k', 'runs/a,2k,mntp', 'runs/a,9,mlm,toy')
    ),
    ('analyze', 'analyze', 'models=runs/a,tasks=bundled,sst2@x'),
    *(('benchmark', 'benchmark', name) for name in ('peer', 'objectives', 'telemetry')),
    ('benchmark', 'benchmark', 'attention'),
]


@functools.cache
def tokenizer():
    return tokenizers.load(tokenizers.BUNDLED)


def read(file, argument):
    config = config_file.shared(file).get_config(*filter(None, [argument]))
    return schema.plain(config)


def keys(value, path=(), place=()):
    """Yields (path, place) of every key of a config, including lists.

    The place has the names of the sections around it, but not that of the whole, and not
    the numbers of lists.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            inside = (*place, str(value.get('name')) if path else '', key)
            yield (*path, key), inside
            yield from keys(inner, (*path, key), inside)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from keys(inner, (*path, index), place)


@functools.cache
def new_keys():
    """{case: paths of its keys whose place no case before it has}."""
    seen, found = set(), {}
    for command, file, argument in SHIPPED:
        paths = found[command, file, argument] = []
        for path, place in keys(read(file, argument)):
            if (command, place) not in seen:
                seen.add((command, place))
                paths.append(path)
    return found


def misspelt(key, rng):
    """Returns the key with one letter doubled or omitted, or two letters swapped."""
    at = rng.randrange(len(key) - 1)
    kind = rng.randrange(3)
    if kind == 0:
        return key[: at + 1] + key[at:]
    if kind == 1 and len(key) > 3:
        return key[:at] + key[at + 1 :]
    swapped = key[:at] + key[at + 1] + key[at] + key[at + 2 :]
    return swapped if swapped != key else key + key[-1]


def renamed(value, path, name):
    """Returns the config with the key at a path renamed."""
    if isinstance(value, list):
        return [
            renamed(x, path[1:], name) if i == path[0] else x for i, x in enumerate(value)
        ]
    if len(path) == 1:
        return {name if key == path[0] else key: x for key, x in value.items()}
    return {
        k: renamed(x, path[1:], name) if k == path[0] else x for k, x in value.items()
    }


def build(command, config):
    """Runs all checks that precede writing: the schema, and each `make`."""
    schema.read(commands.root(command, config), config)
    if command == 'analyze':
        for section in config['tasks']:
            # Its file does not exist here.
            with contextlib.suppress(FileNotFoundError):
                tasks.build(section)
        return
    if command == 'benchmark':
        whole = schema.resolved(benchmark.Config, config)
        runs = benchmark.resolve_cases(whole)
        phases = [case['objective'] for case in runs]
    else:
        runs = list(settings.of_runs(config).values())
        phases = [phase['objective'] for run in runs for phase in run['phases']]
    for run in runs:
        optimizers.make(run['optimizer'])
        schedules.make(run['schedule'], 10_000)
        # Filled in from the initial model; these are valid values.
        started = {'name': 'transformer', 'preset': 'tiny'} if 'init_from' in run else {}
        resolve.build('models', started | run['model'], vocab_size=8)
    given = dict(tokenizer=tokenizer(), length=64, steps=10)
    for section in phases:
        resolve.build('objectives', section, **given)


@pytest.mark.parametrize('command, file, argument', SHIPPED)
def test_misspelled_keys_are_rejected_by_name(command, file, argument):
    config = read(file, argument)
    build(command, config)
    rng, passed = random.Random(f'{file} {argument}'), []
    for path in new_keys()[command, file, argument]:
        wrong = misspelt(path[-1], rng)
        try:
            build(command, renamed(config, path, wrong))
        except ValueError as error:
            message = str(error)
            if (
                f'{wrong!r}' not in message
                or f'Did you mean {path[-1]!r}?' not in message
            ):
                passed.append((path, wrong, message))
        else:
            passed.append((path, wrong, 'passed'))
    assert not passed, '\n'.join(map(str, passed[:20]))
