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
    ('word_recovery_auc', ''): True,
    ('cosine_given_overlap', ''): True,
    ('balance', ''): True,
}
GEOMETRY = {
    ('uniformity', 'raw'): False,
    ('uniformity', 'length_controlled'): False,
    ('effective_rank', 'raw'): True,
    ('effective_rank', 'length_controlled'): True,
}
# How near what belongs together is: drawn, and read against controls.
NEARNESS = {
    (metric, form): False
    for metric in ('class_alignment', 'distance_ratio', 'alignment')
    for form in ('raw', 'length_controlled')
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
        known = halves[np.isfinite(halves)]
        within = known.mean() if known.size else 0.0
        reach = math.hypot(reach / math.sqrt(len(group)), within)
        mean = float(values.mean())
        whole = {'value': mean, 'low': mean - reach, 'high': mean + reach}
        found.append({**group[0], 'seed': MEAN, **whole})
    return found


_NAMED = ('task', 'model', 'metric', 'form')
_PLACE = ('task', 'model', 'control', 'layer', 'pooling', 'form', 'metric')


def final(rows, control=None):
    """Rows of the last layer measured and the first pooling; of several seeds, the mean.

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
    """Paired tests between models; warnings where a control explains a value; and which
    values were `examined`, having a control, and are `beyond` all of theirs."""
    rows = rows + over_seeds(rows)
    tests = _tests(rows, deviations, single)
    examined, warnings = [], []
    for row, higher, verdicts in _verdicts(rows, single):
        warning = _warning(row, higher, verdicts)
        warnings += [warning] if warning else []
        examined.append({key: row[key] for key in _NAMED} | {'beyond': not warning})
    return {'tests': tests, 'warnings': warnings + _fragile(tests), 'examined': examined}


def _verdicts(rows, single):
    """[(row, higher, [(control, Verdict, reached)])] of values that have a control."""
    chosen, made = final(rows), []
    for (task, model, control, metric, form), row in chosen.items():
        higher = (READ | GEOMETRY | NEARNESS).get((metric, form))
        if control or not model or higher is None or not math.isfinite(row['value']):
            continue
        verdicts = []
        for name in _SAID:
            # Widths differ, so the geometry of TF-IDF says nothing about a model.
            is_alike = name in (controls.UNTRAINED, controls.BAG)
            # Its own, which reads what it reads, if there is one.
            places = ((task, owner, name, metric, form) for owner in (model, ''))
            other = next((chosen[place] for place in places if place in chosen), None)
            is_missing = other is None or not math.isfinite(other['value'])
            if is_missing or (form and not is_alike) or not _as_many(row, other):
                continue
            verdict = statistics.explained_by_control(
                _interval(row),
                _interval(other),
                control_name=_SAID[name],
                higher=higher,
                p=_paired(single, row, other),
            )
            verdicts.append((name, verdict, other['value']))
        if verdicts:
            made.append((row, higher, verdicts))
    return made


def _warning(row, higher, verdicts):
    """A line for a value that a control reaches as well; None if none does."""
    bad = [one for one in verdicts if one[1].kind != 'beyond']
    if not bad:
        return None
    # The strongest: 'explained' before 'unclear', then by what it reaches.
    sign = -1 if higher else 1
    name, worst, reached = min(bad, key=lambda one: (one[1].kind, sign * one[2]))
    return {
        **{key: row[key] for key in _NAMED},
        'kind': worst.kind,
        'control': name,
        'found': row['value'],
        'reached': reached,
        'words': worst.words,
    }


def _interval(row):
    """The Interval of a row, with its value for ends that were not measured."""
    ends = (row[key] for key in ('value', 'low', 'high'))
    return Interval(*(x if math.isfinite(x) else row['value'] for x in ends))


def _paired(single, row, other):
    """p of the test over the sentences of both; None where there is none."""
    sides = [
        [values[row['metric']] for values in _of(single, one) if row['metric'] in values]
        for one in (row, other)
    ]
    if row['form'] or not all(sides):
        return None
    return significance.sign_flip(*(np.mean(s, axis=0) for s in sides), resamples=5000)


_SAID = {
    controls.UNTRAINED: 'the untrained architecture',
    controls.BAG: 'the bag of its input embeddings',
    controls.TF_IDF: 'TF-IDF',
    controls.LARGEST: 'saying the commonest training label always',
    controls.ALWAYS_ONE: "saying '1' always",
}


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
        if not all(sides) or not _as_many(*rows):
            continue
        difference = rows[0]['value'] - rows[1]['value']
        spread_R = np.mean(sides[0], axis=0) - np.mean(sides[1], axis=0)
        error, freedom = float(np.std(spread_R, ddof=1)), len(spread_R) - 1
        reach = cells.quantile(freedom) * error
        interval = (difference, difference - reach, difference + reach)
        p = float(not difference)
        if error:
            p = cells.two_sided(difference / error, freedom)
        found.append(_test(task, pair, metric, form, interval, p))
    return found


def _as_many(one, other):
    """Are two values of geometry of as many texts? Ranks depend on their number."""
    return not one['form'] or one['count'] == other['count']


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
