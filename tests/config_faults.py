"""Random faults in valid configs: what is built of each, in words."""

import collections
import copy
import random

import tiny

from jepa_text.parallel import exits
from jepa_text.running import watchdog
from jepa_text.settings import config_file, resolve
from jepa_text.training import completion
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes

PRESETS = (
    *('clm_mlm', 'jepa_mlm', 'jepa_mlm_paper', 'data2vec', 'lejepa_mlm'),
    'mixture',
)
# What a fault may be found by, as the one is checked against the other.
RELATED = {'depth': 'latent: top', 'preset': 'latent: top'}
MEANT = 'Did you mean'  # an error's hint at the right key
NOT_A_NUMBER, INFINITE = float('nan'), float('inf')
VALUES = (
    *(None, 'no', '', -1, 0, 1e-9, 3.7, True, 10**10, INFINITE, -INFINITE, NOT_A_NUMBER),
    *([], {}, [1], [None, 1], ['a', 'b'], {'a': 1}, {'name': 'no'}, {'name': None}),
)


def bases(folder):
    """One valid config of each preset, with all sections that a config may have."""
    presets = config_file.shared('toy').PRESETS
    for number, preset in enumerate(PRESETS):
        config = tiny.config(folder)
        config |= dict(phases=presets[preset], tokens=0, baseline='none')
        config |= dict(geometry=dict(every_steps=4, texts=16), profile_steps=(0, 0))
        config |= dict(watchdog=dict(seconds=9, pause_seconds=9))
        source = dict(name='text', path='x', heldout_every=9)
        config['prepare'] = dict(
            source=source, tokenizer='bundled', row_length=tiny.LENGTH, packing='concat'
        )
        config['plan'] = dict(hardware='h100:8', mfu=0.4)
        config['checkpoint'] |= dict(keep_at_steps=[10])
        config['model'] |= dict(depth=3, rope_theta=1e4, window=8, qk_norm=True)
        config['optimizer'] |= dict(b1=0.9, eps=1e-8, lr_multipliers=(('norm', 0.5),))
        if number % 2:
            config['optimizer'] = dict(name='muon', momentum=0.9, b2=0.95)
            config['schedule'] = dict(
                name='warmup_cosine', peak=1e-3, warmup_fraction=0.1
            )
        yield preset, config


def places(value, path=()):
    """The path of every key and item."""
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list | tuple) else items
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def corrupted(config, rng):
    """(config with one fault, the path of the fault, what it is; of a misspelt key, what
    the error must say)."""
    config = lists(config)
    *path, key = rng.choice(list(places(config)))
    at = config
    for step in path:
        at = at[step]
    kind = rng.random()
    if kind < 0.2:
        del at[key]
        return config, (*path, key), 'left out'
    if kind < 0.3 and isinstance(at, dict):
        at['unheard_of'] = 1
        return config, (*path, 'unheard_of'), 'added'
    if kind < 0.5 and isinstance(key, str) and len(key) > 2:
        doubled = rng.randrange(1, len(key))
        wrong = key[:doubled] + key[doubled - 1 :]
        at[wrong] = at.pop(key)
        return config, (*path, wrong), f'{MEANT} {key!r}'
    at[key] = copy.deepcopy(rng.choice(VALUES))
    return config, (*path, key), at[key]


def lists(value):
    """A copy with lists for tuples."""
    if isinstance(value, dict):
        return {key: lists(inner) for key, inner in value.items()}
    is_list = isinstance(value, list | tuple)
    return [lists(inner) for inner in value] if is_list else value


def build(config):
    """All that is made of a config before anything is written or compiled."""
    config = settings.plain(config)
    resolve.call('watchdog', watchdog.Watchdog, config['watchdog'])
    config = completion.with_baseline(config)
    recipes.make(config)


def verdict(config, path, fault):
    """'built', 'refused' by name, or how it failed."""
    named = [str(key) for key in path if isinstance(key, str)][-2:]
    named += [RELATED[name] for name in named if name in RELATED]
    try:
        with exits.config_errors():
            build(config)
    except exits.ConfigError as error:
        known = [*named, *(name.replace('_', ' ') for name in named)]
        if str(fault).startswith(MEANT):
            known = [fault]
        return 'refused' if any(name in str(error) for name in known) else f'{error}'
    except Exception as error:  # what is looked for
        return f'{type(error).__name__}: {error}'
    return 'built'


def trials(count, seed, folder):
    """{verdict: [(preset, path, fault)]} of so many faults."""
    rng, found = random.Random(seed), collections.defaultdict(list)
    made = list(bases(folder))
    for _ in range(count):
        preset, config = rng.choice(made)
        config, path, fault = corrupted(config, rng)
        dotted = '.'.join(map(str, path))
        found[verdict(config, path, fault)].append((preset, dotted, fault))
    return found
