"""Figures of an evaluation as matplotlib figures, in the style of report/plots.py.

    means          the mean of each model and control with its interval, one per line
    sensitivity    mean over seeds by learning rate, with the selected one marked
    members        the test value of each member by learning rate

A model has the same color in all figures: `models` are the names of all models in order,
without controls, which are grey.
"""

import math

import numpy as np

from jepa_text.evaluation import controls
from jepa_text.evaluation.results import selection, summary
from jepa_text.report import plots

_TICKS = 8  # maximum number of tick labels
_MARKERS = ('o', 's', '^', 'D', 'v', 'P')


def means(rows, title, xlabel, models):
    """Plots means with 95 % intervals; controls are hollow and below the models.

    The largest class is left out, as it would compress the scale of all others.
    """
    shown = [row for row in rows if row['control'] != controls.LARGEST]
    ordered = sorted(shown, key=lambda row: bool(row['control']))
    figure, axes = plots.blank(title, '', xlabel, 1.15 + 0.26 * len(ordered))
    for position, row in enumerate(ordered):
        value, low, high = row['standard'].get(row['metric'], (math.nan,) * 3)
        color = _color(row['model'], models)
        axes.plot([low, high], [position, position], color=color, linewidth=1.5, zorder=2)
        axes.plot([value], [position], **_mark(row['model'], models, 5.5), zorder=3)
    names = [row['model'] for row in ordered]
    axes.set_yticks(range(len(names)), names, color=plots.INK)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.margins(x=0.06)
    axes.grid(False, axis='y')
    axes.grid(True, axis='x', color=plots.GRID, linewidth=0.6)
    return figure


def sensitivity(results, title, ylabel, models, span=0.0):
    """Plots the mean test metric over seeds by learning rate, and its standard deviation.

    `results` is {model: (selection.Chosen, its lines)}. The rate that validation selected
    is circled. The axis covers at least a range of `span`, such as an interval over the
    test examples, so that differences within it look small.
    """
    figure, axes = _over_rates(title, ylabel, results)
    for model, (chosen, lines) in results.items():
        rates, values = _by_rate(chosen, lines)
        if not rates:
            continue
        middle = np.array(list(map(np.mean, values)))
        spread = np.array([np.std(v, ddof=1) if len(v) > 1 else 0.0 for v in values])
        color, look = _color(model, models), _mark(model, models, 3.8)
        axes.fill_between(rates, middle - spread, middle + spread, color=color, alpha=0.1)
        axes.plot(
            rates,
            middle,
            **look | {'linestyle': 'solid'},
            label=plots.legend_label(model),
            zorder=3,
        )
        for rate in set(chosen.learning_rates.values()):
            ring = dict(marker='o', markersize=10, markerfacecolor='none', color=color)
            axes.plot([rate], [middle[rates.index(rate)]], **ring, zorder=4)
    ring = dict(marker='o', markersize=8, markerfacecolor='none', color=plots.MUTED)
    axes.plot([], [], **ring, linestyle='none', label='selected on validation')
    _cover(axes, span)
    plots.legend(figure, axes)
    return figure


def members(results, title, ylabel, models, span=0.0):
    """Plots one point per member, with the models side by side at each learning rate.

    Members without a value are crosses at the lower edge; collapsed ones with a value are
    crosses at their value. `span` is as in `sensitivity`.
    """
    figure, axes = _over_rates(title, ylabel, results)
    spacing = 0.2 / max(1, len(results))  # in powers of ten
    for position, (model, (chosen, lines)) in enumerate(results.items()):
        shift = 10 ** (spacing * (position - (len(results) - 1) / 2))
        color, drawn = _color(model, models), _mark(model, models, 4)
        for line in lines:
            value = selection.value(line, 'test', chosen.by, chosen.metric)
            at = [line['learning_rate'] * shift]
            cross = dict(marker='x', markersize=5, color=color, linestyle='none')
            if value is None:
                axis = axes.get_xaxis_transform()
                axes.plot(at, [0.0], **cross, transform=axis, clip_on=False, zorder=4)
            else:
                look = drawn if line['status'] == 'done' else cross
                axes.plot(at, [value], **look | {'alpha': 0.75}, zorder=3)
        axes.plot([], [], **drawn, label=plots.legend_label(model))
    statuses = {line['status'] for _, lines in results.values() for line in lines}
    if statuses - {'done'}:
        cross = dict(marker='x', markersize=5, color=plots.MUTED, linestyle='none')
        axes.plot([], [], **cross, label='collapsed; on the axis: no finite loss')
    axes.margins(y=0.1)
    _cover(axes, span)
    plots.legend(figure, axes)
    return figure


def _cover(axes, span):
    """Widens the vertical axis to at least this range, around its center."""
    low, high = axes.get_ylim()
    if high - low < span:
        center = (low + high) / 2
        axes.set_ylim(center - span / 2, center + span / 2)


def _over_rates(title, ylabel, results):
    """Returns (figure, axes) with a logarithmic learning rate axis."""
    height = 3.0 + 0.17 * max(0, -(-len(results) // 2) - 1)
    figure, axes = plots.blank(title, ylabel, 'learning rate', height)
    rates = {line['learning_rate'] for _, lines in results.values() for line in lines}
    rates = sorted(rate for rate in rates if rate)
    axes.set_xscale('log')
    axes.minorticks_off()
    if len(rates) <= _TICKS:
        words = [summary.learning_rate_text({0: rate}) for rate in rates]
        axes.set_xticks(rates, [word.replace('e-0', 'e-') for word in words])
    return figure, axes


def _by_rate(chosen, lines):
    """Returns (rates, [values at each rate]) of the members with a value."""
    rates = {}
    for line in sorted(lines, key=lambda line: line['learning_rate']):
        value = selection.value(line, 'test', chosen.by, chosen.metric)
        if value is not None:
            rates.setdefault(line['learning_rate'], []).append(value)
    return list(rates), list(rates.values())


def _color(model, models):
    return plots.shade(models.index(model)) if model in models else plots.MUTED


def _mark(model, models, size):
    """Returns marker options: filled for models, a new shape every six; else hollow."""
    color = _color(model, models)
    turn = models.index(model) // len(plots.COLORS) if model in models else 0
    return dict(
        marker=_MARKERS[turn % len(_MARKERS)],
        markersize=size,
        color=color,
        markerfacecolor=color if model in models else 'white',
        linestyle='none',
    )
