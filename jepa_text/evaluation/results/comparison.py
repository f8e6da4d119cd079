"""Comparison of models at their selected learning rates: tests and Borda count.

compare              which models differ on a task, corrected for multiple tests
instance_interval    interval over seeds and instances
borda                one ranking of models over many tasks
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
import scipy

from jepa_text.measures import statistics

NO_VERDICT, NO_DIFFERENCE = 'no verdict', 'no difference shown'


class Comparison(NamedTuple):
    """Two models on a task, over the seeds that both have (first - second).

    p           after Holm's correction over all comparisons
    unpaired    number of seeds that only one of the models has
    """

    task: str
    first: str
    second: str
    result: statistics.OverSeeds
    p: float
    unpaired: int
    verdict: str


def compare(chosen):
    """Returns a Comparison of every two models on every task, by their test values.

    Paired over seeds by measures.statistics.corrected: Student's t, sign flips from eight
    seeds on, Holm's correction over all comparisons; no verdict below five seeds. Raises
    ValueError for models measured on different data or by different metrics.
    """
    pairs = []
    for ours, theirs in itertools.combinations(chosen, 2):
        if ours.task != theirs.task:
            continue
        _check_comparable(ours, theirs)
        first, second = ours.values(), theirs.values()
        names = ours.task, ours.model, theirs.model
        unpaired = len(first.keys() ^ second.keys())
        pairs.append((names, statistics.paired(first, second), unpaired))
    results = statistics.corrected([values for _, values, _ in pairs])
    return [
        Comparison(*names, result, p, unpaired, _verdict(names, result, p))
        for (names, _, unpaired), (result, p) in zip(pairs, results)
    ]


def instance_interval(chosen, values_of, clusters=()):
    """Returns an Interval over seeds and instances, for description and not for tests.

    values_of(line) returns the values [N] of a member on the same instances, and
    `clusters` are the columns of texts by which instances are dependent
    (statistics.variance).
    """
    values = [np.asarray(values_of(line), np.float64) for line in chosen.members]
    sizes = sorted(set(map(len, values)))
    if len(sizes) != 1:
        raise ValueError(
            f'{chosen.model} on {chosen.task}: members have values of {sizes} instances, '
            'but an interval over instances needs members with the same instances.'
        )
    scale = 'correlation' if chosen.first['kind'] == 'scores' else 'share'
    return statistics.two_level_interval(np.stack(values), scale, clusters)


def borda(chosen):
    """Returns ({model: points}, tasks left out): the Borda count by the mean over seeds.

    A model gets one point for each model it beats on a task, and half a point for ties
    (de Borda 1781). A model without finite members on a task is beaten by all others. A
    task that some model did not run is left out.
    """
    means = {}
    for choice in chosen:
        means.setdefault(choice.task, {})[choice.model] = choice.interval().value
    models = list(dict.fromkeys(choice.model for choice in chosen))
    points, left_out = dict.fromkeys(models, 0.0), []
    for task, by_model in means.items():
        if len(by_model) < len(models):
            left_out.append(task)
            continue
        values = np.nan_to_num([by_model[m] for m in models], nan=-math.inf)
        for model, rank in zip(models, scipy.stats.rankdata(values)):
            points[model] += float(rank) - 1
    return points, left_out


def _check_comparable(ours, theirs):
    ours_by, theirs_by = (
        (choice.metric, {line.get('data_revision') for line in choice.members})
        for choice in (ours, theirs)
    )
    if ours_by != theirs_by and ours.members and theirs.members:
        raise ValueError(
            f'{ours.task}: {ours.model} has metric and data {ours_by}, {theirs.model} '
            f'{theirs_by}: values on different data cannot be compared.'
        )


def _verdict(names, result, p):
    if not result.test:
        return NO_VERDICT
    if p > 1 - statistics.LEVEL:
        return NO_DIFFERENCE
    return f'{names[1 if result.difference > 0 else 2]} is better'
