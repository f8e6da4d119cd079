"""arrays -> matplotlib figures, all in one style and without global state.

Every function returns a `matplotlib.figure.Figure` that belongs to no window and to no
pyplot: `figure.savefig('loss.png')`, or hand it to `report.write`. The same arrays give
the same figure. The background is transparent and lines keep apart for color-blind
readers (hues of Okabe & Ito, told apart by lightness as well); from the seventh run on,
shade, dashes and markers tell apart those of one hue.
"""

import numpy as np

COLORS = ('#0072b2', '#d55e00', '#009e73', '#cc79a7', '#8a6d00', '#56b4e9')
INK, MUTED, GRID = '#24292f', '#6e7781', '#d0d7de'
# What the lines of every further six runs look like.
DASHES = ('solid', (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
MARKERS = (None, 's', '^', 'D', 'v')
_SHADES = (None, (INK, 0.5), ('#ffffff', 0.45))  # mixed in: how much of it
BASELINES = ('untrained', 'unigram', 'chance')  # always grey: the colors are for runs
_SMOOTH_FROM = 80  # longer curves get a running mean, if they go up and down


def curves(runs, title, ylabel, hlines=None, switches=None, xlabel='step'):
    """Curves of several runs over steps.

    `runs` is {name: (steps, values)}; empty series are left out, NaN leaves a gap, and
    noisy curves of many points are drawn faintly under their running mean. `hlines`
    {label: y} are dashed reference lines; `switches` {label: step} are light vertical
    lines, such as the step at which a phase begins. Colors go by order, without the
    BASELINES: a run keeps its color in all figures that list the runs in one order.

    Raises ValueError for steps and values of different lengths.
    """
    # The axes keep their size whatever the legend below them needs.
    rows = -(-len(runs) // 2)
    figure, axes = blank(title, ylabel, xlabel, height=3.1 + 0.17 * max(0, rows - 3))
    for name, (steps, values) in runs.items():
        steps, values = np.asarray(steps), np.asarray(values, np.float64)
        if steps.shape != values.shape or steps.ndim != 1:
            raise ValueError(
                f'{title}: run {name!r} has steps {steps.shape} and values '
                f'{values.shape}; both must be one row of the same length.'
            )
        if not steps.size:
            continue
        style = styles(runs)[name]
        color, marker = style['color'], style['marker']
        if marker is None and steps.size < 12:
            marker = 'o'
        if _is_noisy(values):
            axes.plot(steps, values, color=color, alpha=0.22, linewidth=0.8)
            values = _running_mean(values, steps.size // 40)
        axes.plot(
            steps,
            values,
            color=color,
            linestyle=style['linestyle'],
            label=name,
            marker=marker,
            markevery=max(1, steps.size // 12),
            markersize=3.5,
            zorder=3,
        )
    if axes.lines:
        axes.margins(x=0.02)
        _widen_constants(axes)
    _reference_lines(axes, hlines)
    for label, step in (switches or {}).items():
        axes.axvline(step, color=MUTED, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
        _label(axes, label, (step, 1), ('data', 'axes fraction'), (4, -2), va='top')
    legend(figure, axes)
    return figure


def spectra(values, title, ylabel='singular value / largest'):
    """Sorted singular values of several clouds, each relative to its largest.

    `values` is {name: singular values, largest first}. Straight and high is spread out,
    a cliff is a collapse. Zeros cannot be drawn on the logarithmic axis and end the line.
    """
    figure, axes = blank(title, ylabel, 'direction, strongest first')
    for name, spectrum in values.items():
        spectrum = np.asarray(spectrum, np.float64)
        spectrum = spectrum[spectrum > 0]
        if spectrum.size:
            ranks, relative = np.arange(1, spectrum.size + 1), spectrum / spectrum[0]
            style = styles(values)[name] | {'markevery': 0.1, 'markersize': 3.5}
            axes.plot(ranks, relative, label=name, **style)
    if axes.lines:
        axes.set_yscale('log')
    legend(figure, axes)
    return figure


def lengths(counts, title, row_length):
    """How long documents are: bars of the share that has 1, 2 to 3, 4 to 7, ... tokens.

    `counts` is {name: [how many of each power of two]}; a line marks the `row_length`.
    """
    figure, axes = blank(title, 'share of the documents', 'tokens of a document')
    width = 0.84 / len(counts)
    longest = max(map(len, counts.values()))
    for place, (name, found) in enumerate(counts.items()):
        shares = np.asarray(found, np.float64) / max(sum(found), 1)
        left = np.arange(len(shares)) + 0.08 + place * width
        axes.bar(left, shares, width, align='edge', label=name, color=shade(place))
    filled = (n for found in counts.values() for n, count in enumerate(found) if count)
    first = min(filled, default=0)
    axes.set_xlim(first, max(longest, first + 1))
    edges = range(first, longest + 1, 1 + (longest - first) // 12)
    axes.set_xticks(edges, [_power(edge) for edge in edges])
    axes.yaxis.set_major_formatter(lambda share, _: f'{share:.0%}')
    at = np.log2(row_length)
    if first <= at <= longest:
        axes.axvline(at, color=MUTED, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
        _label(axes, 'a row', (at, 1), ('data', 'axes fraction'), (4, -2), va='top')
    legend(figure, axes)
    return figure


def _power(exponent):
    """2 to this power, short: '512', '4k', '1M'."""
    units = min(exponent // 10, 3)
    return f'{2 ** (exponent - 10 * units)}{("", "k", "M", "G")[units]}'


def _widen_constants(axes):
    """A curve that is constant but for rounding is drawn flat, not magnified."""
    values = np.concatenate([line.get_ydata() for line in axes.lines])
    values = values[np.isfinite(values)]
    if values.size and np.ptp(values) <= 1e-5 * np.abs(values).max():
        middle = float(values.mean())
        axes.set_ylim(middle - max(abs(middle), 1), middle + max(abs(middle), 1))


def shade(place):
    """The color of the run at a place, from 0: a hue, in its own shade every six runs.

    >>> shade(0), shade(6)
    ('#0072b2', '#124e70')
    """
    turn, hue = divmod(place, len(COLORS))
    mixed = _SHADES[turn % len(_SHADES)]
    if mixed is None:
        return COLORS[hue]
    other, share = mixed
    parts = zip(_channels(COLORS[hue]), _channels(other))
    return '#' + ''.join(f'{round(a + share * (b - a)):02x}' for a, b in parts)


def _channels(color):
    return [int(color[at : at + 2], 16) for at in (1, 3, 5)]


def styles(names):
    """{name: color, line style and marker}, by its place among the runs."""
    runs = [name for name in names if name not in BASELINES]
    styles = {name: dict(color=MUTED, linestyle='solid', marker=None) for name in names}
    for place, name in enumerate(runs):
        turn = place // len(COLORS)
        styles[name] = dict(
            color=shade(place),
            linestyle=DASHES[turn % len(DASHES)],
            marker=MARKERS[turn % len(MARKERS)],
        )
    return styles


def blank(title, ylabel, xlabel, height=3.1):
    """(figure, axes) in the style of all figures; ImportError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Figures need matplotlib: pip install 'jepa-text[viz]'."
        ) from error
    figure = Figure(figsize=(5.2, height), layout='constrained', facecolor='none')
    axes = figure.add_subplot(facecolor='none')
    figure.suptitle(title, x=0.02, ha='left', fontsize=10.5, fontweight='bold', color=INK)
    axes.set_xlabel(xlabel, color=MUTED, fontsize=8.5)
    axes.set_ylabel(ylabel, color=MUTED, fontsize=8.5)
    axes.spines[['top', 'right', 'left']].set_visible(False)
    axes.spines['bottom'].set_color(GRID)
    axes.tick_params(colors=MUTED, labelsize=8, length=0)
    axes.grid(True, axis='y', color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def same_svg():
    """A context in which the same figure gives the same SVG, whose text stays text."""
    import matplotlib

    return matplotlib.rc_context({'svg.fonttype': 'none', 'svg.hashsalt': 'jepa-text'})


def _reference_lines(axes, hlines):
    for label, height in (hlines or {}).items():
        axes.axhline(height, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=2)
        _label(axes, label, (1, height), ('axes fraction', 'data'), (0, 3), ha='right')


def _label(axes, text, place, units, offset, **options):
    axes.annotate(
        text,
        place,
        xycoords=units,
        xytext=offset,
        textcoords='offset points',
        color=MUTED,
        fontsize=7.5,
        **options,
    )


def _is_noisy(values):
    """Whether a long curve turns so often that its trend is hard to see."""
    # A schedule turns a few times; smoothing would round its corners off.
    moves = np.diff(values[np.isfinite(values)])
    turns = np.sum(moves[1:] * moves[:-1] < 0)
    return values.size >= _SMOOTH_FROM and turns > 0.2 * values.size


def _running_mean(values, width):
    """The mean of up to `width` points on either side; NaN stays NaN."""
    finite = np.isfinite(values)
    kernel = np.ones(2 * width + 1)
    total = np.convolve(np.where(finite, values, 0.0), kernel, mode='same')
    count = np.convolve(finite.astype(np.float64), kernel, mode='same')
    return np.where(finite, total / np.maximum(count, 1), np.nan)


def legend(figure, axes):
    """The names of what the axes show, below them."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles,
            labels,
            loc='outside lower left',
            ncols=3 if len(labels) <= 3 else 2,
            frameon=False,
            fontsize=8.5,
            labelcolor=INK,
            # Dashes need room to be told apart.
            handlelength=1.4 if len(labels) <= len(COLORS) else 3.0,
            columnspacing=1.4,
        )
