"""Values of an analysis -> what may be said: over seeds, between models, of controls.

over_seeds    rows of several training seeds -> their mean, with an interval
compare       {'tests': comparisons.py, 'warnings': what a control explains, in words,
              'examined', 'collapsed', 'worse'}

What is said of a model beside its controls is over texts, of these training runs: it is
no verdict on a way of training.
"""

import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from jepa_text.analysis import comparisons
from jepa_text.evaluation import controls
from jepa_text.measures import geometry, statistics
from jepa_text.measures.statistics import Interval

# (measure, form): is more better? What the text and the tests look at.
READ = {
    (metric, ''): True
    for metric in (
        *('probe_accuracy', 'probe_f1', 'probe_mcc', 'probe_spearman'),
        *('cosine_spearman', 'high_overlap_auc', 'word_recovery_auc'),
        *('cosine_given_overlap', 'balance'),
    )
}
GEOMETRY = {value: value[0] == 'effective_rank' for value in comparisons.GEOMETRY}
# How near what belongs together is: drawn, and read against controls.
NEARNESS = {
    (metric, form): False
    for metric in ('class_alignment', 'distance_ratio', 'alignment')
    for form in ('raw', 'length_residualized')
}
MEAN = 'mean'
_NAMED = ('task', 'model', 'metric', 'form')
_PLACE = ('task', 'model', 'control', 'layer', 'pooling', 'form', 'metric')
_SAID = {
    controls.UNTRAINED: 'the untrained architecture',
    controls.BAG: 'the bag of its input embeddings',
    controls.TF_IDF: 'TF-IDF',
    controls.LARGEST: 'saying the commonest label always',
    controls.ALWAYS_ONE: "saying '1' always",
}


class Verdict(NamedTuple):
    """`kind` is 'explained', 'unclear' or 'beyond'; `words` say so for a report."""

    kind: str
    words: str


def explained_by_control(model, control, name, higher=True, p=None):
    """A Verdict: does a control (untrained, bag of embeddings, TF-IDF) reach the value?

    `model` and `control` are Intervals; `higher` says which way is better. 'explained':
    the control is as good or better, or the intervals meet and `p`, of a paired test over
    the same sentences, is above 0.05; 'unclear': the intervals meet; 'beyond': they do
    not. Intervals alone explain nothing: what both models find hard makes each of them
    wide, and their difference not.

    >>> found, control = Interval(0.62, 0.59, 0.65), Interval(0.6, 0.6, 0.6)
    >>> [explained_by_control(found, control, 'it', p=p).kind for p in (0.4, 0.001, None)]
    ['explained', 'unclear', 'unclear']
    >>> explained_by_control(found, Interval(0.5, 0.5, 0.5), 'TF-IDF').words
    '0.62 (0.59 to 0.65) is beyond TF-IDF, which reaches 0.5.'
    """
    if not np.isfinite([model, control]).all():
        raise ValueError(f'A verdict needs finite values, not {model} and {control}.')
    sign = 1 if higher else -1
    meet = max(sign * x for x in control) >= min(sign * x for x in model)
    said = f'{model.value:.4g} ({model.low:.4g} to {model.high:.4g})'
    reach = f'{control.value:.4g}'
    is_reached = sign * control.value >= sign * model.value
    if is_reached or (meet and p is not None and p > 1 - statistics.LEVEL):
        words = f'{name} explains {said}: it reaches {reach}'
        if not is_reached:
            words += f', and over the same sentences they do not differ (p = {p:.2g})'
        return Verdict('explained', f'{words}.')
    if control.low < control.high:
        reach += f' ({control.low:.4g} to {control.high:.4g})'
    if not meet:
        return Verdict('beyond', f'{said} is beyond {name}, which reaches {reach}.')
    words = f'{said} is not clearly beyond {name}, which reaches {reach}.'
    if p is not None:
        words += f' Over the same sentences they do differ (p = {p:.2g}).'
    return Verdict('unclear', words)


def over_seeds(rows):
    """The mean over the training seeds of each model, as rows of seed 'mean'.

    The interval joins Student's t over the seeds with that over sentences, which more
    seeds do not shrink: sqrt(t^2 s^2 / S + mean half-width^2). It describes; verdicts on
    two ways of training are in comparisons.py.
    """
    groups = defaultdict(list)
    for row in rows:
        if row['model'] and not row['other']:
            groups[tuple(row[key] for key in _PLACE)].append(row)
    found = []
    for group in groups.values():
        if len({row['seed'] for row in group}) < 2:
            continue
        values = [row['value'] for row in group]
        half_widths = np.array([(row['high'] - row['low']) / 2 for row in group])
        known = half_widths[np.isfinite(half_widths)]
        within = known.mean() if known.size else 0.0
        reach = math.hypot(statistics.t_reach(values) / math.sqrt(len(group)), within)
        mean = float(np.mean(values))
        whole = {'value': mean, 'low': mean - reach, 'high': mean + reach}
        found.append({**group[0], 'seed': MEAN, **whole})
    return found


def final(rows):
    """Rows of the last layer measured and the first pooling; of several seeds, the mean.

    {(task, model, control, metric, form): row}.
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
        if is_last and not is_seed and row['pooling'] == pooling[place]:
            found[(*place, row['metric'], row['form'])] = row
    return found


def compare(rows, deviations, single):
    """Tests between models; warnings where a control explains a value; which values were
    `examined`, having a control, and are `beyond` all of theirs; which models have
    `collapsed`, [(task, model)]; which values are `worse` than untrained."""
    rows = rows + over_seeds(rows)
    chosen = final(rows)
    tests = comparisons.tests(chosen, rows, single, deviations)
    found = {'examined': [], 'collapsed': _collapsed(chosen), 'worse': _worse(chosen)}
    warnings, seeds = [], comparisons.by_seed(rows)
    for row, higher, verdicts in _verdicts(chosen, single, found['collapsed']):
        named = {key: row[key] for key in _NAMED}
        bad = [one for one in verdicts if one[1].kind != 'beyond']
        found['examined'].append(named | {'beyond': not bad})
        if not bad:
            continue
        # The strongest: 'explained' before 'unclear', then by what it reaches.
        sign = -1 if higher else 1
        control, worst, reached = min(bad, key=lambda one: (one[1].kind, sign * one[2]))
        runs = len(
            seeds.get((*comparisons.result_of(row), row['form'], row['metric']), ())
        )
        over = 'Over texts, this one training run'
        if runs > 1:
            over = f'Over texts and {runs} training runs, described: '
            over += 'no verdict on a method'
        said = {
            'kind': worst.kind,
            'control': control,
            'words': f'{worst.words} ({over}.)',
        }
        warnings.append(named | said | {'found': row['value'], 'reached': reached})
    return found | {'tests': tests, 'warnings': warnings + comparisons.fragile(tests)}


def _collapsed(chosen):
    """[(task, model)] whose vectors are nearly equal, or on a line, or not finite."""
    found = []
    for (task, model, control, metric, form), row in chosen.items():
        rank = chosen.get((task, model, control, 'effective_rank', form))
        is_own = model and not control and (metric, form) == ('uniformity', 'raw')
        if is_own and rank and geometry.is_collapsed(row['value'], rank['value']):
            found.append((task, model))
    return found


def _worse(chosen):
    """Values that can be read off, and are clearly below those of the untrained network:
    the intervals do not meet. Over texts, of these training runs."""
    found = []
    for (task, model, control, *value), row in chosen.items():
        floor = chosen.get((task, model, controls.UNTRAINED, *value))
        if control or not model or tuple(value) not in READ or floor is None:
            continue
        ours, theirs = _interval(row), _interval(floor)
        # An interval that was not measured may not hold its value.
        if ours.high < theirs.low and ours.value < theirs.value:
            reached = {'found': ours.value, 'reached': theirs.value}
            found.append({key: row[key] for key in _NAMED} | reached)
    return found


def _verdicts(chosen, single, collapsed):
    """[(row, higher, [(control, Verdict, reached)])] of values that have a control."""
    made, single = [], comparisons.by_result(single)
    for (task, model, control, metric, form), row in chosen.items():
        higher = (READ | GEOMETRY | NEARNESS).get((metric, form))
        if control or not model or higher is None or not math.isfinite(row['value']):
            continue
        verdicts = []
        for name, said in _SAID.items():
            other = _control_of(row, name, chosen)
            if other is None or not comparisons.as_many(row, other):
                continue
            p = _paired(single, row, other)
            sides = _interval(row), _interval(other)
            verdict = explained_by_control(*sides, said, higher, p)
            if verdict.kind == 'beyond':
                is_collapsed = (task, model) in collapsed
                verdict = _merited(row, other, chosen, is_collapsed) or verdict
            verdicts.append((name, verdict, other['value']))
        if verdicts:
            made.append((row, higher, verdicts))
    return made


def _control_of(row, name, chosen):
    """The row of a control of this value; None without a finite one to compare with."""
    # Widths differ, so the geometry of TF-IDF says nothing about a model.
    if row['form'] and name not in (controls.UNTRAINED, controls.BAG):
        return None
    # Its own, which reads what it reads, if there is one.
    places = [
        (row['task'], owner, name, row['metric'], row['form'])
        for owner in (row['model'], '')
    ]
    other = next((chosen[place] for place in places if place in chosen), None)
    return other if other and math.isfinite(other['value']) else None


def _merited(row, other, chosen, is_collapsed):
    """A Verdict against a value that is beyond a control and still has no merit, or None.

    The shape of a collapsed cloud is that of rounding errors. Where all texts lie closer
    together than those of the control, texts that belong together do, too.
    """
    value = row['metric'], row['form']
    if value not in READ and is_collapsed:
        words = f'{row["value"]:.4g} is of collapsed vectors, which are all nearly equal.'
        return Verdict('explained', words)
    if value not in NEARNESS or row['metric'] == 'distance_ratio':
        return None
    place = row['task'], row['model']
    near = [
        chosen.get((*place, one['control'], 'uniformity', row['form']))
        for one in (row, other)
    ]
    if None in near or near[0]['value'] <= near[1]['value']:
        return None
    return Verdict(
        'explained',
        f'{row["value"]:.4g} is nearer than {other["value"]:.4g}, but all of its texts '
        f'lie closer together (uniformity {near[0]["value"]:.3g} against '
        f'{near[1]["value"]:.3g}): alignment alone is no merit.',
    )


def _interval(row):
    """The Interval of a row, with its value for ends that were not measured."""
    ends = (row[key] for key in ('value', 'low', 'high'))
    return Interval(*(x if math.isfinite(x) else row['value'] for x in ends))


def _paired(single, row, other):
    """p of the test over the sentences of both; None where there is none."""
    sides = [
        comparisons.kept_of(single, one, row['metric']) if not row['form'] else ()
        for one in (row, other)
    ]
    if not all(sides):
        return None
    return statistics.sign_flip(*(np.mean(s, axis=0) for s in sides), resamples=5000)
