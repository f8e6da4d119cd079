"""Is one way of training better than another? Two models of an analysis, seed by seed.

tests     every two models on every task: differences, and verdicts over training seeds
fragile   differences of raw vectors that are gone once length is taken out

A verdict takes statistics.MIN_SEEDS seeds of both. With fewer there is none: the
interval is over texts then, of these training runs, and describes these alone.
"""

import math
from itertools import combinations, product

import numpy as np

from jepa_text.measures import statistics

READ = (('probe_accuracy', ''), ('cosine_spearman', ''))
GEOMETRY = tuple(
    (metric, form)
    for metric in ('uniformity', 'effective_rank')
    for form in ('raw', 'length_residualized')
)
OVER_SEEDS = 'over seeds'
OVER_TEXTS = 'over texts, one training run of each'
OVER_MEANS = 'over texts, the means of these training runs'
_RESULT = ('task', 'model', 'control', 'layer', 'pooling')


def tests(chosen, rows, single, deviations):
    """Rows of every two models; `chosen` are those of findings.final.

    `difference`, `low`, `high` are of the seeds that both have where these give a
    verdict, else over texts, as `over` says; `p` and `p_holm`, corrected over all
    verdicts, are NaN without one; `verdict` is in words.
    """
    seeds = by_seed(rows)
    models = list(dict.fromkeys(model for _, model, *_ in chosen if model))
    tasks = list(dict.fromkeys(task for task, *_ in chosen))
    compared = [
        [chosen.get((task, model, '', *value)) for model in pair]
        for task, pair, value in product(tasks, combinations(models, 2), READ + GEOMETRY)
    ]
    compared = [sides for sides in compared if _are_comparable(sides)]
    values = ([seeds[_place(side)] for side in sides] for sides in compared)
    verdicts = statistics.corrected([statistics.paired(*both) for both in values])
    kept = by_result(single), by_result(deviations)
    return [_test(sides, *verdict, kept) for sides, verdict in zip(compared, verdicts)]


def _are_comparable(sides):
    """Are two cells there, with values, and of as many texts?"""
    is_there = all(side and math.isfinite(side['value']) for side in sides)
    return is_there and as_many(*sides)


def by_seed(rows):
    """{place of a value: {seed: value}} of the rows of single seeds."""
    found = {}
    for row in rows:
        if isinstance(row['seed'], int) and not row['other']:
            found.setdefault(_place(row), {})[row['seed']] = row['value']
    return found


def by_result(kept):
    """{task, model, control, layer, pooling: what was kept, one a seed}."""
    found = {}
    for result, values in kept.items():
        if values:
            key = tuple(getattr(result, name) for name in _RESULT)
            found.setdefault(key, []).append(values)
    return found


def result_of(row):
    """The key of `by_result` for a row."""
    return tuple(row[name] for name in _RESULT)


def kept_of(by_result, row, key):
    """[the values of that key that were kept for the cell of a row], one a seed."""
    kept = by_result.get(result_of(row), ())
    return [values[key] for values in kept if key in values]


def as_many(one, other):
    """Are two values of geometry of as many texts? Ranks depend on their number."""
    return not one['form'] or one['count'] == other['count']


def fragile(tests):
    """Differences of raw vectors that are gone once length is taken out."""
    found, other = [], {}
    for test in tests:
        place = test['task'], test['first'], test['second'], test['metric']
        other.setdefault(place, {})[test['form']] = test
    for forms in other.values():
        test, controlled = forms.get('raw'), forms.get('length_residualized')
        if test is None or controlled is None or not _is_clear(test):
            continue
        gone = not _is_clear(controlled)
        if not gone and controlled['difference'] * test['difference'] >= 0:
            continue
        words = (
            f'{test["first"]} and {test["second"]} differ by '
            f'{test["difference"]:.3g} in raw {test["metric"]}, but '
            f'{"not clearly" if gone else "the other way round"} '
            f'({controlled["difference"]:.3g}) once length is taken out: the raw '
            'difference is one in how they show the length of a text '
            f'({test["over"]}).'
        )
        model = f'{test["first"]}, {test["second"]}'
        found.append(
            dict(task=test['task'], model=model, metric=test['metric'], form='raw')
            | dict(kind='explained', control='length', found=test['difference'])
            | dict(reached=controlled['difference'], words=words)
        )
    return found


def is_sure(test):
    """Is there a verdict, and does it name a difference?"""
    return test['p_holm'] <= 1 - statistics.LEVEL


def said(found, p, names):
    """The verdict of a statistics.OverSeeds in words, with its corrected p.

    >>> said(statistics.OverSeeds(0.2, 0.1, 0.3, 0.005, 5, 't-test'), 0.01, ('a', 'b'))
    'a is above b (p = 0.01, 5 seeds)'
    """
    count = f'{found.seeds} seed{"" if found.seeds == 1 else "s"}'
    if not found.test:
        return f'no verdict: {count}, {statistics.MIN_SEEDS} needed'
    end = f'(p = {p:.2g}, {count})'
    if p > 1 - statistics.LEVEL:
        return f'no difference shown {end}'
    side = 'above' if found.difference > 0 else 'below'
    return f'{names[0]} is {side} {names[1]} {end}'


def _is_clear(test):
    """By the verdict; without one, by the interval over texts."""
    is_verdict = not math.isnan(test['p_holm'])
    return is_sure(test) if is_verdict else test['low'] > 0 or test['high'] < 0


def _place(row):
    return (*result_of(row), row['form'], row['metric'])


def _test(sides, found, p, kept):
    one, two = sides
    pair = one['model'], two['model']
    difference, low, high, over = *found[:3], OVER_SEEDS
    if not found.test:
        over = OVER_TEXTS if found.seeds <= 1 else OVER_MEANS
        difference = one['value'] - two['value']
        low, high = _over_texts(sides, difference, *kept)
    return (
        dict(task=one['task'], first=pair[0], second=pair[1])
        | dict(metric=one['metric'], form=one['form'])
        | dict(difference=difference, low=low, high=high, over=over, seeds=found.seeds)
        | dict(p=found.p, p_holm=p, test=found.test, verdict=said(found, p, pair))
    )


def _over_texts(sides, difference, single, deviations):
    """The ends of the interval over texts: paired, the same texts or halves for both."""
    metric, form = sides[0]['metric'], sides[0]['form']
    source, key = (deviations, (metric, form)) if form else (single, metric)
    found = [kept_of(source, side, key) for side in sides]
    if not all(found):
        return math.nan, math.nan
    first_N, second_N = (np.mean(side, axis=0) for side in found)
    if not form:
        return statistics.bootstrap_interval(np.mean, first_N - second_N)[1:]
    # The same random halves of the texts for both.
    reach = statistics.t_reach(first_N - second_N)
    return difference - reach, difference + reach
