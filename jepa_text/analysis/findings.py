"""Values of an analysis -> what may be said: over seeds, between models, of controls.

over_seeds    rows of several training seeds -> their mean, with an interval
compare       {'tests': paired, Holm-corrected, 'warnings': in words}
"""

import math
from collections import defaultdict
from itertools import combinations

import numpy as np

from jepa_text.analysis import cells, controls
from jepa_text.measures import significance, statistics
from jepa_text.measures.statistics import Interval

# Measure, form: is more better? What the text and the tests look at.
READ = {
    ('probe_accuracy', ''): True,
    ('probe_f1', ''): True,
    ('probe_mcc', ''): True,
    ('probe_spearman', ''): True,
    ('cosine_spearman', ''): True,
    ('high_overlap_auc', ''): True,
}
GEOMETRY = {
    ('uniformity', 'raw'): False,
    ('uniformity', 'length_controlled'): False,
    ('effective_rank', 'raw'): True,
    ('effective_rank', 'length_controlled'): True,
}
MEAN = 'mean'
_CERTAIN = 0.05


def over_seeds(rows):
    """The mean over the training seeds of each model, as rows of seed 'mean'.

    The interval joins Student's t over the seeds with that over sentences, which more
    seeds do not shrink: sqrt(t^2 s^2 / S + mean half-width^2).
    """
    groups = defaultdict(list)
    for row in rows:
        if row['model'] and not row['other']:
            groups[tuple(row[key] for key in _PLACE)].append(row)
    found = []
    for group in groups.values():
        if len({row['seed'] for row in group}) < 2:
            continue
        values = np.array([row['value'] for row in group])
        halves = np.array([(row['high'] - row['low']) / 2 for row in group])
        reach = cells.quantile(len(group) - 1) * np.std(values, ddof=1)
        reach = math.hypot(reach / math.sqrt(len(group)), np.nanmean([0.0, *halves]))
        mean = float(values.mean())
        whole = {'value': mean, 'low': mean - reach, 'high': mean + reach}
        found.append({**group[0], 'seed': MEAN, **whole})
    return found


_PLACE = ('task', 'model', 'control', 'layer', 'pooling', 'form', 'metric')


def final(rows, control=None):
    """Rows of the last layer and the first pooling; of several seeds, the mean.

    {(task, model, control, metric, form): row}; `control` None is all.
    """
    last, pooling, several = {}, {}, set()
    for row in rows:
        place = row['task'], row['model'], row['control']
        if row['layer'] is not None:
            last[place] = max(last.get(place, 0), row['layer'])
        pooling.setdefault(place, row['pooling'])
        if row['seed'] == MEAN:
            several.add(row['model'])
    found = {}
    for row in rows:
        place = row['task'], row['model'], row['control']
        is_last = row['layer'] in (None, last.get(place)) and not row['other']
        is_seed = row['model'] in several and row['seed'] != MEAN
        is_wanted = control is None or row['control'] == control
        if is_last and is_wanted and not is_seed and row['pooling'] == pooling[place]:
            found[(*place, row['metric'], row['form'])] = row
    return found


def compare(rows, deviations, single):
    """Paired tests between models, and warnings where a control explains a value."""
    rows = rows + over_seeds(rows)
    tests = _tests(rows, deviations, single)
    return {'tests': tests, 'warnings': _warnings(rows) + _fragile(tests)}


def _warnings(rows):
    """One line for each value of a model that a control reaches as well."""
    chosen, said = final(rows), []
    for (task, model, control, metric, form), row in chosen.items():
        higher = (READ | GEOMETRY).get((metric, form))
        if control or not model or higher is None or not math.isfinite(row['low']):
            continue
        found = Interval(row['value'], row['low'], row['high'])
        verdicts = []
        for name in controls.CONTROLS:
            # Widths differ, so ranks and spread of TF-IDF say nothing about a model.
            owner = '' if name == controls.TF_IDF else model
            other = chosen.get((task, owner, name, metric, form))
            if other is None or (not owner and (metric, form) in GEOMETRY):
                continue
            verdict = _verdict(found, other, name, higher)
            verdicts.append((name, verdict, other['value']))
        bad = [one for one in verdicts if one[1].kind != 'beyond']
        if bad:
            # The strongest: 'explained' before 'unclear'.
            name, worst, reached = min(bad, key=lambda one: one[1].kind)
            said.append(
                {
                    **{key: row[key] for key in ('task', 'model', 'metric', 'form')},
                    'kind': worst.kind,
                    'control': name,
                    'found': row['value'],
                    'reached': reached,
                    'words': worst.words,
                }
            )
    return said


def _verdict(found, other, name, higher):
    low, high = (x if math.isfinite(x) else other['value'] for x in _ends(other))
    reached = Interval(other['value'], low, high)
    return statistics.explained_by_control(
        found, reached, control_name=_SAID[name], higher=higher
    )


_SAID = {
    controls.UNTRAINED: 'the untrained architecture',
    controls.BAG: 'the bag of its input embeddings',
    controls.TF_IDF: 'TF-IDF',
}


def _ends(row):
    return row['low'], row['high']


def _tests(rows, deviations, single):
    """Every two models, on every task: rows with p, and p after Holm over all."""
    chosen, made = final(rows, control=''), []
    models = list(dict.fromkeys(model for _, model, *_ in chosen if model))
    tasks = list(dict.fromkeys(task for task, *_ in chosen))
    for task in tasks:
        for pair in combinations(models, 2):
            made += _read_tests(task, pair, chosen, single)
            made += _geometry_tests(task, pair, chosen, deviations)
    for test, p in zip(made, significance.holm([test['p'] for test in made] or [1.0])):
        test['p_holm'] = float(p)
    return made


def _read_tests(task, pair, chosen, single):
    """Sentences as pairs: right answers, and similarity that agrees with people."""
    found = []
    for metric in ('probe_accuracy', 'cosine_spearman'):
        sides = [_of(single, chosen.get((task, m, '', metric, ''))) for m in pair]
        sides = [[values[metric] for values in side] for side in sides]
        if all(sides):
            first_N, second_N = (np.mean(side, axis=0) for side in sides)
            paired = significance.paired_bootstrap(first_N, second_N, resamples=2000)
            p = significance.sign_flip(first_N, second_N, resamples=5000)
            found.append(_test(task, pair, metric, '', paired[:3], p))
    return found


def _geometry_tests(task, pair, chosen, deviations):
    """The same random halves of the texts for both: Student's t of the difference."""
    found = []
    for metric, form in GEOMETRY:
        rows = [chosen.get((task, model, '', metric, form)) for model in pair]
        sides = [_of(deviations, row) for row in rows]
        sides = [[values[metric, form] for values in side if values] for side in sides]
        if not all(sides):
            continue
        difference = rows[0]['value'] - rows[1]['value']
        spread_R = np.mean(sides[0], axis=0) - np.mean(sides[1], axis=0)
        error, freedom = float(np.std(spread_R, ddof=1)), len(spread_R) - 1
        reach = cells.quantile(freedom) * error
        interval = (difference, difference - reach, difference + reach)
        p = _two_sided(difference / error, freedom) if error else float(not difference)
        found.append(_test(task, pair, metric, form, interval, p))
    return found


def _of(by_cell, row):
    """What was kept for the cells of a row: one, or one a seed."""
    if row is None:
        return []
    keys = ('task', 'model', 'control', 'layer', 'pooling')
    return [
        values
        for cell, values in by_cell.items()
        if values and all(getattr(cell, key) == row[key] for key in keys)
    ]


def _two_sided(t, freedom):
    """P(|T| > t): the normal tail of Wallace's (1959) transformation, exact to 1 %."""
    z = math.sqrt(freedom * math.log1p(t * t / freedom))
    z *= (8 * freedom + 1) / (8 * freedom + 3)
    return min(1.0, 2 * statistics.NormalDist().cdf(-z))


def _test(task, pair, metric, form, interval, p):
    difference, low, high = (float(x) for x in interval)
    place = dict(task=task, first=pair[0], second=pair[1], metric=metric, form=form)
    return {**place, 'difference': difference, 'low': low, 'high': high, 'p': float(p)}


def _fragile(tests):
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
        if test['form'] != 'raw' or controlled is None or test['p_holm'] > _CERTAIN:
            continue
        gone = controlled['p_holm'] > _CERTAIN
        turned = controlled['difference'] * test['difference'] < 0
        if gone or turned:
            words = (
                f'{test["first"]} and {test["second"]} differ by '
                f'{test["difference"]:.3g} in raw {test["metric"]}, but '
                f'{"the other way round" if turned and not gone else "not clearly"} '
                f'({controlled["difference"]:.3g}) once length is taken out: the raw '
                'difference is one in how they show the length of a text.'
            )
            both = f'{test["first"]}, {test["second"]}'
            said.append(
                dict(
                    task=test['task'],
                    model=both,
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
