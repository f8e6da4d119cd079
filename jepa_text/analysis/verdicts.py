"""Summarizes the findings of an analysis: headline, control and comparison sections."""

import math

from jepa_text.analysis import comparisons, figures, findings
from jepa_text.measures import statistics
from jepa_text.report import page

# The headline has the first of these that a task has.
SCORES = ('probe_accuracy', 'probe_spearman', 'cosine_spearman')


def headline(results):
    """The main findings: models that have collapsed, the score of each model beside its
    strongest control, and verdicts between models."""
    text = ' '.join(_scores(results)) or 'No scores were measured.'
    tested = [test for test in results['tests'] if test['test']]
    if tested:
        significant = sum(map(comparisons.is_significant, tested))
        text += (
            f' Over training seeds, {significant} of {len(tested)} differences between '
            'models remain after correction for their number.'
        )
    elif results['tests']:
        text += f' Between models: {results["tests"][0]["verdict"]}.'
    collapsed = [
        f'Collapsed on {task}, all vectors nearly equal: `{model}`.'
        for task, model in results['collapsed']
    ]
    return ' '.join([*collapsed, text])


def _scores(results):
    """Yields a sentence for the first score of each model on each task."""
    rows = findings.final_rows(results['rows'])
    subjects = (key[:2] for key in rows if key[1] and not key[2])
    for task, model in dict.fromkeys(subjects):
        known = [name for name in SCORES if (task, model, '', name, '') in rows]
        if not known:
            continue
        others = {
            row['control']: row['value']
            for (of, owner, control, *value), row in rows.items()
            # Controls that no model has are those of all.
            if control and of == task and owner in (model, '') and value == [known[0], '']
        }
        row = rows[task, model, '', known[0], '']
        text = f'{task}: `{model}` has {metric_label(known[0])} {row["value"]:.3f}'
        if math.isfinite(row['low']):
            text += f' ({row["low"]:.3f} to {row["high"]:.3f})'
        if others:
            best = max(others, key=others.get)
            text += f', the strongest control, {best}, {others[best]:.3f}'
        yield f'{text}.'


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
        'text': f'Values of {figures.deepest(results)}. Beyond: better than every '
        'control. Explained: a control reaches it. Intervals are over texts, so this '
        'holds for these training runs, not for the training method. A value that an '
        'untrained network or TF-IDF reaches shows nothing about training; one that the '
        "bag of the model's own trained input embeddings reaches shows nothing about its "
        'layers. Better alignment does not count if all texts are closer together, as '
        'then so are the texts of a class.',
        'table': {'columns': columns.split(', '), 'rows': rows},
    }


def differences(results):
    """The section of the tests between models; falsy if there is only one model."""
    rows = [
        [
            *(test['task'], test['first'], test['second'], value_label(test)),
            test['difference'],
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
    return ', '.join(filter(None, (metric_label(row['metric']), form)))


def metric_label(metric):
    """The label of a metric, such as 'word recovery AUC' for word_recovery_auc."""
    text = metric.replace('paper_probe_gap', "paper's_probe_gap").replace('_', ' ')
    return text.replace(' auc', ' AUC').replace(' f1', ' F1').replace(' mcc', ' MCC')
