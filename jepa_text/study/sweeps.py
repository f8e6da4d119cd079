"""Sweeps of a study: which settings were varied, and how metrics depend on them.

Read from the configs: share of CLM, masking rate, learning rate and steps. Arms that
differ in one of these alone form a line; three values make a curve.
"""

import json
from typing import NamedTuple

from jepa_text.report import plots
from jepa_text.running import budget
from jepa_text.study import arms as of_arms
from jepa_text.training import recipe as recipes


class Traits(NamedTuple):
    """The traits of an arm.

    share        share of CLM
    rate         masking rate, or None
    options      the other options of its phases, as text; None for CLM alone
    schedule     the options of the schedule besides its peak, as text
    peak         peak of the learning rate
    steps        number of steps
    others       other sections that affect the result, as text
    objectives   names of the objectives
    """

    share: float
    rate: float | None
    options: str | None
    schedule: str
    peak: float | None
    steps: int
    others: str
    objectives: tuple


class Sweep(NamedTuple):
    """A trait that may vary, with the title and axis of its figures.

    `minimum` is the number of values that make a curve.
    """

    trait: str
    title: str
    xlabel: str
    minimum: int = 3
    log: bool = False
    percent: bool = False


SWEEPS = (
    Sweep('share', 'Share of CLM', 'share of CLM', minimum=4, percent=True),
    Sweep('rate', 'Masking rate', 'masked tokens', percent=True),
    Sweep('peak', 'Learning rate', 'learning rate', log=True),
    Sweep('steps', 'Steps', 'steps', log=True),
)


# Sections that affect the result, besides phases and schedule.
_OTHERS = ('model', 'data', 'optimizer', 'clip_norm', 'accumulate', 'init_from')


def traits(config):
    """Returns the Traits of an arm, from its completed config."""
    total = recipes.total_steps(config)
    spans = budget.spans(config['phases'], total)
    names = tuple(phase['objective']['name'] for phase in config['phases'])
    causal = sum(b - a for (a, b), name in zip(spans, names) if name == 'clm')
    *before, final = config['phases']
    last = final['objective'].get('mlm') or final['objective']
    schedule = config['schedule']
    schedule = schedule if isinstance(schedule, dict) else {'peak': schedule}
    rate = last.get('rate')
    return Traits(
        share=causal / total,
        rate=rate if isinstance(rate, float) else None,
        options=_options(before, final, isinstance(rate, float)),
        schedule=str({k: x for k, x in schedule.items() if k != 'peak'}),
        peak=schedule.get('peak'),
        steps=total,
        others=str([config.get(key) for key in _OTHERS]),
        objectives=names,
    )


def _options(before, final, has_rate):
    """Returns the options of phases as text, without lengths and the last masking rate.

    CLM has no options, except for a prefix.
    """
    if has_rate:
        section = final['objective']
        tokens = section.get('mlm') or section
        own = {k: x for k, x in tokens.items() if k != 'rate'}
        own = own if tokens is section else section | {'mlm': own}
        final = final | {'objective': own}
    options = []
    for phase in (*before, final):
        section = phase['objective']
        if section['name'] != 'clm':
            options.append([section, phase.get('data'), phase.get('rope_theta')])
    return json.dumps(options, sort_keys=True) if options else None


def lines(kinds, sweep):
    """Returns [{value: arm}], one per line, of arms that differ in a sweep's trait alone.

    `kinds` are {arm: Traits}.
    """
    by_traits = {}
    for arm, kind in kinds.items():
        key, value = _line_of(kind, sweep)
        if value is not None:
            by_traits.setdefault(key, {}).setdefault(value, arm)
    if sweep.trait == 'share':
        by_traits = _with_pure_clm(by_traits)
    return [line for line in by_traits.values() if len(line) >= sweep.minimum]


def figures(arms, kinds, metrics):
    """Returns a figure of each metric for each trait that was varied."""
    drawn = []
    for sweep in SWEEPS:
        drawn_lines = lines(kinds, sweep)
        for metric in metrics if drawn_lines else ():
            known = of_arms.summary(arms, metric)
            runs = {}
            for line in drawn_lines:
                own = {x: known[arm] for x, arm in line.items() if arm in known}
                if len(own) >= sweep.minimum:
                    runs[f'{line[min(line)]} to {line[max(line)]}'] = own
            if runs:
                title = f'{sweep.title}: {metric}'
                look = dict(log=sweep.log, percent=sweep.percent)
                drawn.append(plots.errors(runs, title, metric, sweep.xlabel, **look))
    return drawn


def _line_of(kind, sweep):
    """Returns (the traits that all arms of its line share, value of the varied trait).

    The value is None for an arm that belongs to no line of the sweep.
    """
    varied = [sweep.trait]
    if sweep.trait == 'share':
        if kind.objectives not in (('mlm',), ('clm',), ('clm', 'mlm')):
            return None, None
        varied.append('objectives')
    key = tuple(x for name, x in kind._asdict().items() if name not in varied)
    return key, getattr(kind, sweep.trait)


def _with_pure_clm(by_traits):
    """Adds CLM alone, which has no masking rate and options, to all lines."""
    alone = {key[2:]: line for key, line in by_traits.items() if key[:2] == (None, None)}
    return {
        key: alone.get(key[2:], {}) | line
        for key, line in by_traits.items()
        if key[:2] != (None, None)
    }
