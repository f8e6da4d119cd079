"""Rows of an analysis -> figures and their sections; the pictures of charts.py."""

from jepa_text.analysis import charts, findings
from jepa_text.evaluation import controls
from jepa_text.report import plots
from jepa_text.running import download, metrics

# Measure, form, label: what is drawn over layers, after the probe.
LAYERED = (
    ('word_recovery_auc', '', 'AUC of content words'),
    ('effective_rank', 'raw', 'effective rank'),
    ('uniformity', 'raw', 'uniformity, raw'),
    ('uniformity', 'length_residualized', 'uniformity, length taken out'),
    ('intrinsic_dimension', 'raw', 'intrinsic dimension (TwoNN)'),
)
TRAINING = (
    ('jepa/lambda', 'Weight of the latent loss', 'λ'),
    ('jepa/target_std', 'Standard deviation of the latent targets', '0 = collapsed'),
    ('jepa/effective_rank', 'Effective rank of the targets', ''),
    ('jepa/mean_cosine', 'Mean cosine of the targets', '1 = collapsed'),
    ('geometry/effective_rank', 'Effective rank of held-out rows', ''),
    ('geometry/uniformity', 'Uniformity of held-out rows', ''),
)
FORMS = {'raw': 'raw', 'length_residualized': 'length taken out'}


def probe_of(task):
    """The metric of a task that tells how well it is read off."""
    return {'labels': f'probe_{task["metric"]}', 'scores': 'cosine_spearman'}.get(
        task['kind'], 'word_recovery_auc'
    )


def geometry(task, results):
    """Planes, eigenspectra, ranks by pooling: of the last layer that was measured."""
    found, models = findings.final(results['rows']), models_of(results)
    planes, spectra = [], []
    for form, title in FORMS.items():
        points, values = {}, {}
        for subject in subjects(results, task['name']):
            up, near, across = (
                found.get((task['name'], *subject, metric, form))
                for metric in ('class_alignment', 'alignment', 'uniformity')
            )
            if across and (up or near):
                points[subject] = interval(across), interval(up or near)
        if points:
            title = f'Alignment and uniformity, {title}'
            planes.append(charts.plane(points, title, models))
        for one in results['spectra']:
            is_first = one['pooling'] in (results['config']['poolings'][0], '', 'mean')
            if is_first and (one['task'], one['form']) == (task['name'], form):
                values.setdefault((one['model'], one['control']), one['values'])
        title = 'Eigenspectrum' + f', {FORMS[form]}' * (form != 'raw')
        spectra.append(charts.eigenspectra(values, title, models))
    return [*planes, *spectra, _by_pooling(task, results)]


def _by_pooling(task, results):
    groups, last = {}, {}
    value = task['name'], 'effective_rank', 'raw'
    rows = [row for row in of(results, *value) if row['layer'] is not None]
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
    """A figure of the probe and for each of LAYERED."""
    drawn, probe = [], probe_of(task)
    first = [(probe, '', probe.replace('_', ' '))]
    for metric, form, label in (first * (probe != LAYERED[0][0])) + list(LAYERED):
        lines, flat = {}, {}
        for row in of(results, task['name'], metric, form):
            subject = row['model'], row['control']
            # Of another width, there is no rank to compare.
            is_counted = not row['model'] or row['control'] in _COUNTED
            if row['layer'] is not None:
                if row['pooling'] == results['config']['poolings'][0]:
                    lines.setdefault(subject, {})[row['layer']] = interval(row)
            elif metric != 'effective_rank' or not is_counted:
                flat[subject] = row['value']
        lines = {s: tuple(zip(*sorted(x.items()))) for s, x in lines.items()}
        if lines:
            title = f'{label[:1].upper()}{label[1:]} by layer'
            models = models_of(results)
            drawn.append(charts.by_layer(lines, title, label, models, flat))
    return drawn


_COUNTED = controls.TF_IDF, controls.WHOLE, controls.LARGEST


def similarity(results):
    """The section of CKA maps, or None."""
    maps, seeds = {}, {}
    for row in results['rows']:
        if row['metric'] == 'unbiased_cka':
            other, _, layer = row['other'].rpartition(' layer ')
            one = f'{row["model"]} seed {row["seed"]}'
            seeds.setdefault(row['model'], set()).add(row['seed'])
            maps.setdefault((one, other), {})[row['layer'], int(layer)] = row['value']

    def named(side):
        model = side.rpartition(' seed ')[0]
        return model if len(seeds.get(model, ())) < 2 else side

    figures = []
    for sides, values in maps.items():
        numbers = tuple(sorted(set(side)) for side in zip(*values))
        whole = [[values[i, j] for j in numbers[1]] for i in numbers[0]]
        one, two = map(named, sides)
        title = f'within {one}' if one == two else f'of {one} and {two}'
        figures.append(
            charts.similarity(whole, f'Unbiased CKA {title}', one, two, numbers)
        )
    return figures and {
        'heading': f'How alike layers are, on {results["tasks"][0]["name"]}',
        'text': 'Unbiased linear CKA of centered vectors, unbiased_cka in analysis.csv: '
        '1 is the same up to rotation and scale; about 0, maybe a little below, is '
        'unrelated, however few the texts. The usual CKA (similarity.linear_cka) is near '
        '1 for few texts whatever the vectors.',
        'figures': figures[:12],
    }


def training(results):
    """The section of lambda and collapse curves of runs that logged them, or None."""
    logs, names = {}, [name for name, _ in results['models'].values()]
    for path, (name, seed) in results['models'].items():
        folder = None if path.startswith('hf:') else download.folder('models', path)
        if folder is not None and (folder / metrics.FILE).is_file():
            own = f'{name} {seed}' if names.count(name) > 1 else name
            logs[own] = metrics.read(folder)
    figures = []
    for key, title, label in TRAINING:
        runs = {name: metrics.series(log, key) for name, log in logs.items()}
        if any(len(steps) for steps, _ in runs.values()):
            figures.append(plots.curves(runs, title, label))
    heading = 'How they were trained: λ and collapse'
    return figures and {'heading': heading, 'figures': figures}


def of(results, task, metric, form):
    """The rows of a value."""
    wanted = task, metric, form
    keys = 'task', 'metric', 'form'
    return [r for r in results['rows'] if tuple(r[key] for key in keys) == wanted]


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
