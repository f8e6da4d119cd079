"""Pairwise tests between the models of an analysis, over training seeds.

`tests` has the differences of all pairs of models on all tasks, with verdicts over seeds.
A verdict needs statistics.MIN_SEEDS seeds of both models. With fewer, there is no verdict
and the interval is over texts: it only describes these training runs.
"""

import math
from itertools import combinations, product

import numpy as np

from jepa_text.analysis import probes
from jepa_text.measures import statistics

# The score of a task is the first of these that it has.
SCORES = (
    *('probe_mcc', 'probe_f1', 'probe_accuracy'),
    *('cosine_spearman', 'probe_spearman'),
)
GEOMETRY = tuple(
    (metric, form)
    for metric in ('uniformity', 'effective_rank')
    for form in ('raw', 'length_residualized')
)
MEAN = 'mean'  # in place of the seed, of several
OVER_SEEDS = 'over seeds'
OVER_TEXTS = 'over texts, one training run of each'
OVER_MEANS = 'over texts, the means of these training runs'
_CELL = ('task', 'model', 'control', 'layer', 'pooling')


def tests(chosen, rows, per_example, deviations):
    """The tests of all pairs of models, as dicts; `chosen` is findings.final_rows.

    `difference`, `low` and `high` are over the common seeds if these give a verdict, else
    over texts, as `over` says. `p`, and `p_holm` corrected over all verdicts, are NaN
    without a verdict; `verdict` is a text.
    """
    seeds = by_seed(rows)
    models = list(dict.fromkeys(model for _, model, *_ in chosen if model))
    tasks = list(dict.fromkeys(task for task, *_ in chosen))
    compared = [
        [chosen.get((task, model, '', *value)) for model in pair]
        for task, pair in product(tasks, combinations(models, 2))
        for value in ((score_of(chosen, task), ''), *GEOMETRY)
    ]
    compared = [sides for sides in compared if _are_comparable(sides)]
    values = ([seeds[value_key(side)] for side in sides] for sides in compared)
    verdicts = statistics.corrected([statistics.paired(*both) for both in values])
    samples = by_cell(per_example), by_cell(deviations)
    return [_test(sides, *verdict, samples) for sides, verdict in zip(compared, verdicts)]


def score_of(chosen, task):
    """The metric that a task is judged by, of findings.final_rows; '' without one."""
    measured = {metric for of, model, *_, metric, _ in chosen if of == task and model}
    return next((metric for metric in SCORES if metric in measured), '')


def _are_comparable(sides):
    """Whether both rows exist with finite values on the same number of texts."""
    is_finite = all(side and math.isfinite(side['value']) for side in sides)
    return is_finite and same_count(*sides)


def by_seed(rows):
    """{value_key: {seed: value}} of the rows of single seeds."""
    values = {}
    for row in rows:
        if isinstance(row['seed'], int):
            values.setdefault(value_key(row), {})[row['seed']] = row['value']
    return values


def by_cell(samples):
    """{(task, model, control, layer, pooling): [values of each seed]} from {Result:
    values}."""
    cells = {}
    for result, values in samples.items():
        if values:
            key = tuple(getattr(result, name) for name in _CELL)
            cells.setdefault(key, []).append(values)
    return cells


def _cell(row):
    return tuple(row[name] for name in _CELL)


def value_key(row):
    """Identifies a value across seeds: (task, model, control, layer, pooling, form,
    metric)."""
    return (*_cell(row), row['form'], row['metric'])


def mean_sample(cells, row, key):
    """The samples of `key` of the cell of a row, averaged over its seeds; None without
    any, or if seeds have different numbers. `cells` are from by_cell."""
    samples = [values[key] for values in cells.get(_cell(row), ()) if key in values]
    are_equal = len({len(values_N) for values_N in samples}) == 1
    return np.mean(samples, axis=0) if are_equal else None


def keys_of(cells, row, count):
    """The columns of keys by which the `count` examples of a row depend on each other;
    () if they are independent or their keys are unknown."""
    cell = cells.get(_cell(row), ())
    keys = next((values[probes.KEYS] for values in cell if probes.KEYS in values), None)
    return keys if keys and len(keys[0]) == count else ()


def same_count(one, other):
    """Whether two values are comparable: geometry depends on the number of texts."""
    return not one['form'] or one['count'] == other['count']


def verdict_text(result, p, names):
    """The verdict of a statistics.OverSeeds as text, with its corrected p.

    >>> result = statistics.OverSeeds(0.2, 0.1, 0.3, 0.005, 5, 't-test')
    >>> verdict_text(result, 0.01, ('a', 'b'))
    'a is above b (p = 0.01, 5 seeds)'
    """
    count = f'{result.seeds} seed{"" if result.seeds == 1 else "s"}'
    if not result.test:
        return f'no verdict: {count}, {statistics.MIN_SEEDS} needed'
    end = f'(p = {p:.2g}, {count})'
    if p > 1 - statistics.LEVEL:
        return f'no difference shown {end}'
    side = 'above' if result.difference > 0 else 'below'
    return f'{names[0]} is {side} {names[1]} {end}'


def _test(sides, result, p, samples):
    one, two = sides
    pair = one['model'], two['model']
    difference, low, high, over = *result[:3], OVER_SEEDS
    if not result.test:
        is_mean = any(side['seed'] == MEAN for side in sides)
        over = OVER_MEANS if is_mean else OVER_TEXTS
        difference = one['value'] - two['value']
        low, high = _over_texts(sides, difference, *samples)
    return dict(
        **dict(task=one['task'], first=pair[0], second=pair[1]),
        **dict(metric=one['metric'], form=one['form'], difference=difference),
        **dict(low=low, high=high, over=over, seeds=result.seeds, p=result.p, p_holm=p),
        **dict(test=result.test, verdict=verdict_text(result, p, pair)),
    )


def _over_texts(sides, difference, per_example, deviations):
    """(low, high) of the interval over texts, paired by text or by half-sample."""
    metric, form = sides[0]['metric'], sides[0]['form']
    source, key = (deviations, (metric, form)) if form else (per_example, metric)
    first_N, second_N = (mean_sample(source, side, key) for side in sides)
    if first_N is None or second_N is None:
        return math.nan, math.nan
    if not form:
        keys = keys_of(per_example, sides[0], len(first_N))
        return statistics.mean_interval(first_N - second_N, 'difference', keys)[1:]
    # Both models have the same random halves of the texts.
    reach = statistics.t_margin(first_N - second_N)
    return difference - reach, difference + reach
