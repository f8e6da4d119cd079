"""The results of an analysis as analysis.html, and as a short table on the terminal."""

from jepa_text.analysis import charts, features, figures, findings, measuring, verdicts
from jepa_text.data import truncation
from jepa_text.evaluation import controls
from jepa_text.models import pooling
from jepa_text.report import console, page

COLUMNS = ('task', 'model', 'probe', 'words', 'uniformity', 'without length', 'rank')
SHOWN = 6  # warnings on the terminal
METHODS = """Everything is measured on texts that no probe has learned from. Geometry
comes in four forms: raw, centered, whitened, and with what the length of a text predicts
taken out (cross-fitted); raw measures of variance mostly show length. A text that occurs
twice counts once there. {controls}

Intervals are 95 %: of probes, a bootstrap over test examples, which is too narrow where
these are alike, as paragraphs of one book are; {geometry}; over training seeds, Student's
t joined with the mean interval over sentences, which describes and decides nothing.
Probes are logistic regression (classes) or ridge (scores), the penalty chosen within the
training split of at most {train} examples; test sets are samples of at most {test}, seed
{seed}. Verdicts between models are paired t-tests over training seeds (from 8 on sign
flips), and take five; all else is over texts: about these training runs, not about their
objectives."""
CONTROLS = {
    controls.UNTRAINED: 'the same architecture at random initialization',
    controls.BAG: "the mean of the model's input embeddings",
    controls.TF_IDF: 'TF-IDF',
}


def show(results):
    """Prints the short table, what to remember, and the warnings."""
    title = figures.deepest(results).removeprefix('the ').capitalize()
    console.table(title, list(COLUMNS), table(results))
    for sentence in truncation.sentences(_cuts(results)):
        print(sentence)
    print(f'\n{verdicts.headline(results)}')
    for warning in results['warnings'][:SHOWN]:
        print(
            f'\n! {warning["task"]}, {warning["model"]}, {verdicts.described(warning)}: '
            f'{warning["words"]}'
        )
    if (more := len(results['warnings']) - SHOWN) > 0:
        print(f'\n! and {more} more: see the page.')


def table(results):
    """A row for each task and model or control, in the order of COLUMNS."""
    found, rows = findings.final(results['rows']), []
    for task in results['tasks']:
        values = (
            *((figures.probe_of(task), ''), ('word_recovery_auc', '')),
            *(('uniformity', form) for form in figures.FORMS),
            ('effective_rank', 'raw'),
        )
        for subject in figures.subjects(results, task['name']):
            places = [found.get((task['name'], *subject, *value)) for value in values]
            shown = [row and row['value'] for row in places]
            rows.append([task['name'], charts.label(*subject), *shown])
    return rows


def write(path, results):
    """Writes the page, and returns its path."""
    sections = [_facts(results), _read_of(results), verdicts.beyond(results)]
    for task in results['tasks']:
        sections += _task_sections(task, results)
    sections += [
        figures.similarity(results),
        figures.training(results),
        verdicts.explained(results),
        verdicts.differences(results),
    ]
    sections.append(
        {
            'heading': 'How it was measured',
            'text': methods(results['config']),
            'details': {
                'Config': results['config'],
                'Environment': page.versions(),
            },
        }
    )
    names = ', '.join(f'`{name}`' for name in figures.models_of(results))
    return page.write(
        path,
        title='What the vectors hold',
        lead=verdicts.headline(results),
        sections=[section for section in sections if section],
        subtitle=f'Representation analysis of {names}'.replace('`', ''),
    )


def methods(config):
    """How it was measured, by this config, in words."""
    names = [CONTROLS[name] for name in config['controls']]
    geometry = 'of geometry, none'
    if config['half_samples']:
        geometry = (
            f'of geometry, {config["half_samples"]} random half-samples of at most '
            '1,000 texts, the two of a pair together, scaled to all'
        )
    said = f'Controls: {", ".join(names)}.' if names else 'No control was asked for.'
    text = METHODS.format(**{**config, 'controls': said, 'geometry': geometry})
    trained = [n for n in config['poolings'] if pooling.base(n) in features.TRAINED]
    if trained:
        text += (
            f' The weights of {", ".join(trained)} are learned from the first '
            f'{features.TRAINED_ON:,} tokens of at most {measuring.POOLING_TEXTS:,} '
            'training texts.'
        )
    return text


def _cuts(results):
    return [truncation.Cut(**one) for one in results['cuts']]


def _read_of(results):
    """How many texts were cut, for every model and task."""
    rows = []
    for one in _cuts(results):
        row = [one.task, one.model, one.length, one.texts, truncation.percent(one)]
        row.append(f'{100 * one.read:.0f} %')
        rows += [] if row in rows else [row]
    text = 'No text was cut.'
    if any(one.cut for one in _cuts(results)):
        text = (
            'A text that is longer than the rows of a model is cut there. Its controls '
            'read the same part, and words are counted in it; TF-IDF of the whole texts '
            'has a name of its own, and says what the rest of the texts holds.'
        )
    columns = 'task, model, tokens of a row, texts, cut, characters read'
    return {
        'heading': 'How much of the texts was read',
        'text': text,
        'table': {'columns': columns.split(', '), 'rows': rows},
    }


def _facts(results):
    names = [task['name'] for task in results['tasks']]
    facts = (
        (f'{len(results["models"])}', 'models', None),
        (f'{len(names)}', 'tasks' if len(names) > 1 else 'task', ', '.join(names)),
        (f'{len(results["rows"]):,}', 'values', 'analysis.csv'),
        (f'{len(results["warnings"])}', 'warnings', None),
    )
    shown = (dict(zip(('value', 'label', 'note'), fact)) for fact in facts)
    return {'facts': [{key: x for key, x in fact.items() if x} for fact in shown]}


def _task_sections(task, results):
    name = task['name']
    return [
        {'heading': f'{name}: what can be read off', **_reading(task, results)},
        {
            'heading': f'{name}: geometry',
            'text': _how_many(task, results),
            'figures': figures.geometry(task, results),
        },
        {
            'heading': f'{name}: layer by layer',
            'figures': figures.layers(task, results),
        },
    ]


def _how_many(task, results):
    """Of how many texts the geometry of a task is, as most measures depend on it."""
    rows = figures.of(results, task['name'], 'effective_rank', 'raw')
    counts = {row['count'] for row in rows}
    said = ' or '.join(f'{count:,}' for count in sorted(counts))
    return (
        f'Of {said} texts, each once. Ranks, dimension and hubness depend on this '
        'number: they compare with those of as many texts, and with no others.'
    )


# What can be read off: with the interval in the table, and without.
READ = {
    'labels': ((), ('word_recovery_auc', 'balance', 'paper_probe_gap')),
    'scores': (
        ('cosine_spearman',),
        (
            *('cosine_given_overlap', 'probe_spearman', 'high_overlap_auc'),
            'word_recovery_auc',
        ),
    ),
    'texts': (('word_recovery_auc',), ()),
}


def _reading(task, results):
    found, groups = findings.final(results['rows']), {}
    ended, plain = READ[task['kind']]
    if task['kind'] == 'labels':
        ended = (figures.probe_of(task), *ended)
    subjects = figures.subjects(results, task['name'])
    columns, rows = ['model'], [[charts.label(*subject)] for subject in subjects]
    for metric in (*ended, *plain):
        name = verdicts.words(metric)
        columns += [name, *(['95 %'] if metric in ended else [])]
        for row, subject in zip(rows, subjects):
            one = found.get((task['name'], *subject, metric, ''))
            row.append(one and one['value'])
            if metric in ended:
                row.append(one and verdicts.ends(one))
            if one:
                groups.setdefault(name, {})[subject] = figures.interval(one)
    title, models = f'Read off {figures.deepest(results)}', figures.models_of(results)
    return {
        'text': _about(task),
        'table': {'columns': columns, 'rows': rows, 'note': _NOTES[task['kind']]},
        'figures': [charts.dots(groups, title, '', models)] if groups else [],
    }


def _about(task):
    kind = {
        'labels': f'{len(task["classes"])} classes',
        'scores': 'pairs with a score',
        'texts': 'texts without labels',
    }[task['kind']]
    return (
        f'{kind}: {task["train"]:,} examples to learn from, {task["test"]:,} to be '
        'measured on.'
    )


_NOTES = {
    'labels': 'Word recovery: can content words be told from the vector, against words '
    'as frequent; chance is 0.5. Balance: probe minus words, both corrected for chance. '
    "The paper's gap (arXiv 2606.05173): probe minus a probe for the commonest token, "
    'neither corrected.',
    'scores': 'Given overlap: what agrees with people beyond the words that a pair '
    'shares. High overlap: pairs that share most words, 0.5 is chance. Against scores of '
    'only two values, as frequent, Spearman cannot pass 0.866.',
    'texts': 'Word recovery: can content words be told from the vector, against words as '
    'frequent; chance is 0.5.',
}
