"""Matplotlib figures in one style, without global state.

    curves    values over steps, of one run or of several seeds with their range
    errors    means with intervals over a number, such as a layer or a learning rate
    dots      means with intervals, one line each

Every function returns a `matplotlib.figure.Figure` that is independent of pyplot: save it
with `figure.savefig('loss.png')`, or pass it to `page.write`. The same arrays give the
same figure. The background is transparent. Colors suit color-blind readers (hues of Okabe
& Ito, which differ in lightness as well); from the seventh run on, runs of the same hue
differ in dashes and markers.

A run has the same color in all figures that list the runs in the same order. `looks`
replaces the styles of `styles`: {name: keywords of axes.plot}.
"""

import collections

import numpy as np

from jepa_text.files import extras

COLORS = ('#0072b2', '#d55e00', '#009e73', '#cc79a7', '#8a6d00', '#56b4e9')
INK, MUTED, GRID = '#24292f', '#6e7781', '#d0d7de'
# Line styles and markers, changed after every six runs.
DASHES = ('solid', (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
MARKERS = (None, 's', '^', 'D', 'v')
BASELINES = ('untrained', 'unigram', 'chance')  # always gray
_TICKS = 12  # maximum number of tick labels


def curves(runs, title, ylabel, hlines=None, xlabel='step', looks=None, log=''):
    """Plots curves of several runs over steps.

    runs        {name: (steps, values)}. Values [S, N] of several seeds are drawn as their
                mean, and the range from minimum to maximum as a band. Empty series are
                skipped, and NaN, also of one seed, leaves a gap
    hlines      {label: y} of dashed reference lines
    log         axes with a logarithmic scale: '', 'y' or 'xy'

    Raises ValueError if the numbers of steps and values differ.
    """
    figure, axes = blank(title, ylabel, xlabel)
    looks = looks or styles(runs)
    for name, (steps, values) in runs.items():
        steps_N, values_SN = np.asarray(steps), np.atleast_2d(np.asarray(values, float))
        if values_SN.shape[1:] != steps_N.shape:
            raise ValueError(
                f'{title}: run {name!r} has steps of shape {steps_N.shape} and values of '
                f'shape {np.shape(values)}; expected one value for each step.'
            )
        if steps_N.size and not np.isnan(values_SN).all():
            _curve(axes, steps_N, values_SN, looks[name])
    if axes.lines:
        axes.margins(x=0.02)
        _widen_constants(axes)
        axes.set(**{f'{axis}scale': 'log' for axis in log})
        axes.minorticks_off()
    for label, level in (hlines or {}).items():
        axes.axhline(level, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=2)
        axes.annotate(
            label,
            (1, level),
            xycoords=('axes fraction', 'data'),
            xytext=(0, 3),
            textcoords='offset points',
            ha='right',
            color=MUTED,
            fontsize=9,
        )
    legend(figure, axes)
    return figure


def _curve(axes, steps_N, values_SN, style):
    count, color = steps_N.size, style['color']
    # Few points get markers.
    marker = style['marker'] or ('o' if count < 12 else None)
    style = style | dict(marker=marker, markersize=3.5, markevery=max(1, count // 12))
    values_N = values_SN[0]
    if len(values_SN) > 1:
        low_N, high_N = values_SN.min(axis=0), values_SN.max(axis=0)
        axes.fill_between(steps_N, low_N, high_N, color=color, alpha=0.13, linewidth=0)
        values_N = values_SN.mean(axis=0)
    axes.plot(steps_N, values_N, **style, zorder=3)


def errors(runs, title, ylabel, xlabel, looks=None, flat=None, log=False):
    """Plots means with intervals, {name: {x: (value, low, high)}}, over x.

    flat       {name: value} that does not depend on x, as a horizontal line
    log        whether x has a logarithmic scale
    """
    flat = flat or {}
    figure, axes = blank(title, ylabel, xlabel)
    looks = looks or styles([*runs, *flat])
    for name, intervals in runs.items():
        xs = sorted(intervals)
        style = {'markersize': 4} | looks[name]
        style['marker'] = style['marker'] or 'o'
        values, low, high = np.array([ends(intervals[x]) for x in xs]).T
        axes.plot(xs, values, **style, zorder=3)
        axes.vlines(xs, low, high, color=style['color'], linewidth=1.2, zorder=2)
    for name, value in flat.items():
        axes.axhline(value, **looks[name] | {'marker': None}, zorder=1)
    if log:
        axes.set_xscale('log')
    xs = sorted({x for intervals in runs.values() for x in intervals})
    xs = xs[:: max(1, -(-len(xs) // _TICKS))]
    axes.set_xticks(xs, [*map(_tick, xs)])
    axes.minorticks_off()
    axes.margins(x=0.04)
    legend(figure, axes)
    return figure


def _tick(x):
    """Returns a number as text: '10,000', '0.5', '1e-4'."""
    if not 0 < x < 0.01:
        return f'{x:,g}'
    return np.format_float_scientific(float(f'{x:.6g}'), trim='-', exp_digits=1)


def dots(groups, title, xlabel, looks, has_legend=True):
    """Plots means with intervals, {group: {name: (value, low, high)}}, one line each;
    each group is a block of lines with its name on the left."""
    count, gap = sum(map(len, groups.values())), 0.9 if has_legend else 0.0
    rows = count + gap * len(groups)
    size = 1.1 + rows * (0.19 if has_legend else 0.28)
    figure, axes = blank(title, '', xlabel, size)
    row, ticks = 0.0, []
    for group in groups.values():
        ticks.append(row + (len(group) - 1) / 2)
        for name, interval in group.items():
            style = {'markersize': 5.5} | looks[name] | {'linestyle': 'none'}
            style['marker'] = style['marker'] or 'o'
            value, *interval = ends(interval)
            axes.plot(interval, [row, row], color=style['color'], linewidth=1.4, zorder=2)
            axes.plot([value], [row], **style, zorder=4)
            row += 1
        if has_legend:
            axes.axhline(row - 0.05, color=GRID, linewidth=0.6, zorder=0)
        row += gap
    named = [looks.get(group, {'label': group})['label'] for group in groups]
    axes.set_yticks(ticks, named, color=INK)
    axes.set_ylim(row - gap - 0.4, -0.6)
    axes.margins(x=0.06)
    axes.locator_params(axis='x', nbins=6)  # labels of four decimals fit
    axes.grid(False, axis='y')
    axes.grid(True, axis='x', color=GRID, linewidth=0.6)
    if has_legend:
        legend(figure, axes)
    return figure


def ends(interval):
    """Returns (value, low, high) as floats; missing ends are replaced by the value."""
    middle, *others = np.broadcast_to(np.array(interval, float), 3).tolist()
    return middle, *(x if np.isfinite(x) else middle for x in others)


def _widen_constants(axes):
    """Widens the y axis of curves that are constant up to rounding errors."""
    values = np.concatenate([line.get_ydata() for line in axes.lines])
    values = values[np.isfinite(values)]
    if values.size and np.ptp(values) <= 1e-5 * np.abs(values).max():
        middle = float(values.mean())
        axes.set_ylim(middle - max(abs(middle), 1), middle + max(abs(middle), 1))


def styles(names, controls=BASELINES):
    """Returns {name: keywords of axes.plot}, by order of the names without controls,
    which are gray and hollow."""
    runs = [name for name in names if name not in controls]
    baseline = dict(color=MUTED, linestyle='solid', linewidth=1.5, marker=None)
    looks = {name: baseline | {'markerfacecolor': 'white'} for name in names}
    for number, name in enumerate(runs):
        turn = number // len(COLORS)
        looks[name] = dict(
            color=COLORS[number % len(COLORS)],
            # Later curves are thinner, so that those below show where they coincide.
            linewidth=1.4 + 1.6 * (len(runs) - 1 - number) / max(1, len(runs) - 1),
            linestyle=DASHES[turn % len(DASHES)],
            marker=MARKERS[turn % len(MARKERS)],
        )
    return {name: looks[name] | {'label': one} for name, one in _labels(names).items()}


def _labels(names):
    """Returns {name: its label}: without its middle if it is long, numbered if that is
    equal to another; with a space before a first '_', as matplotlib leaves those out."""
    labels, seen = {}, collections.Counter()
    for name in dict.fromkeys(names):
        label = name if len(name) <= 36 else f'{name[:16]}…{name[-19:]}'
        seen[label] += 1
        number = f' ({seen[label]})' * (seen[label] > 1)
        labels[name] = f'{" " * label.startswith("_")}{label}{number}'
    return labels


def blank(title, ylabel, xlabel, height=3.2):
    """Returns (figure, axes) in the common style; ImportError without matplotlib."""
    library = extras.package('matplotlib.figure', 'viz', 'A figure')
    figure = library.Figure(figsize=(5.2, height), layout='constrained', facecolor='none')
    axes = figure.add_subplot(facecolor='none')
    figure.suptitle(title, x=0.02, ha='left', fontsize=12, fontweight='bold', color=INK)
    axes.set_xlabel(xlabel, color=MUTED, fontsize=10.5)
    axes.set_ylabel(ylabel, color=MUTED, fontsize=10.5)
    axes.spines[['top', 'right', 'left']].set_visible(False)
    axes.spines['bottom'].set_color(GRID)
    axes.tick_params(colors=MUTED, labelsize=9.5, length=0)
    axes.grid(True, axis='y', color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def described(figure):
    """Returns a figure as a sentence, for readers who do not see it."""
    axes = figure.axes[0]
    across, up = axes.get_xlabel(), axes.get_ylabel()
    shown = f'{up} by {across}' if up else across
    names = [text.get_text() for one in figure.legends for text in one.get_texts()]
    names = names or [text.get_text() for text in axes.get_yticklabels()] * (not up)
    given = f'{figure.get_suptitle()}: {shown}' if shown else figure.get_suptitle()
    return ' '.join(f'{given}, of {", ".join(names)}.'.split()) if names else f'{given}.'


def deterministic_svg():
    """Returns a context in which equal figures give equal SVGs, with text as text."""
    import matplotlib

    return matplotlib.rc_context({'svg.fonttype': 'none', 'svg.hashsalt': 'jepa-text'})


def legend(figure, axes):
    """Adds the legend below the axes, each label once, in a figure made higher by it."""
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles))
    if unique:
        longest = max(map(len, unique))
        columns = max(1, min(3 - (len(unique) > 3), 60 // (longest + 6)))
        rows = -(-len(unique) // columns)
        figure.set_figheight(figure.get_figheight() + 0.2 * (rows - 1))
        figure.legend(
            unique.values(),
            unique,
            loc='outside lower left',
            ncols=columns,
            frameon=False,
            fontsize=10,
            labelcolor=INK,
            # Long enough to show dashes.
            handlelength=1.4 if len(unique) <= len(COLORS) else 3.0,
            columnspacing=1.4,
        )
