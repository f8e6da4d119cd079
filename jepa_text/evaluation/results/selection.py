"""Learning rate selection on validation, and comparison of models at these rates.

`select` selects the learning rate of each model and task by validation only; `compare`
tests which models differ on a task, corrected for multiple tests. Both take the lines of
members (result_files.py). A rate is selected by the seeds that all rates have, so not by
those that were trained after a search. Members that are 'not finite' have no values. They
are counted, and a rate of which such a seed is lost is selected only if all rates lost as
many. Collapsed ones count with their values.
"""

import dataclasses
import itertools
import math
from collections import Counter
from typing import NamedTuple

import numpy as np

from jepa_text.evaluation.results.result_files import STATUSES
from jepa_text.measures import statistics

# The metric of each kind of task in arXiv 2507.00994.
PAPER_METRICS = {
    'labels': 'accuracy',
    'scores': 'spearman',
    'tags': 'sentence_macro_f1',
    'spans': 'token_f1',
    'retrieval': 'ndcg@10',
    'cloze': 'accuracy',
}
PAPER_RATES = (1e-5, 1e-4)  # range of the paper's Figure 5


@dataclasses.dataclass(frozen=True, eq=False)
class Chosen:
    """A model on a task at its selected learning rate.

    first          a line, also without members: for what all lines share
    metric         selection metric, by the definitions `by`: 'standard' or 'paper'
    members        lines of the selected members, one per seed, in order of seed
    lost           seeds without a finite member at that rate
    statuses       {status: number of all members}
    sensitivity    standard deviation of the test metric over learning rates and the seeds
                   that each has (arXiv 2507.00994, Figure 5); NaN for fewer than two
    """

    model: str
    task: str
    first: dict
    by: str
    metric: str
    members: tuple
    lost: tuple
    statuses: dict
    sensitivity: float

    def values(self, by=None, metric=None):
        """Returns {seed: test value} of the selected members, for any metric in their
        lines; raises ValueError for a metric that a member lacks."""
        by, metric = by or self.by, metric or self.metric
        return {line['seed']: value(line, 'test', by, metric) for line in self.members}

    def interval(self, by=None, metric=None):
        """Returns the Interval of the mean of `values` over seeds, by Student's t."""
        return mean_over_seeds(list(self.values(by, metric).values()))

    @property
    def rate(self):
        """Returns the selected learning rate; None without members."""
        return self.members[0]['learning_rate'] if self.members else None


def select(lines, *, by='standard', rates=(0.0, math.inf)):
    """Returns one Chosen per model and task, in the order of the lines, by validation
    only.

    by       'standard' or 'paper': the definitions of the selection metric
    rates    lowest and highest rate that `sensitivity` covers

    Raises ValueError for members of one model and task that differ in more than learning
    rate and seed.
    """
    groups = {}
    for line in lines:
        groups.setdefault((line['model'], line['task']), []).append(line)
    return [_chosen(group, by, rates) for group in groups.values()]


class Comparison(NamedTuple):
    """Two models on a task, over the seeds that both have (first - second); `p` is after
    Holm's correction over all comparisons."""

    task: str
    first: str
    second: str
    result: statistics.OverSeeds
    p: float
    verdict: str


def compare(chosen):
    """Returns a Comparison of every two models on every task, by their test values,
    paired over seeds by measures.statistics.corrected; no verdict below five seeds."""
    pairs = [
        (first, second, statistics.paired(first.values(), second.values()))
        for first, second in itertools.combinations(chosen, 2)
        if first.task == second.task
    ]
    results = statistics.corrected([paired for *_, paired in pairs])
    compared = []
    for (first, second, _), (result, p) in zip(pairs, results):
        verdict = 'no verdict'
        if result.test:
            better = first if result.difference > 0 else second
            is_clear = p <= 1 - statistics.LEVEL
            verdict = f'{better.model} is better' if is_clear else 'no difference shown'
        names = first.task, first.model, second.model
        compared.append(Comparison(*names, result, p, verdict))
    return compared


def metric_of(line, by='standard'):
    """Returns the selection metric of a line."""
    return PAPER_METRICS[line['kind']] if by == 'paper' else line['metric']


def value(line, side, by, metric):
    """Returns a metric of a member; None if its status is 'not finite'. Raises ValueError
    if another one has no such value."""
    if line['status'] == 'not finite':
        return None
    number = line[side][by].get(metric)
    if number is None or not math.isfinite(number):
        raise ValueError(
            f'{_name(line)} has status {line["status"]}, but its {side} {by} {metric} is '
            f'{number}.'
        )
    return float(number)


def mean_over_seeds(values_S):
    """Returns the Interval of the mean, ± t_(S - 1) s / sqrt S; NaN ends for one seed."""
    mean = float(np.mean(values_S)) if len(values_S) else math.nan
    reach = math.nan
    if len(values_S) > 1:
        reach = statistics.t_margin(values_S) / math.sqrt(len(values_S))
    return statistics.Interval(mean, mean - reach, mean + reach)


def _chosen(group, by, rates):
    for line in group:
        if line.get('item') != group[0].get('item'):
            raise ValueError(
                f'{_name(line)} has other settings than {_name(group[0])}: select from '
                'each grid separately.'
            )
    first = next((line for line in group if line['validation']), group[0])
    if (first['validation'] or {}).get('paper') == {}:
        by = 'standard'  # controls of spans predict texts, but the paper scores tokens
    metric = metric_of(first, by)
    valued, tested, seeds_of = [], [], {}
    for line in group:
        seeds_of.setdefault(line['learning_rate'], set()).add(line['seed'])
    common = set.intersection(*seeds_of.values())
    seeds = {line['seed'] for line in group}
    for line in sorted(group, key=lambda line: (line['learning_rate'], line['seed'])):
        values = [value(line, side, by, metric) for side in ('validation', 'test')]
        if None not in values:
            valued.append((line, values[0]))
            is_within = rates[0] <= line['learning_rate'] <= rates[1]
            if is_within and line['seed'] in common:
                tested.append(values[1])
    members = _best_rate(valued, common or seeds)
    counts = Counter(line['status'] for line in group)
    return Chosen(
        model=group[0]['model'],
        task=group[0]['task'],
        first=first,
        by=by,
        metric=metric,
        members=tuple(members),
        lost=tuple(sorted(seeds - {line['seed'] for line in members})),
        statuses={status: counts[status] for status in STATUSES},
        sensitivity=float(np.std(tested, ddof=1)) if len(tested) > 1 else math.nan,
    )


def _best_rate(valued, seeds):
    """Returns the lines of the rate with values of the most of these seeds and, of such
    rates, the best mean over them."""
    rates = {}
    for line, score in valued:
        rates.setdefault(line['learning_rate'], []).append((line, score))

    def rank(pairs):
        scores = [score for line, score in pairs if line['seed'] in seeds]
        return len(scores), np.mean(scores) if scores else -math.inf

    return [line for line, _ in max(rates.values(), key=rank, default=[])]


def _name(line):
    rate = f'learning rate {line["learning_rate"]:g}, seed {line["seed"]}'
    return f'{line["model"]} on {line["task"]} at {rate}'
