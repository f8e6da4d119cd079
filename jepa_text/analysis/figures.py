"""Rows of an analysis -> figures and their sections; the pictures of template.py."""

from pathlib import Path

from jepa_text.analysis import charts, findings
from jepa_text.evaluation import controls
from jepa_text.report import plots
from jepa_text.running import metrics

# Measure, form, label: what is drawn over layers.
LAYERED = (
    ('probe', '', 'probe'),
    ('word_recovery_auc', '', 'AUC of content words'),
    ('effective_rank', 'raw', 'effective rank'),
    ('uniformity', 'raw', 'uniformity, raw'),
    ('uniformity', 'length_controlled', 'uniformity, length taken out'),
    ('intrinsic_dimension', 'raw', 'intrinsic dimension (TwoNN)'),
)
TRAINING = (
    ('jepa/lambda', 'Weight of the latent loss', 'λ'),
    ('jepa/target_std', 'Spread of the latent targets', '0 = collapsed'),
    ('jepa/effective_rank', 'Effective rank of the targets', ''),
    ('jepa/mean_cosine', 'Mean cosine of the targets', '1 = collapsed'),
    ('geometry/effective_rank', 'Effective rank of held-out rows', ''),
    ('geometry/uniformity', 'Uniformity of held-out rows', ''),
)


def probe_of(task):
    """The metric of a task that tells how well it is read off."""
    return {'labels': f'probe_{task["metric"]}', 'scores': 'cosine_spearman'}.get(
        task['kind'], 'word_recovery_auc'
    )


def geometry(task, results):
    """Planes, eigenspectra, ranks by pooling: of the last layer that was measured."""
    found, models = findings.final(results['rows']), models_of(results)
    drawn = []
    for form, title in (('raw', 'raw'), ('length_controlled', 'length taken out')):
        points = {}
        for subject in subjects(results, task['name']):
            place = (task['name'], *subject)
            up = found.get((*place, 'class_alignment', form)) or found.get(
                (*place, 'alignment', form)
            )
            across = found.get((*place, 'uniformity', form))
            if up and across:
                points[subject] = (interval(across), interval(up))
        if points:
            drawn.append(
                charts.plane(points, f'Alignment and uniformity, {title}', models)
            )
    for form, title in (('raw', ''), ('length_controlled', ', length taken out')):
        values = {}
        for one in results['spectra']:
            is_first = one['pooling'] in (results['config']['poolings'][0], '', 'mean')
            if one['task'] == task['name'] and one['form'] == form and is_first:
                values.setdefault((one['model'], one['control']), one['values'])
        drawn.append(charts.eigenspectra(values, f'Eigenspectrum{title}', models))
    drawn.append(_by_pooling(task, results))
    return drawn


def _by_pooling(task, results):
    groups, last = {}, {}
    rows = [
        row
        for row in results['rows']
        if row['task'] == task['name']
        and (row['metric'], row['form']) == ('effective_rank', 'raw')
        and row['layer'] is not None
    ]
    for row in rows:
        subject = row['model'], row['control']
        last[subject] = max(row['layer'], last.get(subject, 0))
    for row in rows:
        subject = row['model'], row['control']
        if row['layer'] == last[subject]:
            # Rows of seed 'mean' come last, and so win.
            groups.setdefault(row['pooling'], {})[subject] = interval(row)
    title = f'Effective rank by pooling in {deepest(results)}'
    return charts.dots(groups, title, 'directions', models_of(results))


def layers(task, results):
    """A figure for each of LAYERED."""
    drawn, probe = [], probe_of(task)
    pooling = results['config']['poolings'][0]
    for metric, form, label in LAYERED:
        metric = probe if metric == 'probe' else metric
        label = metric.replace('_', ' ') if label == 'probe' else label
        lines, flat = {}, {}
        for row in results['rows']:
            here = (row['task'], row['metric'], row['form']) == (
                task['name'],
                metric,
                form,
            )
            if not here:
                continue
            subject = row['model'], row['control']
            if row['layer'] is None:
                flat[subject] = row['value']
            elif row['pooling'] == pooling:
                lines.setdefault(subject, {})[row['layer']] = interval(row)
        if form == 'raw' and metric == 'effective_rank':
            # Of another width, so no rank to compare.
            counted = controls.TF_IDF, controls.WHOLE, controls.LARGEST
            flat = {s: x for s, x in flat.items() if s[0] and s[1] not in counted}
        lines = {s: (sorted(x), [x[i] for i in sorted(x)]) for s, x in lines.items()}
        if lines and not (metric == probe and label == 'AUC of content words'):
            drawn.append(
                charts.by_layer(lines, _title(label), label, models_of(results), flat)
            )
    return drawn


def _title(label):
    return label[:1].upper() + label[1:] + ' by layer'


def likeness(results):
    """The section of CKA maps, or None."""
    maps, seeds = {}, {}
    for row in results['rows']:
        if row['metric'] == 'unbiased_cka':
            other, _, layer = row['other'].rpartition(' layer ')
            one = f'{row["model"]} seed {row["seed"]}'
            seeds.setdefault(row['model'], set()).add(row['seed'])
            maps.setdefault((one, other), {})[row['layer'], int(layer)] = row['value']
    figures = []
    for (one, two), values in maps.items():
        numbers = tuple(sorted(set(side)) for side in zip(*values))
        whole = [[values[i, j] for j in numbers[1]] for i in numbers[0]]
        one, two = (_without_seed(name, seeds) for name in (one, two))
        title = f'within {one}' if one == two else f'of {one} and {two}'
        figures.append(charts.likeness(whole, f'Unbiased CKA {title}', one, two, numbers))
    if not figures:
        return None
    return {
        'heading': f'How alike layers are, on {results["tasks"][0]["name"]}',
        'text': 'Unbiased linear CKA of centred vectors, unbiased_cka in analysis.csv: 1 '
        'is the same up to rotation and scale; about 0, maybe a little below, is '
        'unrelated, however few the texts. The usual CKA (similarity.linear_cka) is near '
        '1 for few texts whatever the vectors.',
        'figures': figures[:12],
    }


def _without_seed(name, seeds):
    model = name.rpartition(' seed ')[0]
    return model if len(seeds.get(model, ())) < 2 else name


def training(results):
    """The section of lambda and collapse curves of runs that logged them, or None."""
    logs = {}
    for path, (name, seed) in results['models'].items():
        if (Path(path) / metrics.FILE).is_file():
            several = sum(n == name for n, _ in results['models'].values()) > 1
            logs[f'{name} {seed}' if several else name] = metrics.read(path)
    figures = []
    for key, title, label in TRAINING:
        runs = {name: metrics.series(log, key) for name, log in logs.items()}
        if any(len(steps) for steps, _ in runs.values()):
            figures.append(plots.curves(runs, title, label))
    if not figures:
        return None
    return {'heading': 'How they were trained: λ and collapse', 'figures': figures}


def subjects(results, task):
    """(model, control) in the order of the page: models, their controls, the rest."""
    found = dict.fromkeys(
        (row['model'], row['control'])
        for row in results['rows']
        if row['task'] == task and not row['other']
    )
    names = '', *controls.CONTROLS, controls.WHOLE
    order = {name: place for place, name in enumerate(names)}
    return sorted(found, key=lambda s: (not s[0], order.get(s[1], len(order))))


def deepest(results):
    """'the last layer'; where that is not measured, 'layer 3', or of models 'layer 3 or
    5'."""
    wanted = results['config']['layers']
    if not wanted or -1 in wanted:
        return 'the last layer'
    last = {}
    for row in results['rows']:
        if row['layer'] is not None:
            last[row['model']] = max(row['layer'], last.get(row['model'], 0))
    return f'layer {" or ".join(map(str, sorted(set(last.values()))))}'


def models_of(results):
    """The names of the models, in their order."""
    return list(dict.fromkeys(name for name, _ in results['models'].values()))


def interval(row):
    """(value, low, high) of a row."""
    return row['value'], row['low'], row['high']
