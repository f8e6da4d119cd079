"""Is one way of training better than another? Two models of an analysis, seed by seed.

tests     every two models on every task: differences, and verdicts over training seeds
fragile   differences of raw vectors that are gone once length is taken out

A verdict takes significance.LEAST_SEEDS seeds of both. With fewer there is none: the
interval is over texts then, of these training runs, and describes these alone.
"""

import math
from itertools import combinations

import numpy as np

from jepa_text.analysis import cells
from jepa_text.measures import significance

READ = (('probe_accuracy', ''), ('cosine_spearman', ''))
GEOMETRY = tuple(
    (metric, form)
    for metric in ('uniformity', 'effective_rank')
    for form in ('raw', 'length_controlled')
)
OVER_SEEDS = 'over seeds'
OVER_TEXTS = 'over texts, one training run of each'
OVER_MEANS = 'over texts, the means of these training runs'
_CERTAIN = 0.05
_CELL = ('task', 'model', 'control', 'layer', 'pooling')


def tests(chosen, rows, single, deviations):
    """Rows of every two models; `chosen` are those of findings.final.

    `difference`, `low`, `high` are of the seeds that both have where these give a
    verdict, else over texts, as `over` says; `p` and `p_holm`, corrected over all
    verdicts, are NaN without one; `verdict` is in words.
    """
    seeds = by_seed(rows)
    models = list(dict.fromkeys(model for _, model, *_ in chosen if model))
    tasks = list(dict.fromkeys(task for task, *_ in chosen))
    compared = []
    for task in tasks:
        for pair in combinations(models, 2):
            for value in READ + GEOMETRY:
                sides = [chosen.get((task, model, '', *value)) for model in pair]
                is_there = all(s and math.isfinite(s['value']) for s in sides)
                if is_there and as_many(*sides):
                    values = [seeds[_place(side)] for side in sides]
                    common = sorted(values[0].keys() & values[1].keys())
                    compared.append(
                        (sides, [[side[seed] for seed in common] for side in values])
                    )
    count = sum(len(first) >= significance.LEAST_SEEDS for _, (first, _) in compared)
    found = [
        significance.over_seeds(*values, tests=count) if values[0] else None
        for _, values in compared
    ]
    corrected = significance.holm_known([one.p if one else math.nan for one in found])
    kept = by_cell(single), by_cell(deviations)
    return [
        _test(sides, one, float(p), kept)
        for (sides, _), one, p in zip(compared, found, corrected)
    ]


def by_seed(rows):
    """{place of a value: {seed: value}} of the rows of single seeds."""
    found = {}
    for row in rows:
        if isinstance(row['seed'], int) and not row['other']:
            found.setdefault(_place(row), {})[row['seed']] = row['value']
    return found


def by_cell(kept):
    """{task, model, control, layer, pooling: what was kept, one a seed}."""
    found = {}
    for cell, values in kept.items():
        if values:
            key = tuple(getattr(cell, name) for name in _CELL)
            found.setdefault(key, []).append(values)
    return found


def cell_of(row):
    """The key of `by_cell` for a row."""
    return tuple(row[name] for name in _CELL)


def as_many(one, other):
    """Are two values of geometry of as many texts? Ranks depend on their number."""
    return not one['form'] or one['count'] == other['count']


def fragile(tests):
    """Differences of raw vectors that are gone once length is taken out."""
    place = ('task', 'first', 'second', 'metric')
    other = {
        tuple(test[key] for key in place): test
        for test in tests
        if test['form'] == 'length_controlled'
    }
    said = []
    for test in tests:
        controlled = other.get(tuple(test[key] for key in place))
        if test['form'] != 'raw' or controlled is None or not _is_clear(test):
            continue
        gone = not _is_clear(controlled)
        turned = controlled['difference'] * test['difference'] < 0
        if gone or turned:
            words = (
                f'{test["first"]} and {test["second"]} differ by '
                f'{test["difference"]:.3g} in raw {test["metric"]}, but '
                f'{"the other way round" if turned and not gone else "not clearly"} '
                f'({controlled["difference"]:.3g}) once length is taken out: the raw '
                'difference is one in how they show the length of a text '
                f'({test["over"]}).'
            )
            said.append(
                dict(
                    task=test['task'],
                    model=f'{test["first"]}, {test["second"]}',
                    metric=test['metric'],
                    form='raw',
                    kind='explained',
                    control='length',
                    found=test['difference'],
                    reached=controlled['difference'],
                    words=words,
                )
            )
    return said


def is_sure(test):
    """Is there a verdict, and does it name a difference?"""
    return test['p_holm'] <= _CERTAIN


def _is_clear(test):
    """By the verdict; without one, by the interval over texts."""
    is_verdict = not math.isnan(test['p_holm'])
    return is_sure(test) if is_verdict else test['low'] > 0 or test['high'] < 0


def _place(row):
    return (*cell_of(row), row['form'], row['metric'])


def _test(sides, found, p, kept):
    one, two = sides
    pair = one['model'], two['model']
    if found is None:  # no seed is in both
        difference = one['value'] - two['value']
        ends = math.nan, math.nan, math.nan
        found = significance.OverSeeds(difference, *ends, 0, '')
    difference, low, high, over = (*found[:3], OVER_SEEDS)
    if not found.test:
        over = OVER_TEXTS if found.seeds <= 1 else OVER_MEANS
        difference = one['value'] - two['value']
        low, high = _over_texts(sides, difference, *kept)
    return dict(
        **dict(task=one['task'], first=pair[0], second=pair[1]),
        **dict(metric=one['metric'], form=one['form']),
        **dict(difference=difference, low=low, high=high, over=over, seeds=found.seeds),
        **dict(p=found.p, p_holm=p, test=found.test),
        verdict=significance.said(found, p, pair),
    )


def _over_texts(sides, difference, single, deviations):
    """The ends of the interval over texts: paired, the same texts or halves for both."""
    metric, form = sides[0]['metric'], sides[0]['form']
    key = (metric, form) if form else metric
    found = [
        [
            values[key]
            for values in (deviations if form else single).get(cell_of(side), ())
        ]
        for side in sides
    ]
    if not all(found):
        return math.nan, math.nan
    first_N, second_N = (np.mean(side, axis=0) for side in found)
    if not form:
        paired = significance.paired_bootstrap(first_N, second_N, resamples=2000)
        return paired.low, paired.high
    # The same random halves of the texts for both.
    reach = cells.quantile(len(first_N) - 1) * float(np.std(first_N - second_N, ddof=1))
    return difference - reach, difference + reach
