"""Charts of an analysis: arrays -> matplotlib figures, in the style of report/plots.py.

    plane         alignment against uniformity
    by_layer      curves over layers, with error bars
    dots          values with intervals, one line each
    eigenspectra  eigenvalues of covariances
    similarity    CKA between layers

A subject is (model, control). A model has the same color in all figures. Its controls
have the same color, with other markers and line styles, so that figures are readable in
grayscale. `models` are all model names in order, which determines the colors. Intervals
are (value, low, high); ends that are None or NaN are not drawn.
"""

import numpy as np

from jepa_text.evaluation import controls
from jepa_text.report import plots

# {control: (marker, line style)}
LOOKS = {
    '': ('o', 'solid'),
    controls.UNTRAINED: ('o', (0, (4, 2))),
    controls.BAG: ('s', (0, (1, 1.5))),
    controls.TF_IDF: ('^', (0, (1, 3))),
    controls.WHOLE: ('v', (0, (1, 5))),
}
_OTHER = 'D', (0, (6, 2, 1, 2))


def label(model, control):
    """The label of a subject.

    >>> label('mlm', ''), label('mlm', 'untrained'), label('', 'TF-IDF')
    ('mlm', 'mlm, untrained', 'TF-IDF')
    """
    return ', '.join(filter(None, (model, control)))


def plane(points, title, models):
    """Alignment against uniformity (Wang & Isola 2020): lower left is better.

    `points` is {subject: (uniformity, alignment)}, intervals or numbers.
    """
    figure, axes = plots.blank(
        title,
        'alignment (squared distance of positive pairs)',
        'uniformity (lower left is better)',
        _height(points),
    )
    for subject, ends in points.items():
        (x, *across), (y, *up) = map(_interval, ends)
        style = dict(color=_color(subject, models), linewidth=1.1, zorder=2, alpha=0.8)
        axes.plot(across, [y, y], **style)
        axes.plot([x, x], up, **style)
        _mark(axes, x, y, subject, models, 6.5)
    axes.margins(0.12)
    axes.grid(True, axis='x', color=plots.GRID, linewidth=0.6)
    plots.legend(figure, axes)
    return figure


def by_layer(lines, title, ylabel, models, hlines=None):
    """Curves over layers. `lines` is {subject: (layers, intervals)}; intervals are drawn
    as error bars. `hlines` {subject: value} are controls without layers."""
    hlines, maximum = hlines or {}, 0
    height = _height([*lines, *hlines])
    figure, axes = plots.blank(title, ylabel, 'layer (0: the embedding)', height)
    for subject, (layers, intervals) in lines.items():
        values, low, high = np.array([_interval(one) for one in intervals]).T
        _line(axes.plot, layers, values, subject=subject, models=models, zorder=3)
        for layer, value in zip(layers, values):
            _mark(axes, layer, value, subject, models, 3.6, has_label=False)
        color = _color(subject, models)
        axes.vlines(layers, low, high, color=color, linewidth=1, alpha=0.7, zorder=2)
        maximum = max(maximum, *layers)
    for subject, value in hlines.items():
        _line(axes.axhline, value, subject=subject, models=models, zorder=1)
    axes.set_xticks(range(0, maximum + 1, max(1, -(-maximum // 12))))
    plots.legend(figure, axes)
    return figure


def dots(groups, title, xlabel, models, vlines=None):
    """Values with intervals. `groups` is {group: {subject: interval}}: each group is a
    block of lines with its name on the left. `vlines` {label: x} are references."""
    count = sum(map(len, groups.values()))
    height = 1.1 + 0.17 * count + 0.16 * len(groups)
    figure, axes = plots.blank(title, '', xlabel, height)
    place, ticks, seen = 0.0, [], set()
    for group in groups.values():
        ticks.append(place + (len(group) - 1) / 2)
        for subject, interval in group.items():
            value, *ends = _interval(interval)
            color, name = _color(subject, models), label(*subject)
            axes.plot(ends, [place, place], color=color, linewidth=1.3, zorder=2)
            _mark(axes, value, place, subject, models, 5, name not in seen)
            seen.add(name)
            place += 1
        axes.axhline(place - 0.05, color=plots.GRID, linewidth=0.6, zorder=0)
        place += 0.9
    axes.set_yticks(ticks, list(groups), color=plots.INK)
    axes.set_ylim(place - 0.9, -0.8)
    axes.grid(False, axis='y')
    axes.grid(True, axis='x', color=plots.GRID, linewidth=0.6)
    style = dict(color=plots.MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    for name, x in (vlines or {}).items():
        axes.axvline(x, label=name, **style)
    plots.legend(figure, axes)
    return figure


def eigenspectra(values, title, models):
    """Normalized eigenvalues on logarithmic axes, where a power law is a straight line.

    `values` is {subject: eigenvalues in descending order}.
    """
    figure, axes = plots.blank(
        title, 'fraction of the first 64', 'eigenvalue rank', _height(values)
    )
    for subject, spectrum in values.items():
        spectrum = np.asarray(spectrum, np.float64)
        spectrum = spectrum[spectrum > 0]
        if spectrum.size:
            rank = np.arange(1, spectrum.size + 1)
            fraction = spectrum / spectrum.sum()
            _line(axes.loglog, rank, fraction, subject=subject, models=models)
            axes.minorticks_off()
    plots.legend(figure, axes)
    return figure


def similarity(values_RC, title, rows, columns, layers):
    """Heat map of CKA from 0 to 1; `rows` and `columns` are the names of the two models.

    `layers` are the layer numbers of both sides.
    """
    values_RC = np.asarray(values_RC)
    names = f'layer of {rows}', f'layer of {columns}'
    figure, axes = plots.blank(title, *names, height=3.6)
    is_long = max(values_RC.shape) > 2 * min(values_RC.shape)
    # One hue, monotone in lightness: readable in color, in grayscale and in print.
    axes.imshow(
        np.clip(values_RC, 0, 1),
        **dict(cmap='Blues', vmin=0, vmax=1, origin='lower'),
        aspect='auto' if is_long else 'equal',
    )
    if values_RC.size <= 196:
        style = dict(ha='center', va='center', fontsize=7.5 - 1.5 * (values_RC.size > 64))
        for (row, column), value in np.ndenumerate(values_RC):
            text = f'{value:.2f}'.replace('0.', '.')
            color = 'white' if value > 0.6 else plots.INK
            axes.text(column, row, text, color=color, **style)
    for axis, numbers in zip((axes.set_yticks, axes.set_xticks), layers):
        ticks = range(0, len(numbers), max(1, len(numbers) // 12))
        axis(ticks, [str(numbers[tick]) for tick in ticks])
    axes.grid(False)
    axes.spines['bottom'].set_visible(False)
    return figure


def _height(names):
    """Figure height in inches, including the legend below the axes."""
    return 2.75 + 0.17 * -(-len(names) // 2)


def _color(subject, models):
    model, _ = subject
    return plots.shade(models.index(model)) if model in models else plots.MUTED


def _line(draw, *values, subject, models, **style):
    """Draws a line of a subject, wider for a model than for its controls."""
    draw(
        *values,
        color=_color(subject, models),
        linestyle=LOOKS.get(subject[1], _OTHER)[1],
        linewidth=1.2 if subject[1] else 1.6,
        label=plots.legend_label(label(*subject)),
        **style,
    )


def _mark(axes, x, y, subject, models, size, has_label=True):
    """Draws a marker: filled for a model, hollow for a control. Without a label it is
    omitted from the legend."""
    color = _color(subject, models)
    axes.plot(
        [x],
        [y],
        marker=LOOKS.get(subject[1], _OTHER)[0],
        markersize=size,
        color=color,
        markerfacecolor='white' if subject[1] else color,
        markeredgewidth=1.2,
        linestyle='none',
        label=plots.legend_label(label(*subject)) if has_label else None,
        zorder=4,
    )


def _interval(value):
    """(value, low, high); missing ends are replaced by the value."""
    middle, *ends = np.broadcast_to(np.array(value, float), 3) + 0.0
    return middle, *(x if np.isfinite(x) else middle for x in ends)
