"""Figures of an evaluation, in the style of report/plots.py.

    means          the mean of each model and control with its interval, one per line
    sensitivity    mean over seeds by learning rate, with the selected one circled
    members        the test value of each member by learning rate

A model has the same color in all figures: `models` are the names of all models in order,
without controls, which are gray. The vertical axis covers at least a range of `span`,
such as an interval over the test examples, so that differences within it look small.
"""

import numpy as np

from jepa_text.evaluation import controls
from jepa_text.evaluation.results import selection
from jepa_text.report import plots


def means(rows, title, xlabel, models):
    """Plots means with 95 % intervals; controls are hollow and below the models.

    The largest class is left out, as it would compress the scale of all others.
    """
    shown = [row for row in rows if row['control'] != controls.LARGEST]
    ordered = sorted(shown, key=lambda row: bool(row['control']))
    groups = {
        row['model']: {row['model']: row['standard'].get(row['metric'], np.nan)}
        for row in ordered
    }
    looks = _looks(models, groups)
    return plots.dots(groups, title, xlabel, looks, has_legend=False)


def sensitivity(results, title, ylabel, models, span=0.0):
    """Plots the mean test metric over seeds by learning rate, and its standard deviation.

    `results` is {model: (selection.Chosen, its lines)}. The rate that validation selected
    is circled.
    """
    runs, selected = {}, {}
    for model, (chosen, lines) in results.items():
        rates = {}
        for line in sorted(lines, key=lambda line: line['learning_rate']):
            value = selection.value(line, 'test', chosen.by, chosen.metric)
            if value is not None:
                rates.setdefault(line['learning_rate'], []).append(value)
        if rates:
            runs[model] = {rate: _spread(values) for rate, values in rates.items()}
            selected[model] = [chosen.rate] if chosen.members else []
    return plots.errors(
        runs,
        title,
        ylabel,
        'learning rate',
        _looks(models, results),
        rings=('selected on validation', selected),
        log=True,
        span=span,
    )


def members(results, title, ylabel, models, span=0.0):
    """Plots one point per member, with the models side by side at each learning rate.

    Members without a value are crosses at the lower edge; collapsed ones with a value are
    crosses at their value. `results` are as in `sensitivity`.
    """
    figure, axes = plots.blank(title, ylabel, 'learning rate', plots.height(results))
    looks, spacing = _looks(models, results), 0.2 / max(1, len(results))  # powers of ten
    cross = dict(marker='x', markersize=5, linestyle='none')
    for position, (model, (chosen, lines)) in enumerate(results.items()):
        shift = 10 ** (spacing * (position - (len(results) - 1) / 2))
        look = {'markersize': 4} | looks[model] | {'linestyle': 'none'}
        look['marker'] = look['marker'] or 'o'
        failed = cross | {'color': look['color']}
        for line in lines:
            value = selection.value(line, 'test', chosen.by, chosen.metric)
            at = [line['learning_rate'] * shift]
            if value is None:
                axis = axes.get_xaxis_transform()
                axes.plot(at, [0.0], **failed, transform=axis, clip_on=False, zorder=4)
            else:
                drawn = look if line['status'] == 'done' else failed
                axes.plot(at, [value], **drawn | {'alpha': 0.75}, zorder=3)
    every = [line for _, lines in results.values() for line in lines]
    if {line['status'] for line in every} - {'done'}:
        label = 'collapsed; on the axis: no finite loss'
        axes.plot([], [], **cross, color=plots.MUTED, label=label)
    axes.margins(y=0.1)
    axes.set_xscale('log')
    plots.number_ticks(axes, {line['learning_rate'] for line in every} - {0, None})
    plots.cover(axes, span)
    plots.legend(figure, axes)
    return figure


def _looks(models, names):
    others = [name for name in names if name not in models]
    return plots.styles([*models, *others], others)


def _spread(values):
    """Returns (mean, mean - deviation, mean + deviation)."""
    mean = float(np.mean(values))
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return mean, mean - deviation, mean + deviation
