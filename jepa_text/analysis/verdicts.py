"""What is left of the values beside their controls, and between models, in words."""

import numpy as np

from jepa_text.analysis import comparisons, figures
from jepa_text.measures import statistics

_REACHED = 'found', 'reached'


def headline(results):
    """What to remember: which models have collapsed, or are worse than untrained; how
    many values survive their controls; whether there is a verdict between models."""
    bad = {
        (w['task'], w['model'], w['metric'], w['form'])
        for w in results['warnings']
        if w['control'] != 'length'
    }
    text = 'No controls were measured.'
    if results['examined']:
        text = (
            f'Of {len(results["examined"])} values that have a control, {len(bad)} are '
            'not clearly beyond it.'
        )
    known = [test for test in results['tests'] if test['test']]
    if known:
        sure = sum(map(comparisons.is_sure, known))
        text += (
            f' Over training seeds, {sure} of {len(known)} differences between models '
            'remain after correction for their number.'
        )
    elif results['tests']:
        text += f' Between models: {results["tests"][0]["verdict"]}.'
    return ' '.join([*_alarms(results), text])


def _alarms(results):
    """Sentences that come before all others."""
    said = [
        f'Collapsed on {task}, all vectors nearly equal: `{model}`.'
        for task, model in results['collapsed']
    ]
    by_position = {}
    for one in results['worse']:
        by_position.setdefault((one['task'], one['model']), []).append(
            f'{words(one["metric"])} {one["found"]:.3f} against {one["reached"]:.3f}'
        )
    return said + [
        f'Worse than untrained on {task}: `{model}` ({"; ".join(values)}).'
        for (task, model), values in by_position.items()
    ]


def beyond(results):
    """What is left of each model, task by task."""
    if not results['examined']:
        return None
    tasks = [task['name'] for task in results['tasks']]
    models = figures.models_of(results)
    left = {(task, model): {} for task in tasks for model in models}
    for one in results['examined']:
        if one['beyond']:
            left[one['task'], one['model']].setdefault(one['metric'], []).append(one)
    rows = [[model, *(_named(left[task, model]) for task in tasks)] for model in models]
    return {
        'heading': 'What no control explains',
        'text': f'Values of {figures.deepest(results)} that are clearly beyond every '
        'control, over texts: of these training runs, not of a way of training. What '
        'explains the others stands below. Alignment alone is no merit: where all texts '
        'lie close together, those of a class do, too.',
        'table': {'columns': ['model', *tasks], 'rows': rows},
    }


def _named(by_metric):
    """Each metric; with its form where another form of it is missing."""
    names = [
        words(name) if rows[1:] else described(rows[0])
        for name, rows in by_metric.items()
    ]
    return '; '.join(names) or 'nothing'


def explained(results):
    """Every value that a control reaches, or may reach; None where none does."""
    said = {'explained': 'explains it', 'unclear': 'may explain it'}
    rows = []
    for w in results['warnings']:
        # Their sizes differ, so each has its own digits.
        found, reached = (f'{w[key]:.3g}'.replace('-', '−') for key in _REACHED)
        beside = found, w['control'], reached, said[w['kind']]
        rows.append([w['task'], w['model'], described(w), *beside])
    columns = ['task', 'model', 'value', 'is', 'control', 'reaches', 'so it']
    return rows and {
        'heading': 'What a control explains',
        'text': f'Values of {figures.deepest(results)} that are not clearly beyond a '
        'control. What an untrained network or TF-IDF reaches is no finding about '
        "training; what the bag of the model's own input embeddings reaches, which are "
        'trained, is none about its layers.',
        'table': {'columns': columns, 'rows': rows, 'fold': f'Values: {len(rows)}'},
    }


def differences(results):
    """The verdicts between models; None where there is one model."""
    rows = []
    for t in results['tests']:
        found = t['difference'], ends(t), t['over'], t['verdict']
        rows.append([t['task'], t['first'], t['second'], described(t), *found])
    columns = 'task, first, second, value, first − second, 95 %, interval, verdict'
    return rows and {
        'heading': 'Differences between models',
        'text': f'A verdict takes {statistics.MIN_SEEDS} seeds of both: a paired '
        f't-test over seeds, sign flips from {statistics.FLIPPED_SEEDS} on; p is '
        'after Holm, over all verdicts. Intervals over texts describe these training '
        'runs: another seed may turn the difference round.',
        'table': {
            'columns': columns.split(', '),
            'rows': rows,
            'fold': f'Differences: {len(rows)}',
        },
    }


def described(row):
    """'uniformity, raw' of a row of these."""
    form = figures.FORMS.get(row['form'], row['form'])
    return ', '.join(filter(None, (words(row['metric']), form)))


def words(metric):
    """'word recovery AUC' of word_recovery_auc."""
    text = metric.replace('paper_probe_gap', "paper's_probe_gap").replace('_', ' ')
    return text.replace(' auc', ' AUC').replace(' f1', ' F1').replace(' mcc', ' MCC')


def ends(row):
    """An interval in words; None where it was not measured."""
    if not np.isfinite(row['low']):
        return None
    return f'{row["low"]:.3f} to {row["high"]:.3f}'.replace('-', '−')
