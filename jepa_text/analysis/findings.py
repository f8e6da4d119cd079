"""Conclusions from the values of an analysis: means over seeds, comparison with controls.

over_seeds    means over training seeds, with intervals
compare       tests between models, and warnings about values that a control explains

Comparisons of a model with its controls are over texts, for these training runs: they
give no verdict on a training method.
"""

import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from jepa_text.analysis import comparisons
from jepa_text.evaluation import controls
from jepa_text.measures import geometry, statistics
from jepa_text.measures.statistics import Interval

# {(metric, form): whether higher is better} of probe metrics.
PROBES = {
    (metric, ''): True
    for metric in (
        *('probe_accuracy', 'probe_f1', 'probe_mcc', 'probe_spearman'),
        *('cosine_spearman', 'word_recovery_auc'),
        *('cosine_given_overlap', 'balance'),
    )
}
GEOMETRY = {value: value[0] == 'effective_rank' for value in comparisons.GEOMETRY}
# Distances of related texts.
NEARNESS = {
    (metric, form): False
    for metric in ('class_alignment', 'distance_ratio', 'alignment')
    for form in ('raw', 'length_residualized')
}
MEAN = 'mean'
_NAMES = ('task', 'model', 'metric', 'form')
_CONTROLS = {
    controls.UNTRAINED: 'the untrained architecture',
    controls.BAG: 'the bag of its input embeddings',
    controls.TF_IDF: 'TF-IDF',
    controls.LARGEST: 'always predicting the most frequent label',
    controls.ALWAYS_ONE: "always predicting '1'",
}


class Verdict(NamedTuple):
    """Comparison with a control: `kind` is 'explained', 'unclear' or 'beyond', `words`
    describes it for a report."""

    kind: str
    words: str


def explained_by_control(model, control, name, higher=True, p=None):
    """Verdict on whether a control, such as TF-IDF, reaches the value of a model.

    `model` and `control` are Intervals; `higher` says whether higher is better; `name`
    names the control. Raises ValueError for values that are not finite.

    explained  the control is as good or better, or `p`, of a paired test over the same
               texts, is above 0.05
    beyond     `p` is at most 0.05; without `p`: the intervals do not overlap
    unclear    without `p`: the intervals overlap

    The paired test decides alone where there is one: texts that are hard for both widen
    both intervals, but not the interval of their difference.

    >>> model, control = Interval(0.62, 0.59, 0.65), Interval(0.6, 0.6, 0.6)
    >>> [explained_by_control(model, control, 'it', p=p).kind for p in (0.4, 0.001, None)]
    ['explained', 'beyond', 'unclear']
    >>> explained_by_control(model, Interval(0.5, 0.5, 0.5), 'TF-IDF').words
    '0.62 (0.59 to 0.65) is beyond TF-IDF, which reaches 0.5.'
    """
    if not np.isfinite([model, control]).all():
        raise ValueError(f'A verdict needs finite values, not {model} and {control}.')
    sign = 1 if higher else -1
    overlap = max(sign * x for x in control) >= min(sign * x for x in model)
    value = f'{model.value:.4g} ({model.low:.4g} to {model.high:.4g})'
    reached = f'{control.value:.4g}'
    paired = '' if p is None else f' (p = {p:.2g}, over the same texts)'
    if sign * control.value >= sign * model.value:
        return Verdict('explained', f'{name} explains {value}: it reaches {reached}.')
    if p is not None and p > 1 - statistics.LEVEL:
        words = f'{name} explains {value}: it reaches {reached}'
        return Verdict('explained', f'{words}, no difference was found{paired}.')
    if control.low < control.high:
        reached += f' ({control.low:.4g} to {control.high:.4g})'
    if p is not None or not overlap:
        words = f'{value} is beyond {name}, which reaches {reached}{paired}.'
        return Verdict('beyond', words)
    words = f'{value} is not clearly beyond {name}, which reaches {reached}.'
    return Verdict('unclear', words)


def over_seeds(rows):
    """Means over the training seeds of each model, as rows with seed 'mean'.

    The interval combines Student's t over the seeds with the interval over texts, which
    more seeds do not shrink: sqrt(t^2 s^2 / S + mean half-width^2). It is descriptive;
    comparisons.py tests training methods.
    """
    groups = defaultdict(list)
    for row in rows:
        if row['model'] and not row['other']:
            groups[comparisons.value_key(row)].append(row)
    means = []
    for group in groups.values():
        if len({row['seed'] for row in group}) < 2:
            continue
        values = [row['value'] for row in group]
        half_widths = np.array([(row['high'] - row['low']) / 2 for row in group])
        known = half_widths[np.isfinite(half_widths)]
        within = known.mean() if known.size else 0.0
        reach = math.hypot(statistics.t_margin(values) / math.sqrt(len(group)), within)
        mean = float(np.mean(values))
        interval = {'value': mean, 'low': mean - reach, 'high': mean + reach}
        means.append({**group[0], 'seed': MEAN, **interval})
    return means


def last_layers(rows):
    """{(task, model, control): last measured layer}."""
    last = {}
    for row in rows:
        if row['layer'] is not None:
            subject = row['task'], row['model'], row['control']
            last[subject] = max(last.get(subject, 0), row['layer'])
    return last


def final_rows(rows):
    """{(task, model, control, metric, form): row} of the last measured layer and the
    first pooling; for several seeds, their mean."""
    last, pooling, final = last_layers(rows), {}, {}
    several = {row['model'] for row in rows if row['seed'] == MEAN}
    for row in rows:
        subject = row['task'], row['model'], row['control']
        pooling.setdefault(subject, row['pooling'])
        is_last = row['layer'] in (None, last.get(subject)) and not row['other']
        is_seed = row['model'] in several and row['seed'] != MEAN
        if is_last and not is_seed and row['pooling'] == pooling[subject]:
            final[(*subject, row['metric'], row['form'])] = row
    return final


def compare(rows, deviations, per_example):
    """Compares models with each other and with their controls.

    Returns a dict of

    tests      comparisons.tests of all pairs of models
    warnings   values that a control explains or may explain
    examined   all values that have a control, and whether they are `beyond` all controls
    collapsed  [(task, model)] with collapsed vectors
    worse      values that are clearly worse than those of the untrained control
    """
    rows = rows + over_seeds(rows)
    chosen = final_rows(rows)
    tests = comparisons.tests(chosen, rows, per_example, deviations)
    results = {'examined': [], 'collapsed': _collapsed(chosen), 'worse': _worse(chosen)}
    warnings, seeds = [], comparisons.by_seed(rows)
    for row, higher, verdicts in _verdicts(chosen, per_example, results['collapsed']):
        names = {key: row[key] for key in _NAMES}
        reaching = [one for one in verdicts if one[1].kind != 'beyond']
        results['examined'].append(names | {'beyond': not reaching})
        if not reaching:
            continue
        # The strongest control: 'explained' before 'unclear', then the best value.
        sign = -1 if higher else 1
        control, verdict, reached = min(
            reaching, key=lambda one: (one[1].kind, sign * one[2])
        )
        runs = len(seeds.get(comparisons.value_key(row), ()))
        scope = 'Over texts, for this one training run'
        if runs > 1:
            scope = f'Over texts and {runs} training runs; no verdict on the method'
        warning = dict(kind=verdict.kind, control=control, value=row['value'])
        warning |= dict(reached=reached, words=f'{verdict.words} ({scope}.)')
        warnings.append(names | warning)
    warnings += comparisons.length_effects(tests)
    return results | {'tests': tests, 'warnings': warnings}


def _collapsed(chosen):
    """[(task, model)] with vectors that are nearly equal, on a line, or not finite."""
    collapsed = []
    for (task, model, control, metric, form), row in chosen.items():
        rank = chosen.get((task, model, control, 'effective_rank', form))
        is_own = model and not control and (metric, form) == ('uniformity', 'raw')
        if is_own and rank and geometry.is_collapsed(row['value'], rank['value']):
            collapsed.append((task, model))
    return collapsed


def _worse(chosen):
    """Probe values clearly below those of the untrained control: the intervals do not
    overlap. Over texts, for these training runs. The balance does not count: it falls if
    vectors gain more words than meaning, though both are gains."""
    worse = []
    for (task, model, control, *value), row in chosen.items():
        untrained = chosen.get((task, model, controls.UNTRAINED, *value))
        is_score = tuple(value) in PROBES and value[0] != 'balance'
        if control or not model or not is_score or untrained is None:
            continue
        ours, theirs = _interval(row), _interval(untrained)
        # An unmeasured interval need not contain its value.
        if ours.high < theirs.low and ours.value < theirs.value:
            values = {'value': ours.value, 'reached': theirs.value}
            worse.append({key: row[key] for key in _NAMES} | values)
    return worse


def _verdicts(chosen, per_example, collapsed):
    """[(row, higher, [(control, Verdict, value of the control)])] of all values that have
    a control."""
    judged, per_example = [], comparisons.by_cell(per_example)
    for (task, model, control, metric, form), row in chosen.items():
        higher = (PROBES | GEOMETRY | NEARNESS).get((metric, form))
        if control or not model or higher is None or not math.isfinite(row['value']):
            continue
        verdicts = []
        for name, description in _CONTROLS.items():
            other = _control_of(row, name, chosen)
            if other is None or not comparisons.same_count(row, other):
                continue
            p = _paired_p(per_example, row, other)
            sides = _interval(row), _interval(other)
            verdict = explained_by_control(*sides, description, higher, p)
            if verdict.kind == 'beyond':
                is_collapsed = (task, model) in collapsed
                verdict = _artifact(row, other, chosen, is_collapsed) or verdict
            verdicts.append((name, verdict, other['value']))
        if verdicts:
            judged.append((row, higher, verdicts))
    return judged


def _control_of(row, name, chosen):
    """The row of a control for the value of `row`; None if missing or not finite."""
    # TF-IDF vectors have another width, so their geometry is not comparable.
    if row['form'] and name not in (controls.UNTRAINED, controls.BAG):
        return None
    # The model's own control reads the same truncated texts, so it is preferred.
    keys = [
        (row['task'], owner, name, row['metric'], row['form'])
        for owner in (row['model'], '')
    ]
    other = next((chosen[key] for key in keys if key in chosen), None)
    return other if other and math.isfinite(other['value']) else None


def _artifact(row, other, chosen, is_collapsed):
    """A Verdict against a value that is beyond a control for a trivial reason, or None.

    The geometry of collapsed vectors is that of rounding errors. If all texts are closer
    together than those of the control, so are related texts.
    """
    value = row['metric'], row['form']
    if value not in PROBES and is_collapsed:
        words = f'{row["value"]:.4g} is of collapsed vectors, which are nearly equal.'
        return Verdict('explained', words)
    if value not in NEARNESS or row['metric'] == 'distance_ratio':
        return None
    ours, theirs = (
        chosen.get((row['task'], row['model'], one['control'], 'uniformity', row['form']))
        for one in (row, other)
    )
    if ours is None or theirs is None or ours['value'] <= theirs['value']:
        return None
    return Verdict(
        'explained',
        f'{row["value"]:.4g} is nearer than {other["value"]:.4g}, but all of its texts '
        f'are closer together (uniformity {ours["value"]:.3g}, compared with '
        f'{theirs["value"]:.3g}), which explains the alignment.',
    )


def _interval(row):
    """The Interval of a row; unmeasured ends are replaced by its value."""
    ends = (row[key] for key in ('value', 'low', 'high'))
    return Interval(*(x if math.isfinite(x) else row['value'] for x in ends))


def _paired_p(per_example, row, other):
    """p of the paired test over the texts of both rows; None if not available."""
    if row['form']:
        return None
    sides = [
        comparisons.samples_of(per_example, one, row['metric']) for one in (row, other)
    ]
    if not all(sides):
        return None
    first_N, second_N = (np.mean(side, axis=0) for side in sides)
    keys = comparisons.keys_of(per_example, row, len(first_N))
    return statistics.paired_p(first_N, second_N, keys)
