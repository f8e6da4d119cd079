"""Values of an analysis -> what may be said: over seeds, between models, of controls.

over_seeds    rows of several training seeds -> their mean, with an interval
compare       {'tests': between.py, 'warnings': what a control explains, in words,
              'examined', 'collapsed', 'worse'}

What is said of a model beside its controls is over texts, of these training runs: it is
no verdict on a way of training.
"""

import math
from collections import defaultdict

import numpy as np

from jepa_text.analysis import between, cells
from jepa_text.evaluation import controls
from jepa_text.measures import geometry, significance, statistics
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
GEOMETRY = {value: value[0] == 'effective_rank' for value in between.GEOMETRY}
# How near what belongs together is: drawn, and read against controls.
NEARNESS = {
    (metric, form): False
    for metric in ('class_alignment', 'distance_ratio', 'alignment')
    for form in ('raw', 'length_controlled')
}
MEAN = 'mean'


def over_seeds(rows):
    """The mean over the training seeds of each model, as rows of seed 'mean'.

    The interval joins Student's t over the seeds with that over sentences, which more
    seeds do not shrink: sqrt(t^2 s^2 / S + mean half-width^2). It describes; verdicts on
    two ways of training are in between.py.
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
    """Tests between models; warnings where a control explains a value; which values were
    `examined`, having a control, and are `beyond` all of theirs; which models have
    `collapsed`, [(task, model)]; which values are `worse` than untrained."""
    rows = rows + over_seeds(rows)
    chosen = final(rows)
    tests = between.tests(chosen, rows, single, deviations)
    found = {'examined': [], 'collapsed': _collapsed(chosen), 'worse': _worse(chosen)}
    warnings, seeds = [], between.by_seed(rows)
    for row, higher, verdicts in _verdicts(chosen, single, found['collapsed']):
        warning = _warning(row, higher, verdicts)
        if warning:
            count = len(
                seeds.get((*between.cell_of(row), row['form'], row['metric']), ())
            )
            warning['words'] += f' ({_over(count)}.)'
            warnings.append(warning)
        beyond = {key: row[key] for key in _NAMED} | {'beyond': not warning}
        found['examined'].append(beyond)
    return found | {'tests': tests, 'warnings': warnings + between.fragile(tests)}


def _over(seeds):
    if seeds <= 1:
        return 'Over texts, this one training run'
    return f'Over texts and {seeds} training runs, described: no verdict on a method'


def _collapsed(chosen):
    """[(task, model)] whose vectors are nearly equal, or on a line, or not finite."""
    shapes = {}
    for (task, model, control, metric, form), row in chosen.items():
        if model and not control and form == 'raw':
            shapes.setdefault((task, model), {})[metric] = row['value']
    needed = ('uniformity', 'effective_rank')
    return [
        place
        for place, values in shapes.items()
        if all(metric in values for metric in needed)
        and geometry.is_collapsed(*(values[metric] for metric in needed))
    ]


def _worse(chosen):
    """Values that can be read off, and are clearly below those of the untrained network:
    the intervals do not meet. Over texts, of these training runs."""
    found = []
    for (task, model, control, metric, form), row in chosen.items():
        place = (task, model, controls.UNTRAINED, metric, form)
        higher = READ.get((metric, form))
        if control or not model or higher is None or place not in chosen:
            continue
        ours, theirs = _interval(row), _interval(chosen[place])
        meet = ours.low <= theirs.high and theirs.low <= ours.high
        if not meet and (ours.value < theirs.value) == higher:
            reached = {'found': ours.value, 'reached': theirs.value}
            found.append({key: row[key] for key in _NAMED} | reached)
    return found


def _verdicts(chosen, single, collapsed):
    """[(row, higher, [(control, Verdict, reached)])] of values that have a control."""
    made, single = [], between.by_cell(single)
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
            if is_missing or (form and not is_alike) or not between.as_many(row, other):
                continue
            verdict = statistics.explained_by_control(
                _interval(row),
                _interval(other),
                control_name=_SAID[name],
                higher=higher,
                p=_paired(single, row, other),
            )
            if verdict.kind == 'beyond':
                is_collapsed = (task, model) in collapsed
                verdict = _merited(row, other, chosen, is_collapsed) or verdict
            verdicts.append((name, verdict, other['value']))
        if verdicts:
            made.append((row, higher, verdicts))
    return made


def _merited(row, other, chosen, is_collapsed):
    """A Verdict against a value that is beyond a control and still has no merit, or None.

    The shape of a collapsed cloud is that of rounding errors. Where all texts lie closer
    together than those of the control, texts that belong together do, too.
    """
    value = row['metric'], row['form']
    if value not in READ and is_collapsed:
        words = f'{row["value"]:.4g} is of collapsed vectors, which are all nearly equal.'
        return statistics.Verdict('explained', words)
    if value not in NEARNESS or row['metric'] == 'distance_ratio':
        return None
    place = row['task'], row['model']
    spread = [
        chosen.get((*place, one['control'], 'uniformity', row['form']))
        for one in (row, other)
    ]
    if None in spread or spread[0]['value'] <= spread[1]['value']:
        return None
    return statistics.Verdict(
        'explained',
        f'{row["value"]:.4g} is nearer than {other["value"]:.4g}, but all of its texts '
        f'lie closer together (uniformity {spread[0]["value"]:.3g} against '
        f'{spread[1]["value"]:.3g}): alignment alone is no merit.',
    )


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
        [
            values[row['metric']]
            for values in single.get(between.cell_of(one), ())
            if row['metric'] in values
        ]
        for one in (row, other)
    ]
    if row['form'] or not all(sides):
        return None
    return significance.sign_flip(*(np.mean(s, axis=0) for s in sides), resamples=5000)


_SAID = {
    controls.UNTRAINED: 'the untrained architecture',
    controls.BAG: 'the bag of its input embeddings',
    controls.TF_IDF: 'TF-IDF',
    controls.LARGEST: 'saying the commonest label always',
    controls.ALWAYS_ONE: "saying '1' always",
}
