"""Figures of results over several seeds, in the style of plots.py.

    bands     curves of the mean over seeds, with the range from minimum to maximum
    errors    means with intervals over a number, such as a learning rate
    dots      means with intervals, one line each; controls are hollow

A run has the same color in all figures that list the runs in the same order.
"""

import math

import numpy as np

from jepa_text.report import plots

_TICKS = 8  # maximum number of tick labels


def bands(runs, title, ylabel, xlabel, hlines=None):
    """Plots curves of {name: (x_N, values_SN)} with one row per seed. NaN is skipped.

    Raises ValueError if the lengths of x and values differ.
    """
    figure, axes = plots.blank(title, ylabel, xlabel, plots.height(runs))
    styles = plots.styles(list(runs))
    for name, (x_N, values_SN) in runs.items():
        x_N, values_SN = np.asarray(x_N), np.atleast_2d(np.asarray(values_SN, float))
        if values_SN.shape[1:] != x_N.shape:
            raise ValueError(
                f'{title}: {name!r} has x of shape {x_N.shape} but values of shape '
                f'{values_SN.shape}; expected one row of values per seed.'
            )
        if not x_N.size or np.isnan(values_SN).all():
            continue
        color = styles[name]['color']
        low_N, high_N = np.nanmin(values_SN, axis=0), np.nanmax(values_SN, axis=0)
        axes.fill_between(x_N, low_N, high_N, color=color, alpha=0.13, linewidth=0)
        style = plots.curve_style(styles[name], x_N.size)
        axes.plot(
            x_N,
            np.nanmean(values_SN, axis=0),
            **style,
            label=plots.legend_label(name),
            zorder=3,
        )
    axes.margins(x=0.02)
    plots.reference_lines(axes, hlines)
    plots.legend(figure, axes)
    return figure


def errors(runs, title, ylabel, xlabel, log=False, percent=False):
    """Plots means with intervals, {name: {x: Interval}}, over x.

    `log` scales x logarithmically; `percent` formats x as a percentage.
    """
    figure, axes = plots.blank(title, ylabel, xlabel)
    styles = plots.styles(list(runs))
    for name, intervals in runs.items():
        xs = sorted(intervals)
        style = styles[name] | {'marker': 'o', 'markersize': 4}
        means = [intervals[x].value for x in xs]
        axes.plot(xs, means, **style, label=plots.legend_label(name), zorder=3)
        for x in xs:
            ends = [intervals[x].low, intervals[x].high]
            axes.plot([x, x], ends, color=style['color'], linewidth=1.3, zorder=2)
    xs = sorted({x for intervals in runs.values() for x in intervals})
    if log:
        axes.set_xscale('log')
        axes.minorticks_off()
    if percent:
        axes.xaxis.set_major_formatter(lambda x, _: f'{x:.0%}')
    elif len(xs) <= _TICKS:
        axes.set_xticks(xs, [f'{x:,g}' for x in xs])
    axes.margins(x=0.04)
    plots.legend(figure, axes)
    return figure


def dots(means, title, xlabel, controls, names):
    """Plots the means and intervals of {name: Interval}, one per line.

    `controls` are hollow and gray. `names` are all runs, in the order of their colors.
    """
    figure, axes = plots.blank(title, '', xlabel, 1.15 + 0.26 * len(means))
    styles = plots.styles(names)
    for row, (name, (value, low, high)) in enumerate(means.items()):
        is_control = name in controls
        color = plots.MUTED if is_control else styles[name]['color']
        if math.isfinite(low):
            axes.plot([low, high], [row, row], color=color, linewidth=1.5, zorder=2)
        face = 'white' if is_control else color
        mark = dict(marker='o', markersize=5.5, color=color, markerfacecolor=face)
        axes.plot([value], [row], **mark, linestyle='none', zorder=3)
    axes.set_yticks(range(len(means)), list(means), color=plots.INK)
    axes.set_ylim(len(means) - 0.5, -0.5)
    axes.margins(x=0.06)
    axes.grid(False, axis='y')
    axes.grid(True, axis='x', color=plots.GRID, linewidth=0.6)
    return figure
