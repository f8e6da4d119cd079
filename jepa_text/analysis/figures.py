"""Selects the rows of an analysis for each figure and draws them with charts.py."""

from jepa_text.analysis import charts, findings
from jepa_text.evaluation import controls
from jepa_text.report import plots
from jepa_text.running import download, metrics

# (metric, form, label) of the figures over layers, besides the probe.
LAYERED = (
    ('word_recovery_auc', '', 'AUC of content words'),
    ('effective_rank', 'raw', 'effective rank'),
    ('uniformity', 'raw', 'uniformity, raw'),
    ('uniformity', 'length_residualized', 'uniformity, length-residualized'),
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
_WITHOUT_RANK = controls.TF_IDF, controls.WHOLE, controls.LARGEST
FORMS = {'raw': 'raw', 'length_residualized': 'length-residualized'}


def probe_of(task):
    """The main metric of a task."""
    return {'labels': f'probe_{task["metric"]}', 'scores': 'cosine_spearman'}.get(
        task['kind'], 'word_recovery_auc'
    )


def geometry(task, results):
    """Figures of the last measured layer: alignment and uniformity, eigenspectra, and
    effective rank by pooling."""
    found, models = findings.final_rows(results['rows']), models_of(results)
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
        title = 'Eigenspectrum' if form == 'raw' else f'Eigenspectrum, {FORMS[form]}'
        spectra.append(charts.eigenspectra(values, title, models))
    return [*planes, *spectra, _by_pooling(task, results)]


def _by_pooling(task, results):
    groups, last = {}, findings.last_layers(results['rows'])
    for row in rows_of(results, task['name'], 'effective_rank', 'raw'):
        subject = row['model'], row['control']
        if row['layer'] is not None and row['layer'] == last[task['name'], *subject]:
            # Rows with seed 'mean' come last and replace those of single seeds.
            groups.setdefault(row['pooling'], {})[subject] = interval(row)
    title = f'Effective rank by pooling in {deepest(results)}'
    return charts.dots(groups, title, 'effective rank', models_of(results))


def layers(task, results):
    """Figures over layers: of the probe, and of each metric of LAYERED."""
    drawn, probe, measures = [], probe_of(task), list(LAYERED)
    if probe != LAYERED[0][0]:
        measures.insert(0, (probe, '', probe.replace('_', ' ')))
    for metric, form, label in measures:
        lines, flat = {}, {}
        for row in rows_of(results, task['name'], metric, form):
            subject = row['model'], row['control']
            # Ranks of TF-IDF are not comparable, as its width differs.
            is_without_rank = not row['model'] or row['control'] in _WITHOUT_RANK
            if row['layer'] is not None:
                if row['pooling'] == results['config']['poolings'][0]:
                    lines.setdefault(subject, {})[row['layer']] = interval(row)
            elif metric != 'effective_rank' or not is_without_rank:
                flat[subject] = row['value']
        lines = {s: tuple(zip(*sorted(x.items()))) for s, x in lines.items()}
        if lines:
            title = f'{label[:1].upper()}{label[1:]} by layer'
            models = models_of(results)
            drawn.append(charts.by_layer(lines, title, label, models, flat))
    return drawn


def similarity(results):
    """The section of CKA maps; falsy if CKA was not measured."""
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
        values_RC = [[values[i, j] for j in numbers[1]] for i in numbers[0]]
        one, two = map(named, sides)
        title = f'within {one}' if one == two else f'of {one} and {two}'
        figures.append(
            charts.similarity(values_RC, f'Unbiased CKA {title}', one, two, numbers)
        )
    return figures and {
        'heading': f'Similarity of layers on {results["tasks"][0]["name"]}',
        'text': 'Unbiased linear CKA of centered vectors (unbiased_cka in '
        'analysis.csv). 1 means equal up to rotation and scale; values around 0, '
        'possibly slightly negative, mean unrelated, for any number of texts. The biased '
        'estimator (similarity.linear_cka) is near 1 for few texts whatever the vectors.',
        'figures': figures[:12],
    }


def training(results):
    """The section of the λ and collapse curves that training runs logged; falsy if there
    are none."""
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
    heading = 'Training: λ and collapse'
    return figures and {'heading': heading, 'figures': figures}


def rows_of(results, task, metric, form):
    """The rows of a metric and form on a task."""
    wanted = task, metric, form
    keys = 'task', 'metric', 'form'
    return [r for r in results['rows'] if tuple(r[key] for key in keys) == wanted]


def subjects(results, task):
    """[(model, control)] in display order: models, their controls, other controls."""
    found = dict.fromkeys(
        (row['model'], row['control'])
        for row in results['rows']
        if row['task'] == task and not row['other']
    )
    names = '', *controls.CONTROLS, controls.WHOLE
    order = {name: place for place, name in enumerate(names)}
    return sorted(found, key=lambda s: (not s[0], order.get(s[1], len(order))))


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
