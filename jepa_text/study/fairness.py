"""Fairness checks: whether runs were treated equally, by their logs and configs.

A log shows the losses before the first step (so the initialization), how many tokens each
logged step read (so the rows), and how many of them were masked (so the masks). None of
these is a proof, but together they detect other rows and another initialization: counts
of tokens are equal by chance in about one step of fifty.
"""

from typing import NamedTuple

import numpy as np

from jepa_text.running import budget, metrics
from jepa_text.study import budgets

SAME, UNKNOWN = 'same', 'not logged'
_READ, _MASKED = 'train/tokens', 'train/masked_tokens'
_AT_START = ('heldout/clm_loss', 'heldout/mlm_loss')
# Keys of objectives that determine which tokens are masked.
_MASKS = (
    *('rate', 'sampler', 'span_length', 'mask_share', 'random_share'),
    *('parts', 'shares'),
)


class Check(NamedTuple):
    """What was compared (`what`), in which data (`how`), for which runs (`of`), the
    `result`."""

    what: str
    how: str
    of: str
    result: str


def checks(recipes, configs, logs):
    """Returns [Check] of members, given their (arm, seed), config and log."""
    seeds = {}
    for member, (_, seed) in recipes.items():
        if member in configs:
            seeds.setdefault(seed, []).append(member)

    def settings(*keys):
        return lambda member: {0: [configs[member].get(key) for key in keys]}

    looks = (
        (
            'same model and initialization',
            'configs: model, init_from, seed',
            settings('model', 'init_from', 'seed'),
        ),
        (
            'same losses at the start',
            'logs: held-out losses before the first step',
            lambda member: _at_start(logs[member]),
        ),
        (
            'same corpus, batch size and row length',
            'configs: data',
            lambda member: {0: _rows(configs[member])},
        ),
        (
            'same rows in the same order',
            'logs: tokens of each logged step',
            lambda member: _by_step(logs[member], _READ),
        ),
        (
            'same masks for equal masking options',
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


def spent(of_members, members, logs):
    """Returns {arm: (steps, positions, FLOPs, seconds)}, means over its members.

    `of_members` are {member: Budget}, `members` {arm: [its members]}; seconds are NaN if
    a member has no log.
    """
    totals_of = {}
    for arm, own in members.items():
        mean = float(np.mean([budgets.seconds(logs[one]) for one in own]))
        each = [of_members[one] for one in own]
        totals = [
            (one.steps, one.tokens(one.steps), one.flops(one.steps)) for one in each
        ]
        totals_of[arm] = (*np.mean(totals, axis=0).tolist(), mean)
    return totals_of


def _check(what, how, seeds, look):
    """Compares members of the same seed: `look(member)` returns {key: value}, and values
    of a key are compared between all members that have it."""
    count, compared, differ = 0, 0, []
    for names in seeds.values():
        values_of = {name: look(name) for name in names}
        count += sum(map(bool, values_of.values()))
        for key in dict.fromkeys(k for values in values_of.values() for k in values):
            values = {name: own[key] for name, own in values_of.items() if key in own}
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
    values = f', {compared:,} values' if compared > len(seeds) else ''
    return Check(what, how, of, SAME + values)


def _at_start(log):
    """Returns {metric: value} of the held-out losses before the first step."""
    rows = [row for row in log if row['step'] == 0]
    return {key: row[key] for row in rows for key in _AT_START if key in row}


def _by_step(log, key):
    steps_N, values_N = metrics.series(log, key)
    return dict(zip(steps_N.tolist(), values_N.tolist()))


def _rows(config):
    """Returns the settings that determine which rows a step reads."""
    return config['data'], [
        phase.get('data') for phase in config['phases'] if phase.get('data')
    ]


def _masked(config, log):
    """Returns {(step, masking options): number of masked tokens}."""
    spans = budget.spans(config['phases'], budget.total_steps(config))
    counts = {}
    for step, count in _by_step(log, _MASKED).items():
        # Line n of a log belongs to the n-th step, which starts at n - 1.
        for (start, stop), phase in zip(spans, config['phases']):
            if start < step <= stop:
                counts[step, _masking(phase['objective'], start, stop)] = count
    return counts


def _masking(objective, start, stop):
    """Returns the options that determine how an objective masks tokens in a phase."""
    section = objective.get('mlm') or objective
    name = objective['name'] if section is objective else 'mlm'
    # A rate that changes does so over the phase.
    span = (start, stop) if isinstance(section.get('rate'), dict) else ()
    return name, str({key: section.get(key) for key in _MASKS}), span
