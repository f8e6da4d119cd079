"""Report of an analysis: analysis.html, and a short table on the terminal."""

from jepa_text.analysis import figures, findings, verdicts
from jepa_text.data import truncation
from jepa_text.evaluation import controls
from jepa_text.report import console, page

METHODS = """All values are measured on texts that no probe was trained on. Geometry has
four forms: raw, centered, whitened, and length-residualized (cross-fitted), which removes
what the length of a text predicts; raw measures of variance mostly reflect length.
Duplicate texts count once. {controls}

Intervals are 95 %. For probes, they are over test examples; examples that share a text
count as dependent, but not others, such as paragraphs of one book. {geometry} Over
training seeds, they combine Student's t with the mean interval over texts; they are
descriptive. Probes are logistic regression (classes) or ridge regression (scores), with
the penalty chosen within the training split of at most {train} examples; test sets are
samples of at most {test} examples, seed {seed}. Verdicts between models are paired
t-tests over at least five training seeds (sign-flip tests from 8 on). All other
comparisons are over texts: they describe these training runs, not their objectives."""
CONTROLS = {
    controls.UNTRAINED: 'the same architecture at random initialization',
    controls.BAG: "the mean of the model's input embeddings",
    controls.TF_IDF: 'TF-IDF',
}


def show(results):
    """Prints the tables of probes, and the answer."""
    for task in results['tasks']:
        shown = _probes(task, results)['table']
        console.table(f'{task["name"]}: probes', shown['columns'], shown['rows'])
    print(*truncation.sentences(_cuts(results)), sep='\n', end='\n\n')
    print(verdicts.headline(results))


def write(path, results):
    """Writes the HTML page and returns its path."""
    sections = [verdicts.differences(results)]
    for task in results['tasks']:
        sections += _task_sections(task, results)
    config = results['config']
    sections += [
        verdicts.controlled(results),
        figures.similarity(results),
        _truncation(results),
        {
            'heading': 'Methods',
            'text': methods(config),
            'details': {'Config': config, 'Environment': page.versions()},
        },
    ]
    return page.write(
        path,
        title='Representation analysis',
        lead=verdicts.headline(results),
        sections=[section for section in sections if section],
        compared=compared(results),
    )


def compared(results):
    """Returns what was compared: models, their sizes and training, seeds and texts."""
    names, facts = figures.models_of(results), results['facts'].values()
    seeds = {(name, seed) for name, seed in results['models'].values()}
    text = page.listed('model', names)
    if len(seeds) > len(names):
        text += f' with {len(seeds):,} seeds in all'
    if sizes := page.amounts([{'parameters': one['parameters']} for one in facts]):
        text += f' of {sizes}'
    if steps := page.amounts([{**one, 'parameters': 0} for one in facts]):
        text += f', trained for {steps}'
    tests = page.span(results['texts'].values())
    tasks = page.listed('task', results['texts'])
    return (
        f'{text}; probes of frozen vectors on {tasks} with {tests} test texts; ± is 95 %.'
    )


def methods(config):
    """Describes the methods of an analysis with this config."""
    names = [CONTROLS[name] for name in config['controls']]
    geometry = 'Geometry has none.'
    if config['half_samples']:
        geometry = (
            f'For geometry, they come from {config["half_samples"]} random half-samples '
            'of at most 1,000 texts, scaled to the full sample; the two texts of a pair '
            'are drawn together.'
        )
    sentence = f'Controls: {", ".join(names)}.' if names else 'There are no controls.'
    return METHODS.format(**{**config, 'controls': sentence, 'geometry': geometry})


def _cuts(results):
    return [truncation.Cut(**one) for one in results['cuts']]


def _truncation(results):
    """The section of truncated texts, by model and task."""
    about = (
        'Texts longer than the rows of a model are truncated. Its controls and word '
        'counts use the same truncated texts. A separate control is TF-IDF of the full '
        'texts; it shows what the rest of the texts adds.'
    )
    told = [about, *truncation.sentences(_cuts(results))]
    return {'heading': 'Truncation', 'text': '\n\n'.join(told)}


def _task_sections(task, results):
    name = task['name']
    return [
        {'heading': f'{name}: probes', **_probes(task, results)},
        {
            'heading': f'{name}: geometry',
            'text': _text_counts(task, results),
            'figures': figures.geometry(task, results),
        },
        {'heading': f'{name}: by layer', 'figures': figures.layers(task, results)},
    ]


def _text_counts(task, results):
    """States the number of texts of the geometry, as most measures depend on it."""
    rows = figures.rows_of(results, task['name'], 'effective_rank', 'raw')
    counts = {row['count'] for row in rows}
    numbers = ' or '.join(f'{count:,}' for count in sorted(counts))
    return (
        f'Measured on {numbers} unique texts. Ranks and dimension depend on the '
        'number of texts: compare them only between equal numbers.'
    )


# {kind of task: metrics shown after the main one, without intervals}
OTHERS = {
    'labels': ('word_recovery_auc', 'balance', 'paper_probe_gap'),
    'scores': (*('cosine_given_overlap', 'probe_spearman'), 'word_recovery_auc'),
    'texts': (),
}


def _probes(task, results):
    final, groups = findings.final_rows(results['rows']), {}
    main = figures.probe_of(task, results)
    subjects = figures.subjects(results, task['name'])
    columns, rows = ['model'], [[figures.label(*subject)] for subject in subjects]
    for metric in (main, *OTHERS[task['kind']]):
        name = figures.metric_label(metric)
        columns += [name, '95 %'] if metric == main else [name]
        for row, subject in zip(rows, subjects):
            one = final.get((task['name'], *subject, metric, ''))
            row.append(one and one['value'])
            if metric == main:
                row.append(one and page.interval_text(figures.interval(one)))
            if one:
                groups.setdefault(name, {})[subject] = figures.interval(one)
    title, models = f'Probes of {figures.deepest(results)}', figures.models_of(results)
    return {
        'text': _task_description(task),
        'table': {'columns': columns, 'rows': rows, 'note': _NOTES[task['kind']]},
        'figures': [figures.dots(groups, title, 'score', models)] if groups else [],
    }


def _task_description(task):
    kind = {
        'labels': f'{len(task["classes"])} classes',
        'scores': 'pairs with a score',
        'texts': 'texts without labels',
    }[task['kind']]
    return f'{kind}: {task["train"]:,} training and {task["test"]:,} test examples.'


_WORD_RECOVERY = (
    'Word recovery: AUC of predicting from the vector whether a text contains a content '
    'word, compared with equally frequent words; chance is 0.5.'
)
_NOTES = {
    'labels': f'{_WORD_RECOVERY} Balance: probe minus word recovery, both corrected for '
    "chance. The paper's gap (arXiv 2606.05173): probe minus a probe for the most "
    'frequent token, neither corrected.',
    'scores': 'Given overlap: partial correlation with human scores given the word '
    'overlap of a pair. If scores have only two equally frequent values, Spearman is at '
    'most 0.866.',
    'texts': _WORD_RECOVERY,
}
