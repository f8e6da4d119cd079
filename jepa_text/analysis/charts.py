"""Figures of an analysis: arrays -> matplotlib figures, in the style of plots.py.

    plane       alignment against uniformity
    by_layer    curves over layers, with bands
    dots        values with intervals, one line each
    eigenspectra, likeness (CKA)

A model has one colour in all of them; its controls have the same colour and are told
apart by marker and line, so that a figure is read in grey as well.
"""

import numpy as np

from jepa_text.evaluation import controls
from jepa_text.report import plots

MARKERS = {
    '': 'o',
    controls.UNTRAINED: 'o',
    controls.BAG: 's',
    controls.TF_IDF: '^',
    controls.WHOLE: 'v',
}
DASHES = {
    '': 'solid',
    controls.UNTRAINED: (0, (4, 2)),
    controls.BAG: (0, (1, 1.5)),
    controls.TF_IDF: (0, (1, 3)),
    controls.WHOLE: (0, (1, 5)),
}


def label(model, control):
    """'mlm', 'mlm, untrained', 'TF-IDF'.

    >>> label('mlm', ''), label('mlm', 'untrained'), label('', 'TF-IDF')
    ('mlm', 'mlm, untrained', 'TF-IDF')
    """
    return ', '.join(filter(None, (model, control)))


def plane(points, title, models):
    """Alignment against uniformity (Wang & Isola 2020): lower left is better.

    `points` is {(model, control): (uniformity, alignment)} with Intervals or numbers;
    `models` all names in their order, which gives the colours.
    """
    figure, axes = plots.blank(
        title,
        'alignment (distance² of positives)',
        'uniformity (lower left is near and spread)',
        height=_height(points),
    )
    for (model, control), (across, up) in points.items():
        across, up = _interval(across), _interval(up)
        colour = _colour(model, models)
        style = dict(color=colour, linewidth=1.1, zorder=2, alpha=0.8)
        axes.plot(across[1:], [up[0]] * 2, **style)
        axes.plot([across[0]] * 2, up[1:], **style)
        _mark(axes, across[0], up[0], control, colour, label(model, control), 6.5)
    axes.margins(0.12)
    axes.grid(True, axis='x', color=plots.GRID, linewidth=0.6)
    plots.legend(figure, axes)
    return figure


def by_layer(lines, title, ylabel, models, hlines=None):
    """Curves over layers. `lines` is {(model, control): (layers, intervals)}; where an
    interval has ends, a bar is drawn. `hlines` {(model, control): value}: controls that
    have no layers."""
    height = _height([*lines, *(hlines or {})])
    figure, axes = plots.blank(title, ylabel, 'layer (0: the embedding)', height)
    most = 0
    for (model, control), (layers, intervals) in lines.items():
        values, low, high = np.array([_interval(one) for one in intervals]).T
        colour = _colour(model, models)
        axes.plot(
            layers,
            values,
            color=colour,
            linestyle=DASHES[control],
            linewidth=1.6 if not control else 1.2,
            label=label(model, control),
            zorder=3,
        )
        for layer, value in zip(layers, values):
            _mark(axes, layer, value, control, colour, None, 3.6)
        axes.vlines(layers, low, high, color=colour, linewidth=1, alpha=0.7, zorder=2)
        most = max(most, *layers)
    for (model, control), value in (hlines or {}).items():
        axes.axhline(
            value,
            color=_colour(model, models),
            linestyle=DASHES.get(control, (0, (6, 2, 1, 2))),
            linewidth=1,
            label=label(model, control),
            zorder=1,
        )
    axes.set_xticks(range(0, most + 1, max(1, -(-most // 12))))
    plots.legend(figure, axes)
    return figure


def dots(groups, title, xlabel, models, vlines=None):
    """Values with intervals. `groups` is {group: {(model, control): Interval}}: one
    block of lines a group, its name on the left; `vlines` {label: x} for references."""
    count = sum(len(group) for group in groups.values())
    height = 1.1 + 0.17 * count + 0.16 * len(groups)
    figure, axes = plots.blank(title, '', xlabel, height=height)
    place, ticks, seen = 0.0, [], set()
    for group in groups.values():
        start = place
        for (model, control), interval in group.items():
            value, low, high = _interval(interval)
            colour, name = _colour(model, models), label(model, control)
            axes.plot([low, high], [place, place], color=colour, linewidth=1.3, zorder=2)
            shown = None if name in seen else name
            _mark(axes, value, place, control, colour, shown, 5)
            seen.add(name)
            place += 1
        ticks.append((start + place - 1) / 2)
        place += 0.9
        axes.axhline(place - 0.95, color=plots.GRID, linewidth=0.6, zorder=0)
    axes.set_yticks(ticks, list(groups), color=plots.INK)
    axes.set_ylim(place - 0.9, -0.8)
    axes.grid(False, axis='y')
    axes.grid(True, axis='x', color=plots.GRID, linewidth=0.6)
    for name, x in (vlines or {}).items():
        axes.axvline(
            x, color=plots.MUTED, linewidth=1, linestyle=(0, (4, 3)), label=name, zorder=1
        )
    plots.legend(figure, axes)
    return figure


def eigenspectra(values, title, models):
    """Eigenvalues over their sum, both axes logarithmic: a power law is straight.

    `values` is {(model, control): eigenvalues, largest first}.
    """
    figure, axes = plots.blank(
        title, 'share of the first 64', 'direction, strongest first', _height(values)
    )
    for (model, control), spectrum in values.items():
        spectrum = np.asarray(spectrum, np.float64)
        spectrum = spectrum[spectrum > 0]
        if spectrum.size:
            axes.plot(
                np.arange(1, spectrum.size + 1),
                spectrum / spectrum.sum(),
                color=_colour(model, models),
                linestyle=DASHES[control],
                linewidth=1.6 if not control else 1.2,
                label=label(model, control),
            )
    if axes.lines:
        axes.set_xscale('log')
        axes.set_yscale('log')
        axes.minorticks_off()
    plots.legend(figure, axes)
    return figure


def likeness(values_RC, title, rows, columns, layers=None):
    """A map of CKA: layers of `rows` (its name) down, of `columns` across; 0 to 1.

    `layers`: the numbers of both sides' layers; None: 0, 1, ...
    """
    values_RC = np.asarray(values_RC)
    figure, axes = plots.blank(
        title, f'layer of {rows}', f'layer of {columns}', height=3.6
    )
    # One hue, monotone in lightness: the same order in colour, in grey and in print.
    axes.imshow(
        np.clip(values_RC, 0, 1),
        cmap='Blues',
        vmin=0,
        vmax=1,
        origin='lower',
        aspect='auto' if max(values_RC.shape) > 2 * min(values_RC.shape) else 'equal',
    )
    if values_RC.size <= 196:
        for (row, column), value in np.ndenumerate(values_RC):
            axes.text(
                column,
                row,
                f'{value:.2f}'.replace('0.', '.'),
                ha='center',
                va='center',
                fontsize=7.5 if values_RC.size <= 64 else 6,
                color='white' if value > 0.6 else plots.INK,
            )
    layers = layers or tuple(range(size) for size in values_RC.shape)
    for axis, numbers in ((axes.set_yticks, layers[0]), (axes.set_xticks, layers[1])):
        shown = range(0, len(numbers), max(1, len(numbers) // 12))
        axis(shown, [str(numbers[place]) for place in shown])
    axes.grid(False)
    axes.spines['bottom'].set_visible(False)
    return figure


def _height(names):
    """Inches: the axes keep their size whatever the legend below them needs."""
    return 2.75 + 0.17 * -(-len(names) // 2)


def _colour(model, models):
    if model not in models:
        return plots.MUTED
    return plots.shade(list(models).index(model))


def _mark(axes, x, y, control, colour, name, size):
    """Full for a model, hollow for a control."""
    axes.plot(
        [x],
        [y],
        marker=MARKERS.get(control, 'D'),
        markersize=size,
        color=colour,
        markerfacecolor=colour if not control else 'white',
        markeredgewidth=1.2,
        linestyle='none',
        label=name,
        zorder=4,
    )


def _interval(value):
    """(value, low, high), the ends at the value where there are none."""
    if np.ndim(value) == 0:
        return float(value), float(value), float(value)
    middle, low, high = (np.nan if x is None else float(x) for x in value)
    low, high = (middle if not np.isfinite(x) else x for x in (low, high))
    return middle, low, high
