"""Models that were chosen (selection.py), beside each other.

compare              which models differ on a task, corrected together
instance_interval    over seeds and instances
average              over tasks, as the last columns of the paper's tables
borda                one order of models over many tasks
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
import scipy

from jepa_text.evaluation.results import selection
from jepa_text.measures import statistics

NO_VERDICT, NO_DIFFERENCE = 'no verdict', 'no difference shown'


class Compared(NamedTuple):
    """Two models on a task: over seeds that both have, first minus second.

    p: after Holm's correction with all others. unpaired: seeds that only one has.
    """

    task: str
    first: str
    second: str
    found: statistics.OverSeeds
    p: float
    unpaired: int
    verdict: str


def compare(chosen, *, against=None, side='test'):
    """[Compared] of every two models on every task, or of all with the one `against`.

    Paired over seeds by measures.statistics.corrected: Student's t, sign flips from
    eight seeds on, Holm over all that is compared; below five seeds no verdict. Raises
    ValueError for models measured on other data or by another metric.
    """
    pairs = []
    for ours, theirs in itertools.combinations(chosen, 2):
        if ours.task != theirs.task or against not in (None, ours.model, theirs.model):
            continue
        if against == theirs.model:
            ours, theirs = theirs, ours
        _check_comparable(ours, theirs)
        first, second = ours.values(side), theirs.values(side)
        names = ours.task, ours.model, theirs.model
        unpaired = len(first.keys() ^ second.keys())
        pairs.append((names, statistics.paired(first, second), unpaired))
    found = statistics.corrected([values for _, values, _ in pairs])
    return [
        Compared(*names, one, p, unpaired, _verdict(names, one, p))
        for (names, _, unpaired), (one, p) in zip(pairs, found)
    ]


def instance_interval(chosen, values_of):
    """Interval over seeds and instances; it describes, and is no test of two models.

    values_of(line) gives the values [N] of a member on the same instances.
    """
    values = [np.asarray(values_of(line), np.float64) for line in chosen.members]
    sizes = sorted({len(one) for one in values})
    if len(sizes) != 1:
        raise ValueError(
            f'{chosen.model} on {chosen.task}: members have values of {sizes} instances, '
            'but an interval over instances needs the same ones of at least one.'
        )
    return statistics.two_level_interval(np.stack(values))


def average(chosen):
    """Interval of the mean over tasks of one model, over the seeds that all have."""
    models = {one.model for one in chosen}
    tasks = [one.task for one in chosen]
    if len(models) != 1 or len(set(tasks)) < len(tasks):
        raise ValueError(
            f'An average over tasks is of one model, each task once, but there are '
            f'{sorted(models)} on {tasks}.'
        )
    values = [one.values() for one in chosen]
    seeds = sorted(set.intersection(*map(set, values)))
    return selection.mean_over_seeds(
        [np.mean([one[seed] for one in values]) for seed in seeds]
    )


def borda(chosen):
    """({model: points}, tasks left out): one point for each model beaten on a task.

    By the mean over seeds; half a point for equals (de Borda 1781). A model whose
    members are all lost on a task is beaten by all others; a task that some model never
    ran is left out, and named.
    """
    means = {}
    for one in chosen:
        means.setdefault(one.task, {})[one.model] = one.interval().value
    models = list(dict.fromkeys(one.model for one in chosen))
    left_out = [task for task, found in means.items() if len(found) < len(models)]
    points = dict.fromkeys(models, 0.0)
    for found in (found for task, found in means.items() if task not in left_out):
        ranked = scipy.stats.rankdata(
            np.nan_to_num([found[m] for m in models], nan=-math.inf)
        )
        for model, rank in zip(models, ranked):
            points[model] += float(rank) - 1
    return points, left_out


def _check_comparable(ours, theirs):
    kept = [
        (one.metric, {line.get('data_revision') for line in one.members})
        for one in (ours, theirs)
    ]
    if kept[0] != kept[1] and ours.members and theirs.members:
        raise ValueError(
            f'{ours.task}: {ours.model} has metric and data {kept[0]}, {theirs.model} '
            f'{kept[1]}: values of other data are not compared.'
        )


def _verdict(names, found, p):
    if not found.test:
        return NO_VERDICT
    if p > 1 - statistics.LEVEL:
        return NO_DIFFERENCE
    return f'{names[1 if found.difference > 0 else 2]} is better'
