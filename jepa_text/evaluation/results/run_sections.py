"""Parts of the page of an examination: verdicts, what was lost, how it was run."""

import math

from jepa_text.data import truncation
from jepa_text.measures import statistics
from jepa_text.report import page

METHODS = """Every member is one fine-tuning run: a model, a task, a learning rate and a
seed. Learning rates are chosen on validation, {rule}; the test set chooses nothing.
Intervals are 95 %, by Student's t over seeds: they say how another seed may come out, and
nothing of other test examples. A verdict takes {needed} seeds: a paired t-test over
seeds, sign flips from {flipped} on, p after Holm's correction for all that is compared.

Two values stand in each table: `standard`, as the field defines the metric, and `paper`,
as arXiv 2507.00994 defines it, for comparison with its tables only. Sensitivity is the
standard deviation over all learning rates and seeds (its Figure 5): smaller is calmer."""
AS_IT_IS = """Tasks that are zero-shot train nothing and choose nothing: one member, which
no seed changes, so of two models there is no verdict. How another test set may come out
is the interval over texts."""
SHOWN = ('steps', 'batch_size', 'max_length', 'pooling', 'precision')
LOST = {'not finite': 'ended without a finite loss', 'collapsed': 'collapsed'}


def ends(interval):
    """'0.911 to 0.923' of (value, low, high); None where there are no ends."""
    if not interval or not math.isfinite(interval[1]):
        return None
    return f'{interval[1]:.3f} to {interval[2]:.3f}'.replace('-', '−')


def reach(interval):
    """'± 0.006' of (value, low, high); None where there are no ends."""
    if not interval or not math.isfinite(interval[1]):
        return None
    return f'± {(interval[2] - interval[1]) / 2:.3f}'


def verdicts(compared):
    """The section of comparison.compare; None of one model."""
    rows = []
    for one in compared:
        found = one.found
        span = reach((found.difference, found.low, found.high))
        p = None if math.isnan(one.p) else f'{one.p:.3f}' if one.p >= 1e-3 else '< 0.001'
        difference = None if math.isnan(found.difference) else found.difference
        names = [one.task, one.first, one.second]
        rows.append([*names, difference, span, found.seeds, p, one.verdict])
    columns = 'task, first, second, difference, ± 95 %, seeds, p, verdict'
    return rows and {
        'heading': 'Verdicts',
        'text': f'Over seeds that both have, and that saw the same order of data; fewer '
        f'than {statistics.MIN_SEEDS} give no verdict. "No difference shown" is not '
        '"no difference".',
        'table': {'columns': columns.split(', '), 'rows': rows},
    }


def without_results(found):
    """A sentence on what failed or was damaged; '' where nothing was."""
    if not found:
        return ''
    what = 'group of members' if len(found) == 1 else 'groups of members'
    return f' {len(found)} {what} failed or were damaged, and have no results here.'


def troubles(rows, found):
    """What failed, collapsed or was lost, counted; says so where nothing was."""
    lines = []
    for row in rows:
        counts = row['statuses']
        lost = ', '.join(map(str, row['lost'])) or None
        if any(counts.get(status) for status in LOST) or lost:
            bad = [counts.get(status, 0) for status in ('done', *LOST)]
            lines.append([row['task'], row['model'], *bad, lost])
    columns = ['task', 'model', 'done', 'not finite', 'collapsed', 'seeds without any']
    said = 'All members that were begun have ended with a finite loss.'
    if lines or found:
        said = (
            'Members without a finite loss have no values and are in no mean; a learning '
            'rate that lost one is chosen only if every rate did. Collapsed ones give '
            'one answer to everything, and count with what they reach.'
        )
    return {
        'heading': 'What was lost',
        'text': said,
        **({'table': {'columns': columns, 'rows': lines}} if lines else {}),
        'details': {f'{what}': why for what, why in found.items()},
    }


def shared(found):
    """The section of shared texts; None where nothing was counted."""
    rows = []
    for task, count, known in found:
        share = None if known is None or not count else f'{100 * known / count:.1f} %'
        rows.append([task, count, known, share])
    columns = ['task', 'test examples', 'with a text trained on', 'share']
    return rows and {
        'heading': 'Texts that train and test share',
        'text': 'A test example counts if a text of it, but for white space, is in the '
        'training set too. They stay where the data set has them.',
        'table': {'columns': columns, 'rows': rows},
    }


def cuts(found):
    """How many texts were longer than what a model reads; None where none was counted."""
    rows = [
        [one.task, one.model, one.length, one.texts, truncation.percent(one)]
        for one in found
    ]
    return rows and {
        'heading': 'Texts that were cut',
        'text': 'A text that is longer than the rows of a model is cut there, in '
        'training and in the test; what stands behind is not read, but by controls of '
        'words.',
        'table': {
            'columns': ['task', 'model', 'tokens of a row', 'texts', 'cut'],
            'rows': rows,
        },
    }


def how(lines, chosen, notes):
    """The settings of members: those that all share in a sentence, the others in a table;
    versions folded away."""
    text, table = _settings([line for line in lines if line['learning_rate']])
    rules = ' or '.join(sorted({one.rule for one in chosen})) or 'pooled'
    methods = METHODS.format(
        rule={'pooled': 'by the mean over seeds'}.get(rules, rules),
        needed=statistics.MIN_SEEDS,
        flipped=statistics.FLIPPED_SEEDS,
    )
    untaught = AS_IT_IS if any(line.get('zero_shot') for line in lines) else ''
    versions = {}
    for line in lines:
        for name, version in (line.get('versions') or {}).items():
            versions.setdefault(name, {}).setdefault(version, 0)
            versions[name][version] += 1
    said = {
        name: next(iter(found)) if len(found) == 1 else found
        for name, found in versions.items()
    }
    return {
        'heading': 'How it was run',
        'text': '\n\n'.join(filter(None, [methods, untaught, text, notes])),
        **({'table': table} if table['rows'] else {}),
        'details': {'Versions': said, 'This page': page.versions()},
    }


def _settings(lines):
    """(the settings that all lines share, a table of the others)."""
    grids, rows = {}, {}
    for line in lines:
        trained_by = f'{line.get("how")}, {line.get("width")} at once'
        given = *(line.get(name) for name in SHOWN), trained_by
        grids.setdefault((line['model'], line['task'], given), []).append(line)
    names = [*(name.replace('_', ' ') for name in SHOWN), 'trained by']
    settings = dict(zip(names, zip(*(given for _, _, given in grids))))
    alike = {name: of[0] for name, of in settings.items() if len(set(of)) == 1}
    differ = [name for name in settings if name not in alike]
    for number, ((model, task, _), own) in enumerate(grids.items()):
        rates, seeds = (len({x[key] for x in own}) for key in ('learning_rate', 'seed'))
        given = (settings[name][number] for name in differ)
        rows.setdefault((model, f'{rates} × {seeds}', *given), []).append(task)
    said = ', '.join(f'{name} {value}' for name, value in alike.items())
    return said and f'The same for all members: {said}.', {
        'columns': ['model', 'tasks', 'rates × seeds', *differ],
        'rows': [[model, ', '.join(tasks), *x] for (model, *x), tasks in rows.items()],
    }
