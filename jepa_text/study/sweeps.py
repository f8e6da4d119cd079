"""Sweeps of a study: which settings were varied, and how metrics depend on them.

Read from the configs: share of CLM, masking rate, learning rate and steps. Arms that
differ in one of these alone form a line; three values make a curve.
"""

import copy
import json
from typing import NamedTuple

from jepa_text.report import plots
from jepa_text.running import budget
from jepa_text.study import arms as of_arms


class Traits(NamedTuple):
    """The traits of an arm.

    share        share of CLM
    rate         masking rate, or None
    peak         peak of the learning rate
    steps        number of steps
    objectives   names of the objectives
    options      the other options of its phases, as text; None for CLM alone
    others       the schedule besides its peak, and other sections, as text
    """

    share: float
    rate: float | None
    peak: float | None
    steps: int
    objectives: tuple
    options: str | None
    others: str


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
    total = budget.total_steps(config)
    spans = budget.spans(config['phases'], total)
    phases = copy.deepcopy(config['phases'])
    sections = [phase['objective'] for phase in phases]
    names = tuple(section['name'] for section in sections)
    causal = sum(b - a for (a, b), name in zip(spans, names) if name == 'clm')
    tokens = sections[-1].get('mlm') or sections[-1]
    has_rate = isinstance(tokens.get('rate'), float)
    rate = tokens.pop('rate') if has_rate else None
    schedule = config['schedule']
    schedule = schedule if isinstance(schedule, dict) else {'peak': schedule}
    others = [{k: x for k, x in schedule.items() if k != 'peak'}]
    # CLM has no options, except for a prefix.
    options = [
        [section, phase.get('data'), phase.get('rope_theta')]
        for section, phase in zip(sections, phases)
        if section['name'] != 'clm'
    ]
    return Traits(
        share=causal / total,
        rate=rate,
        peak=schedule.get('peak'),
        steps=total,
        objectives=names,
        options=json.dumps(options, sort_keys=True) if options else None,
        others=str(others + [config.get(key) for key in _OTHERS]),
    )


def lines(kinds, sweep):
    """Returns [{value: arm}], one per line, of arms that differ in a sweep's trait alone.

    `kinds` are {arm: Traits}.
    """
    by_traits = {}
    for arm, kind in kinds.items():
        value, key = getattr(kind, sweep.trait), kind._replace(**{sweep.trait: None})
        if sweep.trait == 'share':
            if kind.objectives not in (('mlm',), ('clm',), ('clm', 'mlm')):
                continue
            key = key._replace(objectives=None)
        if value is not None:
            by_traits.setdefault(key, {}).setdefault(value, arm)
    # CLM alone, which has no masking rate and options, belongs to all lines.
    whole = (
        by_traits.get(key._replace(rate=None, options=None), {}) | line
        for key, line in by_traits.items()
    )
    return [line for line in whole if len(line) >= sweep.minimum]


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
                axes = of_arms.axis(metric), sweep.xlabel
                drawn.append(plots.errors(runs, title, *axes, **look))
    return drawn
