"""Figures of an evaluation, in the style of report/plots.py.

    means      the mean of each model and control with its interval, one per line
    members    the test value of each member by learning rate, with the means

A model has the same color in all figures: `models` are the names of all models in order,
without controls, which are gray.
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


def members(results, title, ylabel, models, span=0.0):
    """Plots one point per member, with the models side by side at each learning rate.

    `results` is {model: (selection.Chosen, its lines)}. A line connects the means over
    seeds; the rate that validation selected is circled. Members without a value are
    crosses at the lower edge; collapsed ones with a value are crosses at their value. The
    vertical axis covers at least a range of `span`, such as an interval over the test
    examples, so that differences within it look small.
    """
    figure, axes = plots.blank(title, ylabel, 'learning rate', plots.height(results))
    looks, spacing = _looks(models, results), 0.2 / max(1, len(results))  # powers of ten
    cross = dict(marker='x', markersize=5, linestyle='none')
    ring = dict(marker='o', markersize=9, markerfacecolor='none', linestyle='none')
    for position, (model, (chosen, lines)) in enumerate(results.items()):
        shift = 10 ** (spacing * (position - (len(results) - 1) / 2))
        point = {'markersize': 4} | looks[model] | {'linestyle': 'none', 'alpha': 0.75}
        point['marker'] = point['marker'] or 'o'
        color, values = point['color'], {}
        for line in lines:
            value = selection.value(line, 'test', chosen.by, chosen.metric)
            at, is_good = [line['learning_rate'] * shift], line['status'] == 'done'
            if value is None:
                place = dict(transform=axes.get_xaxis_transform(), clip_on=False)
                axes.plot(at, [0.0], **cross, **place, color=color, zorder=4)
                continue
            values.setdefault(line['learning_rate'], []).append(value)
            axes.plot(at, [value], **point if is_good else cross | {'color': color})
        rates, means = sorted(values), [np.mean(values[rate]) for rate in sorted(values)]
        axes.plot([rate * shift for rate in rates], means, color=color, linewidth=1)
        if chosen.members:
            at = [chosen.rate * shift], [np.mean(values[chosen.rate])]
            axes.plot(*at, **ring, color=color)
    axes.plot([], [], **ring, color=plots.MUTED, label='selected on validation')
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
