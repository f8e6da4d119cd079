"""Sections of the evaluation page: verdicts, failures, shared texts and methods."""

import collections
import math

from jepa_text.data import truncation
from jepa_text.measures import statistics
from jepa_text.report import page

METHODS = """Every member is one fine-tuning run: a model, a task, a learning rate and a
seed. Learning rates are selected on validation, {rule}; the test set is not used for
selection. Intervals are 95 %, by Student's t over seeds: they describe the variation
between seeds, not between test sets. A verdict needs {needed} seeds: a paired t-test over
seeds, sign flips from {flipped} seeds on, p after Holm's correction for all comparisons.

Tables contain two values: `standard`, by the field's definition of the metric, and
`paper`, by that of arXiv 2507.00994, for comparison with its tables only. Sensitivity is
the standard deviation over all learning rates and seeds (its Figure 5); smaller is more
robust."""
ZERO_SHOT = """Zero-shot tasks train and select nothing. They have one member, which does
not depend on a seed, so there is no verdict between models. The interval over texts
describes the variation between test sets; examples that share a text count as
dependent."""
SHOWN = ('steps', 'batch_size', 'max_length', 'pooling', 'precision')
LOST = {'not finite': 'ended without a finite loss', 'collapsed': 'collapsed'}


def verdicts(compared):
    """Returns the section of comparison.compare; None for one model."""
    columns = 'task, first, second, difference, ± 95 %, seeds, p, verdict'
    return compared and {
        'heading': 'Verdicts',
        'text': f'Over the seeds that both models have, which use the same data order; '
        f'fewer than {statistics.MIN_SEEDS} seeds give no verdict. "No difference shown" '
        'does not mean that there is no difference.',
        'table': {'columns': columns.split(', '), 'rows': [*map(_verdict, compared)]},
    }


def _verdict(pair):
    result, p = pair.result, None
    if not math.isnan(pair.p):
        p = f'{pair.p:.3f}' if pair.p >= 1e-3 else '< 0.001'
    difference = None if math.isnan(result.difference) else result.difference
    margin = page.margin_text((result.difference, result.low, result.high))
    names = pair.task, pair.first, pair.second
    return [*names, difference, margin, result.seeds, p, pair.verdict]


def without_results(errors):
    """Returns a sentence on failed and damaged members; '' if there are none."""
    if not errors:
        return ''
    groups = 'group of members' if len(errors) == 1 else 'groups of members'
    return f' {len(errors)} {groups} failed or were damaged and have no results here.'


def failures(rows, errors):
    """Returns the section of failed, collapsed and lost members, also without any."""
    lines = []
    for row in rows:
        counts = row['statuses']
        lost = ', '.join(map(str, row['lost'])) or None
        if any(counts.get(status) for status in LOST) or lost:
            bad = [counts.get(status, 0) for status in ('done', *LOST)]
            lines.append([row['task'], row['model'], *bad, lost])
    columns = ['task', 'model', 'done', 'not finite', 'collapsed', 'seeds without any']
    text = 'All members that were started ended with a finite loss.'
    if lines or errors:
        text = (
            'Members without a finite loss have no values and are excluded from means; a '
            'learning rate with such a member is selected only if every rate has one. '
            'Collapsed members give the same answer to all examples and are included '
            'with their values.'
        )
    return {
        'heading': 'Failed members',
        'text': text,
        'table': lines and {'columns': columns, 'rows': lines},
        'details': dict(errors),
    }


def shared_texts(counts):
    """Returns the section of texts shared by train and test; None without counts."""
    rows = []
    for task, count, shared in counts:
        share = None if shared is None or not count else f'{100 * shared / count:.1f} %'
        rows.append([task, count, shared, share])
    columns = ['task', 'test examples', 'with a text trained on', 'share']
    return rows and {
        'heading': 'Texts shared by train and test',
        'text': 'A test example counts if one of its texts, ignoring whitespace, is also '
        'in the training set. Such examples are not removed.',
        'table': {'columns': columns, 'rows': rows},
    }


def truncations(cuts):
    """Returns the section of truncated texts; None without counts."""
    rows = [
        [cut.task, cut.model, cut.length, cut.texts, truncation.percent(cut)]
        for cut in cuts
    ]
    return rows and {
        'heading': 'Truncated texts',
        'text': "Texts longer than a model's rows are truncated, in training and in the "
        'test. Only controls that use words read the whole texts.',
        'table': {
            'columns': ['task', 'model', 'tokens per row', 'texts', 'truncated'],
            'rows': rows,
        },
    }


def methods_section(lines, chosen):
    """Returns the section of methods, settings and, folded, versions."""
    trained = [line for line in lines if line['learning_rate']]
    table = _settings(trained)
    hours = sum(line.get('seconds') or 0 for line in lines) / 3600
    spent = f'{len(trained):,} members were trained, in {hours:.3g} h of compute.'
    rule = 'by the mean over seeds'
    if any(choice.by == 'paper' for choice in chosen):
        rule += ", by the paper's metric, as are verdicts, sensitivity and rate figures"
    methods = METHODS.format(
        rule=rule,
        needed=statistics.MIN_SEEDS,
        flipped=statistics.FLIPPED_SEEDS,
    )
    zero_shot = ZERO_SHOT if any(line.get('zero_shot') for line in lines) else ''
    counts = collections.defaultdict(collections.Counter)
    for line in lines:
        for name, version in (line.get('versions') or {}).items():
            counts[name][version] += 1
    versions = {
        name: next(iter(count)) if len(count) == 1 else dict(count)
        for name, count in counts.items()
    }
    return {
        'heading': 'Methods',
        'text': '\n\n'.join(filter(None, [methods, zero_shot, spent])),
        'table': table['rows'] and table,
        'details': {'Versions': versions, 'This page': page.versions()},
    }


def _settings(lines):
    """Returns a table of the settings of all models and tasks."""
    grids = {}
    for line in lines:
        settings = [line.get(name) for name in SHOWN]
        settings.append(f'{line.get("how")}, {line.get("width")} at once')
        grids.setdefault((line['model'], *settings), []).append(line)
    rows = []
    for (model, *settings), own in grids.items():
        rates, seeds = (len({x[key] for x in own}) for key in ('learning_rate', 'seed'))
        tasks = ', '.join(dict.fromkeys(line['task'] for line in own))
        rows.append([model, tasks, f'{rates} × {seeds}', *settings])
    names = [name.replace('_', ' ') for name in SHOWN]
    columns = ['model', 'tasks', 'rates × seeds', *names, 'trained by']
    return {'columns': columns, 'rows': rows}
