"""Were the runs of a study treated alike? Checked in their logs and configs, and shown.

    checks(recipes, configs, logs)    [Check]: what was looked at, in whom, what was found
    spent(arms, logs)                 what each arm had, so what arms are matched by

A log says before the first step what the network scores (so how it began), how many
tokens each step read that is logged (so which rows), and how many of them were masked (so
which masks). None of these is a proof; together they tell runs apart that read other rows
or begin with other numbers: a count of tokens is equal by chance in one step of fifty.
"""

from typing import NamedTuple

import numpy as np

from jepa_text.running import metrics
from jepa_text.study import budgets
from jepa_text.training import assemble, phases

ALIKE, UNKNOWN = 'alike', 'not logged'
_READ, _MASKED = 'train/tokens', 'train/masked_tokens'
_AT_START = ('heldout/clm_loss', 'heldout/mlm_loss')
# What decides which tokens are masked.
_MASKS = ('rate', 'sampler', 'span_length', 'mask_share', 'random_share')


class Check(NamedTuple):
    """`what` was looked at in `how`, of how many runs (`of`), and what was `found`."""

    what: str
    how: str
    of: str
    found: str


def checks(recipes, configs, logs):
    """[Check] of the members of a study: their (arm, seed), config and log."""
    seeds = {}
    for member, (_, seed) in recipes.items():
        if member in configs:
            seeds.setdefault(seed, []).append(member)

    def settings(*keys):
        return lambda member: {0: [configs[member].get(key) for key in keys]}

    looks = (
        (
            'same model and start',
            'configs: model, init_from, seed',
            settings('model', 'init_from', 'seed'),
        ),
        (
            'same numbers at the start',
            'logs: held-out losses before the first step',
            lambda member: _at_start(logs[member]),
        ),
        (
            'same corpus, rows a step and length',
            'configs: data',
            lambda member: {0: _rows(configs[member])},
        ),
        (
            'same rows in the same order',
            'logs: tokens of each logged step',
            lambda member: _by_step(logs[member], _READ),
        ),
        (
            'same masks where objectives mask alike',
            'logs: masked tokens of each logged step',
            lambda member: _masked(configs[member], logs[member]),
        ),
        (
            'same optimizer and clipping',
            'configs: optimizer, clip_norm, accumulate',
            settings('optimizer', 'clip_norm', 'accumulate'),
        ),
    )
    return [_check(what, how, seeds, look) for what, how, look in looks]


def spent(arms, logs):
    """{arm: (steps, positions, FLOPs, seconds)}: `arms` {arm: (Budget, its members)}; the
    seconds are the mean over members that have a log, NaN without."""
    found = {}
    for arm, (budget, members) in arms.items():
        took = [budgets.seconds(logs[member]) for member in members if logs.get(member)]
        steps, mean = budget.steps, float(np.mean(took)) if took else float('nan')
        tokens, flops = float(budget.tokens(steps)), float(budget.flops(steps))
        found[arm] = steps, tokens, flops, mean
    return found


def _check(what, how, seeds, look):
    """Do the members of each seed say the same at all places that several speak of?"""
    count, compared, differ = 0, 0, []
    for names in seeds.values():
        said = {name: look(name) for name in names}
        spoke = [name for name in names if said[name]]
        count += len(spoke)
        for place in {place for one in said.values() for place in one}:
            values = {name: one[place] for name, one in said.items() if place in one}
            compared += len(values) > 1
            first = next(iter(values))
            differ += [
                f'{name} from {first}'
                for name, value in values.items()
                if value != values[first]
            ]
    members = sum(map(len, seeds.values()))
    of = f'{count} of {members} runs, {len(seeds)} seed{"s" * (len(seeds) > 1)}'
    if differ := list(dict.fromkeys(differ)):
        more = f' and {len(differ) - 3} more' if differ[3:] else ''
        return Check(what, how, of, f'differs: {", ".join(differ[:3])}{more}')
    if not compared:
        return Check(what, how, of, UNKNOWN if not count else 'nothing in common')
    places = f', {compared:,} places' if compared > len(seeds) else ''
    return Check(what, how, of, ALIKE + places)


def _at_start(log):
    """{metric: value} of a log before the first step."""
    rows = [row for row in log if row['step'] == 0]
    return {key: row[key] for row in rows for key in _AT_START if key in row}


def _by_step(log, key):
    steps_N, values_N = metrics.series(log, key)
    return dict(zip(steps_N.tolist(), values_N.tolist()))


def _rows(config):
    """What decides which rows a step reads."""
    data = {k: v for k, v in config['data'].items() if k != 'threads'}
    return data, [phase.get('data') for phase in config['phases'] if phase.get('data')]


def _masked(config, log):
    """{(step, how tokens are masked): how many were}."""
    spans = phases.spans(config['phases'], assemble.size(config)[1])
    found = {}
    for step, count in _by_step(log, _MASKED).items():
        # The line of step n is of the n-th step, which begins at n - 1.
        for (start, stop), phase in zip(spans, config['phases']):
            if start < step <= stop:
                found[step, _how(phase['objective'])] = count
    return found


def _how(objective):
    section = objective.get('mlm', objective)
    name = 'mlm' if 'mlm' in objective else objective['name']
    return name, str({key: section.get(key) for key in _MASKS})
