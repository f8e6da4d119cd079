"""From result lines of members to one learning rate and value a model and task.

A member is a model fine-tuned on a task at a learning rate and a seed; its line says how
it ended and what it reached:

    {'model', 'task', 'kind', 'learning_rate', 'seed', 'status', 'data_revision', ...,
     'validation': {'standard': {name: value}, 'paper': {...}}, 'test': the same}

`select` takes the learning rate of each model and task, by validation only. What it
chose, comparison.py averages and compares.

Members that are 'not finite' have no values. They are counted, and a learning rate that
lost one is chosen only if every rate did. Collapsed ones count with the values they have.
"""

import dataclasses
import math
from collections import Counter

import numpy as np

from jepa_text.evaluation.results import lines as results
from jepa_text.measures import statistics

# What selects where a line names no `metric` of its own.
METRICS = {
    'labels': 'accuracy',
    'scores': 'spearman',
    'tags': 'entity_f1',
    'spans': 'f1',
    'retrieval': 'ndcg@10',
    'cloze': 'accuracy',
}
PAPER_METRICS = METRICS | {'tags': 'sentence_macro_f1', 'spans': 'token_f1'}
RULES = ('pooled', 'per seed')
PAPER_RATES = (1e-5, 1e-4)  # between which the paper's Figure 5 looks
# What the members of one model and task share; else their values are of other things.
_OWN = ('model', 'task', 'learning_rate', 'seed')
_SHARED = ('metric', *(key for key in results.CONFIG if key not in _OWN))


@dataclasses.dataclass(frozen=True, eq=False)
class Chosen:
    """A model on a task at the learning rate that validation chose.

    metric         what chose: of `by`, 'standard' or 'paper'
    members        lines of the chosen members, one a seed, by seed
    lost           seeds that have no such member: not finite
    statuses       {status: how many of all members}
    sensitivity    standard deviation of the test metric over seeds and learning rates
                   (arXiv 2507.00994, Figure 5), of `measured` members; NaN below two
    """

    model: str
    task: str
    by: str
    metric: str
    rule: str
    members: tuple
    lost: tuple
    statuses: dict
    sensitivity: float
    measured: int

    def values(self, side='test', by=None, metric=None):
        """{seed: value} of the chosen members; of any metric in their lines.

        Raises ValueError for one that a member lacks.
        """
        given = by or self.by, metric or self.metric
        found = {line['seed']: value(line, side, *given) for line in self.members}
        for line in self.members:
            if found[line['seed']] is None:
                raise ValueError(f'{_name(line)} collapsed before it had {given}.')
        return found

    def interval(self, side='test', by=None, metric=None):
        """Interval of the mean over seeds, Student's t."""
        return mean_over_seeds(list(self.values(side, by, metric).values()))

    @property
    def learning_rates(self):
        """{seed: learning rate}; all the same where the rule is 'pooled'."""
        return {line['seed']: line['learning_rate'] for line in self.members}


def select(lines, *, by='standard', rule='pooled', rates=(0.0, math.inf)):
    """[Chosen], one a model and task, in the order of the lines.

    rule     'pooled': one learning rate, of the best mean over seeds; 'per seed': the
             best of each seed, which is higher by what seeds differ. Of equals the
             smallest rate
    by       'standard' or 'paper': whose metric selects
    rates    the lowest and highest that `sensitivity` is over

    Only validation chooses. Raises ValueError for a line that lacks something, two of
    one member, and members of one model and task that differ in more than learning rate
    and seed.
    """
    if rule not in RULES or by not in ('standard', 'paper'):
        raise ValueError(
            f"rule={rule!r}, by={by!r}: the rule is 'pooled' or 'per seed', and by is "
            "'standard' or 'paper'."
        )
    groups = {}
    for line in lines:
        _check(line)
        groups.setdefault((line['model'], line['task']), []).append(line)
    return [_chosen(group, by, rule, rates) for group in groups.values()]


def metric_of(line, by='standard'):
    """What selects on the task of a line: its `metric`, else that of its kind."""
    kind = line['kind']
    if kind not in METRICS:
        raise ValueError(f'kind={kind!r}: there are {", ".join(METRICS)}.')
    if by == 'paper':
        return PAPER_METRICS[kind]
    known = (line['validation'] or {}).get('standard', {})
    if kind == 'tags' and known and METRICS[kind] not in known:
        return line.get('metric') or 'token_accuracy'  # of tags that are no entities
    return line.get('metric') or METRICS[kind]


def value(line, side, by, metric):
    """The metric of a member; None if it is not finite or collapsed before it had one.

    Raises ValueError where one that is done has none.
    """
    found = ((line[side] or {}).get(by) or {}).get(metric)
    if line['status'] == 'not finite':
        return None
    if found is not None and math.isfinite(found):
        return float(found)
    if line['status'] == 'collapsed':
        return None
    raise ValueError(f'{_name(line)} is done, but its {side} {by} {metric} is {found}.')


def mean_over_seeds(values_S):
    """Interval of the mean, t_(S - 1) s / sqrt(S) to both sides; NaN ends of one seed.

    >>> mean_over_seeds([0.5, 0.5])
    Interval(value=0.5, low=0.5, high=0.5)
    """
    mean = float(np.mean(values_S)) if len(values_S) else math.nan
    reach = math.nan
    if len(values_S) > 1:
        reach = statistics.t_reach(values_S) / math.sqrt(len(values_S))
    return statistics.Interval(mean, mean - reach, mean + reach)


def _chosen(group, by, rule, rates):
    _check_alike(group)
    metric = metric_of(next((g for g in group if g['validation']), group[0]), by)
    valued, tested = [], []
    for line in sorted(group, key=lambda line: (line['learning_rate'], line['seed'])):
        values = [value(line, side, by, metric) for side in ('validation', 'test')]
        if None not in values:
            valued.append((line, values[0]))
            if rates[0] <= line['learning_rate'] <= rates[1]:
                tested.append(values[1])
    members = (_pooled if rule == 'pooled' else _per_seed)(valued)
    seeds = {line['seed'] for line in group}
    counts = Counter(line['status'] for line in group)
    return Chosen(
        model=group[0]['model'],
        task=group[0]['task'],
        by=by,
        metric=metric,
        rule=rule,
        members=tuple(members),
        lost=tuple(sorted(seeds - {line['seed'] for line in members})),
        statuses={status: counts[status] for status in results.STATUSES},
        sensitivity=float(np.std(tested, ddof=1)) if len(tested) > 1 else math.nan,
        measured=len(tested),
    )


def _pooled(valued):
    """Lines of the rate of the most seeds, and of these of the best mean validation."""
    rates = {}
    for line, score in valued:
        rates.setdefault(line['learning_rate'], []).append((line, score))

    def rank(pairs):
        return len(pairs), np.mean([score for _, score in pairs])

    return [line for line, _ in max(rates.values(), key=rank, default=[])]


def _per_seed(valued):
    seeds = {}
    for line, score in valued:
        seeds.setdefault(line['seed'], []).append((line, score))
    best = [max(pairs, key=lambda pair: pair[1])[0] for pairs in seeds.values()]
    return sorted(best, key=lambda line: line['seed'])


def _check(line):
    needed = ('model', 'task', 'kind', 'learning_rate', 'seed', 'status')
    missing = [key for key in (*needed, 'validation', 'test') if key not in line]
    if missing:
        raise ValueError(f'A result line lacks {", ".join(missing)}: {line}.')
    if line['status'] not in results.STATUSES:
        raise ValueError(
            f'{_name(line)} has the status {line["status"]!r}: there are '
            f'{", ".join(results.STATUSES)}.'
        )


def _check_alike(group):
    seen = set()
    for line in group:
        member = line['learning_rate'], line['seed']
        if member in seen:
            raise ValueError(f'{_name(line)} is there twice: give each member one line.')
        seen.add(member)
        for key in _SHARED:
            if line.get(key) != group[0].get(key):
                raise ValueError(
                    f'{_name(line)} has {key}={line.get(key)!r}, another member '
                    f'{group[0].get(key)!r}: they are not one grid. Select from each '
                    'alone.'
                )


def _name(line):
    rate = f'learning rate {line["learning_rate"]:g}, seed {line["seed"]}'
    return f'{line["model"]} on {line["task"]} at {rate}'
