"""Summarizes the findings of an analysis: headline, control and comparison sections."""

from jepa_text.analysis import comparisons, figures, findings
from jepa_text.measures import power, statistics
from jepa_text.report import page

BEYOND = (
    'Beyond: better than every control. Explained: a control reaches it. Intervals are '
    'over texts, so this holds for these training runs, not for the training method. A '
    'value that an untrained network or TF-IDF reaches shows nothing about training; one '
    "that the bag of the model's own trained input embeddings reaches shows nothing "
    'about its layers. Better alignment does not count if all texts are closer together, '
    'as then so are the texts of a class.'
)


def headline(results):
    """The answer: the models that have collapsed, scores beside their strongest controls,
    and verdicts between models."""
    scores = '\n'.join(filter(None, _scores(results))) or 'No scores were measured.'
    collapsed = [
        f'Collapsed on {task}, all vectors nearly equal: `{model}`.'
        for task, model in results['collapsed']
    ]
    return '\n\n'.join([*collapsed, scores, *filter(None, [_verdict(results)])])


def _verdict(results):
    tested = [test for test in results['tests'] if test['test']]
    if not tested:
        return results['tests'] and f'Between models: {results["tests"][0]["verdict"]}.'
    others = [one for one in tested if one['p_holm'] > 1 - statistics.LEVEL]
    fields = statistics.OverSeeds._fields
    found = [statistics.OverSeeds(*map(one.get, fields)) for one in others]
    seeds = [power.needed(one, len(tested)) for one in found]
    text = (
        f'Over training seeds, {len(tested) - len(others)} of {len(tested)} differences '
        'between models remain after correction for their number.'
    )
    told = page.needed(f'The other {len(seeds)}', seeds, power.MAX_SEEDS)
    return f'{text} {told}'.strip()


def _scores(results):
    """Yields a sentence for the first score of each task, of models and controls."""
    rows = findings.final_rows(results['rows'])
    for task in dict.fromkeys(key[0] for key in rows):
        metric, models, others = comparisons.score_of(rows, task), {}, {}
        for (of, model, control, name, form), row in rows.items():
            if (of, name, form) == (task, metric, ''):
                if model and not control:
                    models[model] = figures.interval(row)
                else:
                    others[figures.label(model, control)] = row['value']
        yield page.scores(f'`{task}`, {figures.metric_label(metric)}', models, others)


def controlled(results):
    """The section of all values beside their strongest controls; falsy if no value has a
    control."""
    rows = [
        [
            *(one['task'], one['model'], value_label(one)),
            # Magnitudes differ between rows, so each value is formatted by itself.
            f'{one["value"]:.3g}'.replace('-', '−'),
            one['control'],
            f'{one["reached"]:.3g}'.replace('-', '−'),
            one['kind'],
        ]
        for one in results['examined']
    ]
    columns = 'task, model, value, result, strongest control, control result, conclusion'
    return rows and {
        'heading': 'Values and their strongest controls',
        'text': f'Values of {figures.deepest(results)}.',
        'table': {'columns': columns.split(', '), 'rows': rows, 'note': BEYOND},
    }


def differences(results):
    """The section of the tests between models; falsy if there is only one model."""
    rows = [
        [
            *(test['task'], test['first'], test['second'], value_label(test)),
            f'{test["difference"]:.3f}'.replace('-', '−'),
            page.interval_text((test['difference'], test['low'], test['high'])),
            *(test['over'], test['verdict']),
        ]
        for test in results['tests']
    ]
    columns = 'task, first, second, value, first − second, 95 %, interval, verdict'
    return rows and {
        'heading': 'Differences between models',
        'text': f'A verdict needs {statistics.MIN_SEEDS} seeds of both models: it is a '
        f'paired t-test over seeds, or from {statistics.FLIPPED_SEEDS} seeds on a '
        'sign-flip test; p is corrected over all verdicts (Holm). Intervals over texts '
        'describe these training runs: another seed may reverse the difference.',
        'table': {
            'columns': columns.split(', '),
            'rows': rows,
            'fold': f'Differences: {len(rows)}',
        },
    }


def value_label(row):
    """The metric and form of a row, such as 'uniformity, raw'."""
    form = figures.FORMS.get(row['form'], row['form'])
    return ', '.join(filter(None, (figures.metric_label(row['metric']), form)))
