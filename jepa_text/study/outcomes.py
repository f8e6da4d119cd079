"""Sections of the report of a study: outcomes and geometry.

Each arm is shown with the controls, and its means with their 95 % interval over seeds.
"""

import math

import numpy as np

from jepa_text.evaluation import controls
from jepa_text.evaluation.results import selection
from jepa_text.report import frequencies, page, plots
from jepa_text.study import arms as of_arms
from jepa_text.study.members import UNTRAINED
from jepa_text.training import heldout

UNIGRAM = 'unigram entropy'
_PROBE, _WIDTH = 'representation/', 'geometry/dimensions'


def section(results, arms, metrics):
    """Returns the section of outcomes: one row per arm, controls first; one figure per
    metric."""
    if not metrics:
        return None
    reference = {metric: control_values(results, metric) for metric in metrics}
    known = {metric: of_arms.summary(arms, metric) for metric in metrics}
    names = dict.fromkeys(name for one in reference.values() for name in one)
    rows = [[name, None] for name in names]
    rows += [[arm, len(own)] for arm, own in arms.items()]
    shown = {metric: _points(reference[metric]) | known[metric] for metric in metrics}
    beside = {}
    if of_arms.LOSS in metrics:
        beside[of_arms.LOSS] = _beside_loss(results, shown[of_arms.LOSS])
    if of_arms.PROBES in metrics:
        keys = [f'{_PROBE}{name}_bag' for name in results['probes']]
        bags = _means(results, lambda values: np.mean([values[key] for key in keys]))
        beside[of_arms.PROBES] = {'bag of its embeddings': bags}
    looks = plots.styles([*names, *arms], names)
    drawn = []
    for metric in metrics:
        near = _points(_nearby(reference[metric], metric, known[metric]))
        groups = {name: {name: one} for name, one in (near | known[metric]).items()}
        title = metric[0].upper() + metric[1:]
        if known[metric]:
            axis = of_arms.axis(metric)
            drawn.append(plots.dots(groups, title, axis, looks, has_legend=False))
    return {
        'heading': 'Outcomes',
        'table': _table(['', 'seeds'], rows, shown, beside)
        | {'note': _about(metrics, max(map(len, arms.values())))},
        'figures': drawn,
    }


def sentence(results, arms, metric):
    """Returns the scores of a metric beside the strongest control."""
    lower, known = of_arms.is_lower_better(metric), of_arms.summary(arms, metric)
    about = f'{"lower" if lower else "higher"} is better'
    if any(math.isfinite(one.low) for one in known.values()):
        about += '; ± over seeds alone'  # not over test texts, as in `evaluate`
    label = f'{metric[0].upper()}{metric[1:]} ({about})'
    return page.scores(label, known, control_values(results, metric), lower)


def control_values(results, metric):
    """Returns {control: value} of a metric, to compare every arm with."""
    alone = {**results, 'recipes': {UNTRAINED: (UNTRAINED, 0)}, 'missing': {}}
    untrained, values = of_arms.by_seed(alone)[UNTRAINED][0], {}
    if metric == of_arms.LOSS:
        values[UNIGRAM] = results['unigram']
    if metric == of_arms.PROBES:
        for name in (controls.LARGEST, controls.TF_IDF):
            scores = [p['controls'][name]['balanced'] for p in results['probes'].values()]
            values[name] = float(np.mean(scores))
    values |= results.get('examined', {}).get('beside', {}).get(metric, {})
    if metric in untrained:
        values[UNTRAINED] = untrained[metric]
    return values


def geometry(results, arms):
    """Returns the section with uniformity and effective ranks; None if not measured."""
    known = {metric: of_arms.summary(arms, metric) for metric in of_arms.GEOMETRY}
    known = {metric: of_arm for metric, of_arm in known.items() if of_arm}
    if not known:
        return None
    shown = {
        metric: _points(control_values(results, metric)) | of_arm
        for metric, of_arm in known.items()
    }
    width = results['models'][UNTRAINED].get(_WIDTH)
    others = {own.get(_WIDTH) for own in results['models'].values()} - {width}
    of_width = f', if it has {width} dimensions, too' * bool(others)
    return {
        'heading': 'Geometry',
        'text': 'Of vectors of held-out rows, mean-pooled unless stated otherwise. '
        f'Compare each row with the untrained encoder{of_width}. None of these numbers '
        'shows that the vectors are useful.',
        'table': _table([''], [[name] for name in (UNTRAINED, *arms)], shown),
    }


def _table(columns, rows, shown, beside=None):
    """Returns a table whose rows begin with a name, and continue with its intervals.

    `shown` are {metric: {name: Interval}}, `beside` {metric: {column: {name: value}}} of
    what is next to them. Without seeds there are no columns of intervals.
    """
    columns, rows = list(columns), [list(row) for row in rows]

    def add(column, values):
        if any(value is not None for value in values.values()):
            columns.append(column)
            for row in rows:
                row.append(values.get(row[0]))

    for metric, of_name in shown.items():
        reach = {name: one.high - one.value for name, one in of_name.items()}
        add(metric, {name: one.value for name, one in of_name.items()})
        add('± 95 %', {n: None if math.isnan(x) else x for n, x in reach.items()})
        for column, values in (beside or {}).get(metric, {}).items():
            add(column, values)
    return {'columns': columns, 'rows': rows}


def _beside_loss(results, losses):
    compared = {
        name: frequencies.compared(one.value, results['unigram']).partition(' than ')[0]
        for name, one in losses.items()
        if name != UNIGRAM
    }
    accuracy = _means(results, lambda values: heldout.masked_metric(values, 'accuracy'))
    causal = _means(results, lambda values: values.get('heldout/clm_loss'))
    return {
        'against token frequencies': compared,
        'accuracy': accuracy,
        'causal loss': causal,
    }


def _means(results, value_of):
    """Returns {arm or 'untrained': mean over seeds of value_of(its values)}."""
    lists = {}
    for member, (arm, _) in {UNTRAINED: (UNTRAINED, 0), **results['recipes']}.items():
        lists.setdefault(arm, []).append(value_of(results['models'][member]))
    for arm, _ in results.get('missing', {}).values():  # as of arms.by_seed
        lists.setdefault(arm, []).append(math.nan)
    known = {arm: values for arm, values in lists.items() if None not in values}
    return {arm: float(np.mean(values)) for arm, values in known.items()}


def _nearby(reference, metric, known):
    """Returns the controls to show in a figure of the arms: of losses, which are
    unbounded, only those at most three times as far away as the range of the arms with
    their intervals, as with others the arms could not be told apart."""
    if metric != of_arms.LOSS:
        return reference
    reached = [x for one in known.values() for x in one if math.isfinite(x)]
    if not reached:  # all arms diverged
        return reference
    low, high = min(reached), max(reached)
    reach = 3 * (high - low)
    return {n: v for n, v in reference.items() if low - reach <= v <= high + reach}


def _points(values):
    return {name: selection.mean_over_seeds([x]) for name, x in values.items()}


def _about(metrics, seeds):
    text = (
        'Means over seeds; ± is half the width of a 95 % interval by Student’s t. '
        'Controls first.'
    )
    if seeds == 1:
        text = (
            'Controls first. Each value is from a single run, so small differences may '
            'be noise between seeds.'
        )
    if of_arms.LOSS in metrics:
        text += (
            ' Masked loss: nats per token at the same 15 % masked held-out tokens for '
            'all, each predicted at the position where the objective predicts it (mntp: '
            'one position before); lower is better. The unigram entropy is the loss of a '
            'model that only knows the token frequencies.'
        )
    if of_arms.PROBES in metrics:
        text += (
            ' Probes: balanced accuracy of logistic regression on frozen mean-pooled '
            'vectors, averaged over the probes.'
        )
    return text
