"""Conclusions from the values of an analysis: means over seeds, comparison with controls.

over_seeds    means over training seeds, with intervals
compare       tests between models, and values beside their strongest controls

Comparisons of a model with its controls are over texts, for these training runs: they
give no verdict on a training method.
"""

import math
from collections import defaultdict

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
_NAMES = ('task', 'model', 'metric', 'form')
_CONTROLS = *controls.CONTROLS, controls.LARGEST, controls.ALWAYS_SECOND
KINDS = ('explained', 'unclear', 'beyond')


def conclusion(model, control, higher=True, p=None):
    """One of KINDS: whether a control, such as TF-IDF, reaches the value of a model.

    `model` and `control` are finite Intervals; `higher` says whether higher is better.

    explained  the control is as good or better, or `p`, of a paired test over the same
               texts, is above 0.05
    beyond     `p` is at most 0.05; without `p`: the intervals do not overlap
    unclear    without `p`: the intervals overlap

    The paired test decides alone where there is one: texts that are hard for both widen
    both intervals, but not the interval of their difference.

    >>> model, control = Interval(0.62, 0.59, 0.65), Interval(0.6, 0.6, 0.6)
    >>> [conclusion(model, control, p=p) for p in (0.4, 0.001, None)]
    ['explained', 'beyond', 'unclear']
    """
    sign = 1 if higher else -1
    if sign * control.value >= sign * model.value:
        return 'explained'
    if p is not None:
        return 'explained' if p > 1 - statistics.LEVEL else 'beyond'
    overlap = max(sign * x for x in control) >= min(sign * x for x in model)
    return 'unclear' if overlap else 'beyond'


def over_seeds(rows):
    """Means over the training seeds of each model, as rows with seed 'mean'.

    The interval combines Student's t over the seeds with the interval over texts, which
    more seeds do not shrink: sqrt(t^2 s^2 / S + mean half-width^2). It is descriptive;
    comparisons.py tests training methods.
    """
    groups = defaultdict(list)
    for row in rows:
        if row['model']:
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
        means.append({**group[0], 'seed': comparisons.MEAN, **interval})
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
    several = {row['model'] for row in rows if row['seed'] == comparisons.MEAN}
    for row in rows:
        subject = row['task'], row['model'], row['control']
        pooling.setdefault(subject, row['pooling'])
        is_last = row['layer'] in (None, last.get(subject))
        is_seed = row['model'] in several and row['seed'] != comparisons.MEAN
        if is_last and not is_seed and row['pooling'] == pooling[subject]:
            final[(*subject, row['metric'], row['form'])] = row
    return final


def compare(rows, deviations, per_example):
    """Compares models with each other and with their controls.

    Returns a dict of

    tests      comparisons.tests of all pairs of models
    examined   all values that have a control, with their intervals and the strongest
               control: `control`, its value `reached`, and the `kind` of `conclusion`
    collapsed  [(task, model)] with collapsed vectors
    """
    rows = rows + over_seeds(rows)
    chosen = final_rows(rows)
    collapsed, examined = _collapsed(chosen), []
    for row, higher, verdicts in _verdicts(chosen, per_example, collapsed):
        sign = -1 if higher else 1
        control, kind, reached = min(
            verdicts, key=lambda one: (KINDS.index(one[1]), sign * one[2])
        )
        known = {key: row[key] for key in (*_NAMES, 'value', 'low', 'high')}
        examined.append(known | dict(control=control, reached=reached, kind=kind))
    tests = comparisons.tests(chosen, rows, per_example, deviations)
    return dict(tests=tests, examined=examined, collapsed=collapsed)


def _collapsed(chosen):
    """[(task, model)] with vectors that are nearly equal, on a line, or not finite."""
    collapsed = []
    for (task, model, control, metric, form), row in chosen.items():
        rank = chosen.get((task, model, control, 'effective_rank', form))
        is_model = model and not control and (metric, form) == ('uniformity', 'raw')
        if is_model and rank and geometry.is_collapsed(row['value'], rank['value']):
            collapsed.append((task, model))
    return collapsed


def _verdicts(chosen, per_example, collapsed):
    """Yields (row, higher, [(control, kind, value of the control)]) of all values that
    have a control."""
    per_example = comparisons.by_cell(per_example)
    for (task, model, control, metric, form), row in chosen.items():
        higher = (PROBES | GEOMETRY | NEARNESS).get((metric, form))
        if control or not model or higher is None or not math.isfinite(row['value']):
            continue
        verdicts = []
        for name in _CONTROLS:
            other = _control_of(row, name, chosen)
            if other is None or not comparisons.same_count(row, other):
                continue
            p = _paired_p(per_example, row, other)
            sides = _interval(row), _interval(other)
            kind = conclusion(*sides, higher, p)
            is_collapsed = (task, model) in collapsed
            if kind == 'beyond' and _is_artifact(row, other, chosen, is_collapsed):
                kind = 'explained'
            verdicts.append((name, kind, other['value']))
        if verdicts:
            yield row, higher, verdicts


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


def _is_artifact(row, other, chosen, is_collapsed):
    """Whether a value is beyond a control for a trivial reason.

    The geometry of collapsed vectors is that of rounding errors. If all texts are closer
    together than those of the control, so are related texts.
    """
    value = row['metric'], row['form']
    if value not in PROBES and is_collapsed:
        return True
    if value not in NEARNESS or row['metric'] == 'distance_ratio':
        return False
    ours, theirs = (
        chosen.get((row['task'], row['model'], one['control'], 'uniformity', row['form']))
        for one in (row, other)
    )
    return not (ours is None or theirs is None or ours['value'] <= theirs['value'])


def _interval(row):
    """The Interval of a row; unmeasured ends are replaced by its value."""
    ends = (row[key] for key in ('value', 'low', 'high'))
    return Interval(*(x if math.isfinite(x) else row['value'] for x in ends))


def _paired_p(per_example, row, other):
    """p of the paired test over the texts of both rows; None if not available."""
    if row['form']:
        return None
    sides = (row, other)
    first_N, second_N = (
        comparisons.mean_sample(per_example, one, row['metric']) for one in sides
    )
    if first_N is None or second_N is None:
        return None
    keys = comparisons.keys_of(per_example, row, len(first_N))
    return statistics.paired_p(first_N, second_N, keys)
