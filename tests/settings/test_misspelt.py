"""Every misspelled key of every shipped config is rejected with the correct one."""

import collections
import contextlib
import functools
import random

import config_faults
import pytest

from jepa_text import commands
from jepa_text.data import tokenizers
from jepa_text.evaluation import tasks
from jepa_text.optim import optimizers, schedules
from jepa_text.planning import benchmark
from jepa_text.settings import config_file, resolve, schema
from jepa_text.training import config as settings

PRESETS = list(config_file.shared('toy').PRESETS)
# (command, file, argument): every objective, size and case once.
SHIPPED = [
    ('study', 'quickstart', None),
    *(('train', 'toy', preset) for preset in PRESETS),
    *(('train', 'pretrain', f'{preset},size=35m') for preset in PRESETS),
    *(('train', 'pretrain', f'clm_mlm,size={size}') for size in ('210m', '610m', '1b')),
    *(
        ('train', 'cpt', text)
        for text in (
            'hf:x',
            'runs/a,steps=2000,objective=mntp',
            'runs/a,steps=9,size=toy',
        )
    ),
    ('analyze', 'analyze', 'models=runs/a,tasks=bundled,sst2@x'),
    *(('benchmark', 'benchmark', name) for name in ('peer', 'objectives')),
    ('benchmark', 'benchmark', 'attention'),
]


@functools.cache
def tokenizer():
    return tokenizers.load(tokenizers.BUNDLED)


def read(file, argument):
    return config_file.read(':'.join(filter(None, [file, argument])))


@functools.cache
def new_keys():
    """{case: paths of its keys in sections that no case before it has}."""
    seen, found = set(), collections.defaultdict(list)
    for case in SHIPPED:
        command, *of = case
        config = read(*of)
        for path in config_faults.places(config):
            around = [at(config, path[:stop]) for stop in range(1, len(path))]
            names = [x.get('name') for x in around if isinstance(x, dict)]
            keys = [key for key in path if isinstance(key, str)]
            place = (command, *keys, *map(str, names))
            if isinstance(path[-1], str) and place not in seen:
                seen.add(place)
                found[case].append(path)
    return found


def at(config, path):
    return functools.reduce(lambda value, key: value[key], path, config)


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


def renamed(config, path, name):
    """Returns the config with the key at a path renamed."""
    config = config_faults.lists(config)
    section = at(config, path[:-1])
    section[name] = section.pop(path[-1])
    return config


def build(command, config):
    """Runs all checks that precede writing: the schema, and each `make`."""
    schema.read(commands.root_of(command, config), config)
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
            says = f'{wrong!r}', f'Did you mean {path[-1]!r}?'
            if not all(words in str(error) for words in says):
                passed.append((path, wrong, str(error)))
        else:
            passed.append((path, wrong, 'passed'))
    assert not passed, '\n'.join(map(str, passed[:20]))
