"""Figures of an analysis: selects its rows, and draws them in the style of plots.py.

A subject is (model, control). A model has the same color in all figures. Its controls
have the same color, with other markers and line styles, so that figures are readable in
grayscale. `models` are all model names in order, which determines the colors.
"""

import numpy as np

from jepa_text.analysis import comparisons, findings
from jepa_text.evaluation import controls
from jepa_text.report import plots

# (metric, form, label) of the figures over layers, besides the probe.
LAYERED = (
    ('word_recovery_auc', '', 'AUC of content words'),
    ('effective_rank', 'raw', 'effective rank'),
    ('uniformity', 'raw', 'uniformity, raw'),
    ('uniformity', 'length_residualized', 'uniformity, length-residualized'),
)
_WITHOUT_RANK = controls.TF_IDF, controls.WHOLE, controls.LARGEST
FORMS = {'raw': 'raw', 'length_residualized': 'length-residualized'}
# {control: (marker, line style)}
_LOOKS = {
    controls.UNTRAINED: ('o', (0, (4, 2))),
    controls.BAG: ('s', (0, (1, 1.5))),
    controls.TF_IDF: ('^', (0, (1, 3))),
    controls.WHOLE: ('v', (0, (1, 5))),
}
_OTHER = 'D', (0, (6, 2, 1, 2))


def probe_of(task, results):
    """The main metric of a task."""
    final = findings.final_rows(results['rows'])
    return comparisons.score_of(final, task['name']) or LAYERED[0][0]


def geometry(task, results):
    """Figures of the last measured layer: alignment and uniformity, and eigenspectra."""
    final, models = findings.final_rows(results['rows']), models_of(results)
    planes, spectra = [], []
    for form, title in FORMS.items():
        points, values = {}, {}
        for subject in subjects(results, task['name']):
            up, near, across = (
                final.get((task['name'], *subject, metric, form))
                for metric in ('class_alignment', 'alignment', 'uniformity')
            )
            if across and (up or near):
                points[subject] = interval(across), interval(up or near)
        if points:
            planes.append(plane(points, f'Alignment and uniformity, {title}', models))
        for one in results['spectra']:
            is_first = one['pooling'] in (results['config']['poolings'][0], '', 'mean')
            if is_first and (one['task'], one['form']) == (task['name'], form):
                values.setdefault((one['model'], one['control']), one['values'])
        title = 'Eigenspectrum' if form == 'raw' else f'Eigenspectrum, {FORMS[form]}'
        spectra.append(eigenspectra(values, title, models))
    return [*planes, *spectra]


def layers(task, results):
    """Figures over layers: of the probe, and of each metric of LAYERED."""
    drawn, probe, measures = [], probe_of(task, results), list(LAYERED)
    if probe != LAYERED[0][0]:
        measures.insert(0, (probe, '', metric_label(probe)))
    for metric, form, label in measures:
        runs, flat = {}, {}
        for row in rows_of(results, task['name'], metric, form):
            subject = row['model'], row['control']
            # Ranks of TF-IDF are not comparable, as its width differs.
            is_without_rank = not row['model'] or row['control'] in _WITHOUT_RANK
            if row['layer'] is not None:
                if row['pooling'] == results['config']['poolings'][0]:
                    runs.setdefault(subject, {})[row['layer']] = interval(row)
            elif metric != 'effective_rank' or not is_without_rank:
                flat[subject] = row['value']
        if runs:
            title = f'{label[:1].upper()}{label[1:]} by layer'
            looks = _looks([*runs, *flat], models_of(results))
            # Next to the axis there is no room for the form.
            axis = label.partition(',')[0], 'layer (0: the embedding)'
            drawn.append(plots.errors(runs, title, *axis, looks, flat))
    return drawn


def similarity(results):
    """The section of CKA maps; falsy if CKA was not measured."""
    seeds, figures, names = {}, [], plots.styles(models_of(results))
    for model, seed in results['models'].values():
        seeds.setdefault(model, []).append(seed)
    first = {model: sorted(own)[:2] for model, own in seeds.items()}
    for one_map in results['similarity']:
        (one, seed), (two, other) = one_map['sides']
        are_first = seed == first[one][0] and other == first[two][0]
        if not are_first and (one != two or [seed, other] != first[one]):
            continue
        one, two = names[one]['label'], names[two]['label']
        if one == two and seed != other:
            one, two = f'{one} seed {seed}', f'{two} seed {other}'
        title = f'Unbiased CKA {f"within {one}" if one == two else f"of {one} and {two}"}'
        drawn = one_map['values'], title, one, two, one_map['layers']
        figures.append(similarity_map(*drawn))
    return figures and {
        'heading': f'Similarity of layers on {results["tasks"][0]["name"]}',
        'text': 'Unbiased linear CKA of centered vectors. 1 means equal up to rotation '
        'and scale; values around 0, possibly slightly negative, mean unrelated, for any '
        'number of texts. The maps are of the first seed of each model, and of its first '
        'two; those of all are in analysis.json (similarity).',
        'figures': figures,
    }


def dots(groups, title, xlabel, models):
    """Values with intervals, {group: {subject: interval}}: a block of lines for each
    group."""
    looks = _looks({subject for group in groups.values() for subject in group}, models)
    return plots.dots(groups, title, xlabel, looks)


def plane(points, title, models):
    """Alignment against uniformity (Wang & Isola 2020): lower left is better.

    `points` is {subject: (uniformity, alignment)}, intervals or numbers.
    """
    figure, axes = plots.blank(
        title, 'alignment (squared distance)', 'uniformity (lower left is better)'
    )
    looks = _looks(points, models)
    for subject, both in points.items():
        (x, *across), (y, *up) = map(plots.ends, both)
        style = dict(color=looks[subject]['color'], linewidth=1.1, alpha=0.8, zorder=2)
        axes.plot(across, [y, y], **style)
        axes.plot([x, x], up, **style)
        mark = looks[subject] | {'linestyle': 'none', 'markersize': 6.5}
        axes.plot([x], [y], **mark, zorder=4)
    axes.margins(0.12)
    axes.grid(True, axis='x', color=plots.GRID, linewidth=0.6)
    plots.legend(figure, axes)
    return figure


def eigenspectra(values, title, models):
    """Normalized eigenvalues on logarithmic axes, where a power law is a straight line.

    `values` is {subject: eigenvalues in descending order}.
    """
    runs = {}
    for subject, spectrum in values.items():
        spectrum = np.asarray(spectrum, np.float64)
        spectrum = spectrum[spectrum > 0]
        runs[subject] = np.arange(1, spectrum.size + 1), spectrum / spectrum.sum()
    looks = {
        subject: look | {'marker': None} for subject, look in _looks(runs, models).items()
    }
    label = 'fraction of the first 64'
    return plots.curves(
        runs, title, label, xlabel='eigenvalue rank', looks=looks, log='xy'
    )


def similarity_map(values_RC, title, rows, columns, layers):
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
        style = dict(ha='center', va='center', fontsize=9 - 2.5 * (values_RC.size > 64))
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


def label(model, control):
    """The label of a subject.

    >>> label('mlm', ''), label('mlm', 'untrained'), label('', 'TF-IDF')
    ('mlm', 'mlm, untrained', 'TF-IDF')
    """
    return ', '.join(filter(None, (model, control)))


def metric_label(metric):
    """The label of a metric, such as 'word recovery AUC' for word_recovery_auc."""
    text = metric.replace('paper_probe_gap', "paper's_probe_gap").replace('_', ' ')
    return text.replace(' auc', ' AUC').replace(' f1', ' F1').replace(' mcc', ' MCC')


def _looks(subjects, models):
    """{subject: keywords of axes.plot}: filled for a model, hollow for a control."""
    styles, looks = plots.styles(models, ()), {}
    for model, control in subjects:
        # Later models are thinner, so that those below show where they coincide.
        base = styles.get(model, dict(color=plots.MUTED, linewidth=1.6, label=''))
        marker, line = _LOOKS.get(control, _OTHER) if control else ('o', 'solid')
        look = dict(marker=marker, linestyle=line, markeredgewidth=1.2)
        look |= dict(color=base['color'], linewidth=base['linewidth'])
        if control:
            look |= dict(markerfacecolor='white', linewidth=0.75 * base['linewidth'])
        looks[model, control] = look | {'label': label(base['label'], control)}
    return looks


def rows_of(results, task, metric, form):
    """The rows of a metric and form on a task."""
    wanted = task, metric, form
    keys = 'task', 'metric', 'form'
    return [r for r in results['rows'] if tuple(r[key] for key in keys) == wanted]


def subjects(results, task):
    """[(model, control)] in display order: models, their controls, other controls."""
    known = dict.fromkeys(
        (row['model'], row['control']) for row in results['rows'] if row['task'] == task
    )
    names = '', *controls.CONTROLS, controls.WHOLE
    order = {name: number for number, name in enumerate(names)}
    return sorted(known, key=lambda s: (not s[0], order.get(s[1], len(order))))


def deepest(results):
    """Names the deepest measured layer: 'the last layer', or 'layer 3', or for models of
    different depth 'layer 3 or 5'."""
    wanted = results['config']['layers']
    if not wanted or -1 in wanted:
        return 'the last layer'
    last = findings.last_layers(results['rows'])
    return f'layer {" or ".join(map(str, sorted(set(last.values()))))}'


def models_of(results):
    """The names of the models in order."""
    return list(dict.fromkeys(name for name, _ in results['models'].values()))


def interval(row):
    """(value, low, high) of a row."""
    return row['value'], row['low'], row['high']
