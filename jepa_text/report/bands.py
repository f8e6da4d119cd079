"""Figures of several seeds, in the style of plots.py.

    bands     curves: the mean over seeds, and between the lowest and the highest
    errors    means with intervals against a number, as a learning rate
    dots      means with intervals, a line each; those of controls hollow

A run has one color in all figures that list the runs in one order.
"""

import math

import numpy as np

from jepa_text.report import plots

_TICKS = 8  # that have room


def bands(runs, title, ylabel, xlabel, hlines=None):
    """Curves of {name: (x_N, values_SN)}, one row of values a seed; NaN is left out.

    Raises ValueError for values of another length than x.
    """
    rows = -(-len(runs) // 2)
    figure, axes = plots.blank(title, ylabel, xlabel, 3.1 + 0.17 * max(0, rows - 3))
    looks = plots.styles(list(runs))
    for name, (x_N, values_SN) in runs.items():
        x_N, values_SN = np.asarray(x_N), np.atleast_2d(np.asarray(values_SN, float))
        if values_SN.shape[1:] != x_N.shape:
            raise ValueError(
                f'{title}: {name!r} has values {values_SN.shape} for {x_N.shape} places; '
                'give a row of so many values for each seed.'
            )
        if not x_N.size or np.isnan(values_SN).all():
            continue
        color = looks[name]['color']
        low_N, high_N = np.nanmin(values_SN, axis=0), np.nanmax(values_SN, axis=0)
        axes.fill_between(x_N, low_N, high_N, color=color, alpha=0.13, linewidth=0)
        look = looks[name] | {'markersize': 3.5, 'markevery': max(1, x_N.size // 12)}
        if look['marker'] is None and x_N.size < 12:
            look['marker'] = 'o'
        axes.plot(x_N, np.nanmean(values_SN, axis=0), **look, label=name, zorder=3)
    axes.margins(x=0.02)
    _lines(axes, hlines)
    plots.legend(figure, axes)
    return figure


def errors(runs, title, ylabel, xlabel, log=False, percent=False):
    """Means against a number: {name: {x: Interval}}. `percent`: x is a share."""
    figure, axes = plots.blank(title, ylabel, xlabel)
    looks = plots.styles(list(runs))
    for name, found in runs.items():
        places = sorted(found)
        look = looks[name] | {'marker': 'o', 'markersize': 4}
        axes.plot(places, [found[x].value for x in places], **look, label=name, zorder=3)
        for x in places:
            ends = [found[x].low, found[x].high]
            axes.plot([x, x], ends, color=look['color'], linewidth=1.3, zorder=2)
    places = sorted({x for found in runs.values() for x in found})
    if log:
        axes.set_xscale('log')
        axes.minorticks_off()
    if percent:
        axes.xaxis.set_major_formatter(lambda x, _: f'{x:.0%}')
    elif len(places) <= _TICKS:
        axes.set_xticks(places, [f'{x:,g}' for x in places])
    axes.margins(x=0.04)
    plots.legend(figure, axes)
    return figure


def dots(means, title, xlabel, controls=(), names=None):
    """Means of {name: Interval} with their intervals; of `controls`, hollow and grey."""
    figure, axes = plots.blank(title, '', xlabel, 1.15 + 0.26 * len(means))
    looks = plots.styles(names or [name for name in means if name not in controls])
    for place, (name, (value, low, high)) in enumerate(means.items()):
        is_control = name in controls
        color = plots.MUTED if is_control else looks[name]['color']
        if math.isfinite(low):
            axes.plot([low, high], [place, place], color=color, linewidth=1.5, zorder=2)
        face = 'white' if is_control else color
        mark = dict(marker='o', markersize=5.5, color=color, markerfacecolor=face)
        axes.plot([value], [place], **mark, linestyle='none', zorder=3)
    axes.set_yticks(range(len(means)), list(means), color=plots.INK)
    axes.set_ylim(len(means) - 0.5, -0.5)
    axes.margins(x=0.06)
    axes.grid(False, axis='y')
    axes.grid(True, axis='x', color=plots.GRID, linewidth=0.6)
    return figure


def _lines(axes, hlines):
    for label, height in (hlines or {}).items():
        axes.axhline(height, color=plots.MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            label,
            (1, height),
            xycoords=('axes fraction', 'data'),
            xytext=(0, 3),
            textcoords='offset points',
            color=plots.MUTED,
            fontsize=7.5,
            ha='right',
        )
