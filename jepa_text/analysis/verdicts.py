"""What is left of the values beside their controls, and between models: as sections."""

import numpy as np

from jepa_text.analysis import figures


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
        'control; what explains the others stands below. Alignment alone is no merit: '
        'where all texts lie close together, those of a class do, too.',
        'table': {'columns': ['model', *tasks], 'rows': rows},
    }


def _named(by_metric):
    """Each metric; with its form where another form of it is missing."""
    whole = {name for name, rows in by_metric.items() if len(rows) > 1}
    names = [
        words(name) if name in whole else described(row)
        for name, (row, *_) in by_metric.items()
    ]
    return '; '.join(names) or 'nothing'


def explained(results):
    """Every value that a control reaches, or may reach; None where none does."""
    if not results['warnings']:
        return None
    said = {'explained': 'explains it', 'unclear': 'may explain it'}
    rows = []
    for w in results['warnings']:
        # Their sizes differ, so each has its own digits.
        value, reached = (
            f'{w[key]:.3g}'.replace('-', '−') for key in ('found', 'reached')
        )
        beside = w['control'], reached, said[w['kind']]
        rows.append([w['task'], w['model'], described(w), value, *beside])
    columns = ['task', 'model', 'value', 'is', 'control', 'reaches', 'so it']
    return {
        'heading': 'What a control explains',
        'text': f'Values of {figures.deepest(results)} that are not clearly beyond a '
        'control. What an untrained network or TF-IDF reaches is no finding about '
        "training; what the bag of the model's own input embeddings reaches, which are "
        'trained, is none about its layers.',
        'table': {'columns': columns, 'rows': rows, 'fold': f'Values: {len(rows)}'},
    }


def differences(results):
    """The paired tests between models; None where there are none."""
    if not results['tests']:
        return None
    rows = []
    for t in results['tests']:
        found = t['difference'], ends(t), t['p'], t['p_holm']
        rows.append([t['task'], t['first'], t['second'], described(t), *found])
    columns = 'task, first, second, value, first − second, 95 %, p, p corrected'
    return {
        'heading': 'Differences between models',
        'text': 'Paired over the same sentences; the last column after Holm, over all of '
        'them.',
        'table': {
            'columns': columns.split(', '),
            'rows': rows,
            'fold': f'Tests: {len(rows)}',
        },
    }


def described(row):
    """'uniformity, raw' of a row of these."""
    form = {'': '', 'raw': ', raw', 'length_controlled': ', length taken out'}
    return words(row['metric']) + form.get(row['form'], f', {row["form"]}')


def words(metric):
    """'word recovery AUC' of word_recovery_auc."""
    text = metric.replace('author_probe_gap', "paper's_probe_gap").replace('_', ' ')
    return text.replace(' auc', ' AUC').replace(' f1', ' F1').replace(' mcc', ' MCC')


def ends(row):
    """An interval in words; None where it was not measured."""
    if not np.isfinite(row['low']):
        return None
    return f'{row["low"]:.3f} to {row["high"]:.3f}'.replace('-', '−')
