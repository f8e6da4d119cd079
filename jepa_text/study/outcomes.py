"""Sections of the report of a study: outcomes, geometry, budgets and checks of arms."""

import math

import numpy as np

from jepa_text.evaluation import controls
from jepa_text.evaluation.results import published as papers
from jepa_text.report import plots
from jepa_text.study import arms as of_arms
from jepa_text.study.members import UNTRAINED

UNIGRAM = 'unigram entropy'
_PROBE = 'representation/'


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
    bags = bag_values(results) if of_arms.PROBES in metrics else {}
    looks = plots.styles([*names, *arms], names)
    drawn = []
    for metric in metrics:
        near = _points(_nearby(reference[metric], metric, known[metric]))
        groups = {name: {name: one} for name, one in (near | known[metric]).items()}
        title = metric[0].upper() + metric[1:]
        if known[metric]:
            drawn.append(plots.dots(groups, title, metric, looks, has_legend=False))
    return {
        'heading': 'Outcomes',
        'text': _about(metrics),
        'table': _table(['', 'seeds'], rows, shown, bags),
        'figures': drawn,
    }


def _table(columns, rows, shown, bags=None):
    """Returns a table whose rows begin with a name, and continue with its intervals.

    `shown` are {metric: {name: Interval}}; the scores of `bags` of embeddings are next to
    those of the probes.
    """
    for metric, of_name in shown.items():
        columns = [*columns, metric, '± 95 %']
        rows = [[*row, *_cells(of_name.get(row[0]))] for row in rows]
        if bags and metric == of_arms.PROBES:
            columns.append('bag of its embeddings')
            rows = [[*row, bags.get(row[0])] for row in rows]
    return {'columns': columns, 'rows': rows}


def control_values(results, metric):
    """Returns {control: value} of a metric, to compare every arm with."""
    untrained = of_arms.by_seed({**results, 'recipes': {UNTRAINED: (UNTRAINED, 0)}})[
        UNTRAINED
    ][0]
    found = {}
    if metric == of_arms.LOSS:
        found[UNIGRAM] = results['unigram']
    if metric == of_arms.PROBES:
        for name in (controls.LARGEST, controls.TF_IDF):
            values = [p['controls'][name]['balanced'] for p in results['probes'].values()]
            found[name] = float(np.mean(values))
    found |= results.get('examined', {}).get('beside', {}).get(metric, {})
    if metric in untrained:
        found[UNTRAINED] = untrained[metric]
    return found


def bag_values(results):
    """Returns {arm or 'untrained': score of a bag of its own input embeddings}.

    Scores are means over probes and seeds.
    """
    found = {}
    recipes = {UNTRAINED: (UNTRAINED, 0), **results['recipes']}
    for member, (arm, _) in recipes.items():
        values = results['models'][member]
        bags = [values[f'{_PROBE}{probe}_bag'] for probe in results['probes']]
        found.setdefault(arm, []).append(np.mean(bags))
    return {arm: float(np.mean(values)) for arm, values in found.items()}


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
    return {
        'heading': 'Geometry',
        'text': 'Of vectors of held-out rows, mean-pooled unless stated otherwise. '
        'Compare each row with the untrained encoder. None of these numbers shows that '
        'the vectors are useful.',
        'table': _table([''], [[name] for name in (UNTRAINED, *arms)], shown),
    }


def spent(found):
    """Returns the section with the budget of each arm, from fairness.spent."""
    first = next(iter(found.values()))
    rows = []
    for arm, values in found.items():
        shares = [_share(own, base) for own, base in zip(values, first)]
        steps, tokens, flops, took = values
        hours = None if math.isnan(took) else f'{took / 3600:.3g}'
        cells = [f'{steps:,.0f}', f'{tokens:,.0f}', f'{flops:.3g}', hours]
        rows.append([arm, *(x for pair in zip(cells, shares) for x in pair)])
    columns = ['']
    for name in ('steps', 'tokens', 'FLOPs', 'hours'):
        columns += [name, f'of {next(iter(found))}']
    return {
        'heading': 'Training budget',
        'text': 'Means over seeds. Tokens are positions in rows, including padding. '
        'Hours are those of the training steps alone, without evaluation and '
        'compilation, on this machine under its load at the time. Two runs are matched '
        'by the budgets that are equal.',
        'table': {'columns': columns, 'rows': rows},
    }


def checked(checks):
    """Returns the section with the results of fairness.checks."""
    return {
        'heading': 'Fairness checks',
        'text': 'Runs of the same seed, compared by their logs and configs. Equal counts '
        'do not prove equal rows, but different rows would have shown up.',
        'table': {
            'columns': ['check', 'data', 'runs', 'result'],
            'rows': [list(check) for check in checks],
        },
    }


def published(rows):
    """Returns the section with the values of the paper; None if there are none."""
    if not rows:
        return None
    columns = list(dict.fromkeys(f'{row["task"]}, {row["metric"]}' for row in rows))
    lines = {}
    for row in rows:
        cell = papers.cell_of(row)
        reach = '' if math.isnan(cell.reach) else f' ± {100 * cell.reach:.2f}'
        name = papers.label_of(row)
        text = f'{100 * cell.value:.2f}{reach}' if row['unit'] else f'{cell.value:g}'
        lines.setdefault(name, {})[f'{row["task"]}, {row["metric"]}'] = text
    return {
        'heading': 'Published values',
        'table': {
            'columns': ['model', *columns],
            'rows': [[name, *map(own.get, columns)] for name, own in lines.items()],
            'note': 'Shares are in percent. Models, text and tasks differ from those '
            'here: directions can be compared, values cannot.',
            'fold': 'Values of the paper',
        },
    }


def _cells(interval):
    if interval is None:
        return [None, None]
    reach = interval.high - interval.value
    return [interval.value, None if math.isnan(reach) else reach]


def _nearby(reference, metric, known):
    """Returns the controls to show in a figure of the arms.

    For losses, which are unbounded, only those at most three times as far away as the
    range of the arms with their intervals; with others the arms could not be told apart.
    """
    if metric != of_arms.LOSS:
        return reference
    reached = [x for one in known.values() for x in one if math.isfinite(x)]
    if not reached:  # all arms diverged
        return reference
    low, high = min(reached), max(reached)
    reach = 3 * (high - low)
    return {n: v for n, v in reference.items() if low - reach <= v <= high + reach}


def _points(values):
    return {name: of_arms.mean([value]) for name, value in values.items()}


def _share(value, base):
    if math.isnan(value) or math.isnan(base):
        return None
    return f'{value / base:.0%}'


def _about(metrics):
    text = (
        'Means over seeds; ± is half the width of a 95 % interval by Student’s t. '
        'Controls first.'
    )
    if of_arms.LOSS in metrics:
        text += (
            ' Masked loss: nats per token at the same 15 % masked held-out tokens for '
            'all; lower is better.'
        )
    if of_arms.PROBES in metrics:
        text += (
            ' Probes: balanced accuracy of logistic regression on frozen mean-pooled '
            'vectors, averaged over the probes.'
        )
    return text
