"""What was varied in a study, and how outcomes go with it.

Read off the configs: share of CLM, masking rate, learning rate, steps, and steps after a
decay (continued pretraining). Arms that differ in one of these alone make a line; three
values make a curve.
"""

from typing import NamedTuple

from jepa_text.report import bands
from jepa_text.study import arms as of_arms
from jepa_text.training import assemble, phases


class Traits(NamedTuple):
    """What an arm is: `share` of CLM, masking `rate` or None, `peak` of the learning
    rate, `steps`, `after` so many of which it decayed first (0: never), its `model`, and
    the names of its objectives."""

    share: float
    rate: float | None
    peak: float | None
    steps: int
    after: int
    model: str
    objectives: tuple


class Sweep(NamedTuple):
    """`trait` on the axis, and from how many values on it makes a curve."""

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
    Sweep('further', 'Continued pretraining', 'further steps'),
)


def traits(config):
    """The Traits of an arm, by its settled config."""
    total = assemble.size(config)[1]
    spans = phases.spans(config['phases'], total)
    names = tuple(phase['objective']['name'] for phase in config['phases'])
    causal = sum(b - a for (a, b), name in zip(spans, names) if name == 'clm')
    last = config['phases'][-1]['objective']
    schedule = config['schedule']
    schedule = schedule if isinstance(schedule, dict) else {'peak': schedule}
    rate = last.get('mlm', last).get('rate')
    return Traits(
        share=causal / total,
        rate=rate if isinstance(rate, float) else None,
        peak=schedule.get('peak'),
        steps=total,
        after=int(schedule.get('first', 0)),
        model=str(config['model']),
        objectives=names,
    )


def lines(kinds, sweep):
    """[{value of what is varied: arm}] of {arm: Traits}: arms that differ in it alone."""
    found = {}
    for arm, kind in kinds.items():
        key, value = _placed(kind, kinds, sweep)
        if value is not None:
            found.setdefault(key, {}).setdefault(value, arm)
    if sweep.trait == 'share':
        found = _with_clm_alone(found)
    return [line for line in found.values() if len(line) >= sweep.minimum]


def figures(arms, kinds, metrics):
    """A figure of each metric for each thing that was varied."""
    drawn = []
    for sweep in SWEEPS:
        found = lines(kinds, sweep)
        for metric in metrics if found else ():
            known = of_arms.summary(arms, metric)
            runs = {}
            for line in found:
                own = {x: known[arm] for x, arm in line.items() if arm in known}
                if len(own) >= sweep.minimum:
                    runs[_name(list(line.values()), kinds, sweep)] = own
            if runs:
                title = f'{sweep.title}: {metric}'
                look = dict(log=sweep.log, percent=sweep.percent)
                drawn.append(bands.errors(runs, title, metric, sweep.xlabel, **look))
    return drawn


def _placed(kind, kinds, sweep):
    """(what an arm has in common with others of its line, its value); None for the value
    of an arm that is of no line."""
    firsts = {one.after for one in kinds.values() if one.after}
    if sweep.trait == 'further':
        # A model that decayed twice, or once where others go on.
        if kind.after or kind.steps in firsts:
            further = kind.steps - kind.after if kind.after else 0
            return (kind.objectives[0], kind.model), further
        return None, None
    if firsts:
        return None, None  # their steps are of two kinds
    apart = [sweep.trait]
    if sweep.trait == 'share':
        if kind.objectives not in (('mlm',), ('clm',), ('clm', 'mlm')):
            return None, None
        apart.append('objectives')
    key = tuple(x for name, x in kind._asdict().items() if name not in apart)
    return key, getattr(kind, sweep.trait)


def _with_clm_alone(found):
    """Lines over shares: CLM alone masks nothing, and ends those of every rate."""
    alone = {key[1:]: line for key, line in found.items() if key[0] is None}
    return {
        key: alone.get(key[1:], {}) | line
        for key, line in found.items()
        if key[0] is not None
    }


def _name(members, kinds, sweep):
    """What the arms of a line have in common, as far as it tells lines apart."""
    one = kinds[members[0]]
    if sweep.trait == 'further':
        return f'begun with {one.objectives[0]}'
    if sweep.trait == 'share':
        several = len({kind.rate for kind in kinds.values()} - {None}) > 1
        masked = f', {one.rate:.0%} masked' if several and one.rate else ''
        return f'{one.steps:,} steps{masked}'
    share = f'{one.share:.0%} ' if 0 < one.share < 1 else ''
    words = [share + ' then '.join(one.objectives)]
    if sweep.trait != 'steps':
        words.append(f'{one.steps:,} steps')
    if len({kind.model for kind in kinds.values()}) > 1:
        words.append(members[0].rpartition('_')[2])
    return ', '.join(words)
