"""Matplotlib figures in one style, without global state.

Every function returns a `matplotlib.figure.Figure` that is independent of pyplot: save it
with `figure.savefig('loss.png')`, or pass it to `page.write`. The same arrays give the
same figure. The background is transparent. Colors suit color-blind readers (hues of Okabe
& Ito, which differ in lightness as well); from the seventh run on, runs of the same hue
differ in shade, dashes and markers.
"""

import numpy as np

COLORS = ('#0072b2', '#d55e00', '#009e73', '#cc79a7', '#8a6d00', '#56b4e9')
INK, MUTED, GRID = '#24292f', '#6e7781', '#d0d7de'
# Line styles and markers, changed after every six runs.
DASHES = ('solid', (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
MARKERS = (None, 's', '^', 'D', 'v')
_SHADES = (None, (INK, 0.5), ('#ffffff', 0.45))  # (color to mix in, its share)
BASELINES = ('untrained', 'unigram', 'chance')  # always gray
_SMOOTH_FROM = 80  # points from which a noisy curve gets a running mean


def curves(runs, title, ylabel, hlines=None, switches=None, xlabel='step'):
    """Plots curves of several runs over steps.

    runs        {name: (steps, values)}. Empty series are skipped, NaN leaves a gap, and
                noisy curves of many points are drawn faintly under their running mean
    hlines      {label: y} of dashed reference lines
    switches    {label: step or steps} of light vertical lines, such as starts of phases

    Colors are assigned by order, without the BASELINES: a run has the same color in all
    figures that list the runs in the same order. Raises ValueError if the lengths of
    steps and values differ.
    """
    figure, axes = blank(title, ylabel, xlabel, height(runs))
    run_styles = styles(runs)
    for name, (steps, values) in runs.items():
        steps, values = np.asarray(steps), np.asarray(values, np.float64)
        if steps.shape != values.shape or steps.ndim != 1:
            raise ValueError(
                f'{title}: run {name!r} has steps of shape {steps.shape} and values of '
                f'shape {values.shape}; expected 1-D arrays of the same length.'
            )
        if not steps.size:
            continue
        style = curve_style(run_styles[name], steps.size)
        if _is_noisy(values):
            axes.plot(steps, values, color=style['color'], alpha=0.22, linewidth=0.8)
            values = _running_mean(values, steps.size // 40)
        axes.plot(steps, values, **style, label=legend_label(name), zorder=3)
    if axes.lines:
        axes.margins(x=0.02)
        _widen_constants(axes)
    reference_lines(axes, hlines)
    for label, steps in (switches or {}).items():
        for step in np.atleast_1d(steps):
            _vertical_line(axes, label, step)
    legend(figure, axes)
    return figure


def spectra(values, title, ylabel='singular value / largest'):
    """Plots singular value spectra, each relative to its largest value.

    `values` is {name: singular values in descending order}. A flat spectrum means spread
    out representations, a cliff a collapse. Zeros cannot be drawn on the logarithmic axis
    and end the line.
    """
    figure, axes = blank(title, ylabel, 'direction, strongest first')
    run_styles = styles(values)
    for name, spectrum in values.items():
        spectrum = np.asarray(spectrum, np.float64)
        spectrum = spectrum[spectrum > 0]
        if spectrum.size:
            ranks, relative = np.arange(1, spectrum.size + 1), spectrum / spectrum[0]
            style = run_styles[name] | {'markevery': 0.1, 'markersize': 3.5}
            axes.plot(ranks, relative, label=legend_label(name), **style)
    if axes.lines:
        axes.set_yscale('log')
    legend(figure, axes)
    return figure


def lengths(counts, title, row_length):
    """Plots document lengths: the share with 1, 2 to 3, 4 to 7, ... tokens.

    `counts` is {split: [documents per power of two]}. A line marks the `row_length`.
    """
    figure, axes = blank(title, 'share of the documents', 'tokens of a document')
    width = 0.84 / len(counts)
    longest = max(map(len, counts.values()))
    for index, (name, numbers) in enumerate(counts.items()):
        shares = np.asarray(numbers, np.float64) / max(sum(numbers), 1)
        left = np.arange(len(shares)) + 0.08 + index * width
        axes.bar(
            left,
            shares,
            width,
            align='edge',
            label=legend_label(name),
            color=shade(index),
        )
    filled = [
        exponent
        for numbers in counts.values()
        for exponent, count in enumerate(numbers)
        if count
    ]
    first = min(filled, default=0)
    axes.set_xlim(first, max(longest, first + 1))
    edges = range(first, longest + 1, 1 + (longest - first) // 12)
    axes.set_xticks(edges, [_power(edge) for edge in edges])
    axes.yaxis.set_major_formatter(lambda share, _: f'{share:.0%}')
    at = np.log2(row_length)
    if first <= at <= longest:
        _vertical_line(axes, 'a row', at)
    legend(figure, axes)
    return figure


def _power(exponent):
    """Returns 2 ** exponent in short form: '512', '4k', '1M'."""
    units = min(exponent // 10, 3)
    return f'{2 ** (exponent - 10 * units)}{("", "k", "M", "G")[units]}'


def _widen_constants(axes):
    """Widens the y axis of curves that are constant up to rounding errors."""
    values = np.concatenate([line.get_ydata() for line in axes.lines])
    values = values[np.isfinite(values)]
    if values.size and np.ptp(values) <= 1e-5 * np.abs(values).max():
        middle = float(values.mean())
        axes.set_ylim(middle - max(abs(middle), 1), middle + max(abs(middle), 1))


def shade(place):
    """Returns the color of the run at index `place`; the shade changes every six runs.

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
    """Returns {name: dict of color, line style and marker}, by order of the runs."""
    runs = [name for name in names if name not in BASELINES]
    baseline = dict(color=MUTED, linestyle='solid', linewidth=1.5, marker=None)
    styles = dict.fromkeys(names, baseline)
    for place, name in enumerate(runs):
        turn = place // len(COLORS)
        styles[name] = dict(
            color=shade(place),
            # Later curves are thinner, so that those below show where they coincide.
            linewidth=1.4 + 1.6 * (len(runs) - 1 - place) / max(1, len(runs) - 1),
            linestyle=DASHES[turn % len(DASHES)],
            marker=MARKERS[turn % len(MARKERS)],
        )
    return styles


def curve_style(style, points):
    """Returns the style of a curve with this many points; few points get markers."""
    marker = style['marker'] or ('o' if points < 12 else None)
    return style | dict(marker=marker, markersize=3.5, markevery=max(1, points // 12))


def height(runs):
    """Returns the height of a figure with room for the legend of these runs."""
    rows = -(-len(runs) // 2)
    return 3.1 + 0.17 * max(0, rows - 3)


def blank(title, ylabel, xlabel, height=3.1):
    """Returns (figure, axes) in the common style; ImportError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Figures require matplotlib: pip install 'jepa-text[viz]'."
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


def deterministic_svg():
    """Returns a context in which equal figures give equal SVGs, with text as text."""
    import matplotlib

    return matplotlib.rc_context({'svg.fonttype': 'none', 'svg.hashsalt': 'jepa-text'})


def reference_lines(axes, hlines):
    """Draws dashed horizontal lines with labels, {label: y} or None."""
    for label, height in (hlines or {}).items():
        axes.axhline(height, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=2)
        _label(axes, label, (1, height), ('axes fraction', 'data'), (0, 3), ha='right')


def _vertical_line(axes, label, x):
    axes.axvline(x, color=MUTED, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
    _label(axes, label, (x, 1), ('data', 'axes fraction'), (4, -2), va='top')


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
    """Returns whether a long curve changes direction often, which hides its trend."""
    # A schedule changes direction a few times; smoothing would round its corners.
    moves = np.diff(values[np.isfinite(values)])
    turns = np.sum(moves[1:] * moves[:-1] < 0)
    return values.size >= _SMOOTH_FROM and turns > 0.2 * values.size


def _running_mean(values, width):
    """Returns the mean over up to `width` points on either side; NaN stays NaN."""
    finite = np.isfinite(values)
    kernel = np.ones(2 * width + 1)
    total = np.convolve(np.where(finite, values, 0.0), kernel, mode='same')
    count = np.convolve(finite.astype(np.float64), kernel, mode='same')
    return np.where(finite, total / np.maximum(count, 1), np.nan)


def legend_label(name):
    """Returns the label of a name: matplotlib leaves those with a first '_' out."""
    return f' {name}' if name.startswith('_') else name


def legend(figure, axes):
    """Adds the legend below the axes."""
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
            # Long enough to show dashes.
            handlelength=1.4 if len(labels) <= len(COLORS) else 3.0,
            columnspacing=1.4,
        )
