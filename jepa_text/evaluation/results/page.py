"""The HTML page of an evaluation's results: evaluation.html."""

import math
from collections import Counter

import numpy as np

from jepa_text.evaluation import controls
from jepa_text.evaluation.results import selection, summary
from jepa_text.measures import power, statistics
from jepa_text.report import page, plots

METHODS = """Every member is one fine-tuning run: a model, a task, a learning rate and a
seed. Learning rates are selected on validation, {rule}; the test set is not used for
selection. Intervals are 95 %, by Student's t over seeds: they describe the variation
between seeds, not between test sets. A verdict needs {needed} seeds: a paired t-test over
seeds, sign flips from {flipped} seeds on, p after Holm's correction for all comparisons.

Tables contain two values: `standard`, by the field's definition of the metric, and
`paper`, by that of arXiv 2507.00994, for comparison with its tables only. Sensitivity is
the standard deviation over all learning rates and the seeds that each has (its Figure 5);
smaller is more robust."""
ZERO_SHOT = """Zero-shot tasks train and select nothing. They have one member, which does
not depend on a seed, so there is no verdict between models. The interval over texts
describes the variation between test sets; examples that share a text count as
dependent."""
NOTE = 'Controls are last; those without randomness have one run.'
SEEDS_AND_TEXTS = """Seeds and texts: the variation between training runs and between test
sets; not used for verdicts. Of a single seed it is that between test sets alone, and
another seed may lie outside."""
SETTINGS = ('steps', 'batch_size', 'max_length', 'pooling', 'precision', 'how', 'width')
LOST = {
    'not finite': 'ended without a finite loss',
    'collapsed': 'gave all texts one answer',
}
TOLD = 3  # tasks whose scores the answer tells
_NONE = (None, math.nan, math.nan)  # of (mean, low, high)


def write(path, lines, chosen, compared, tests, failures, instances, facts):
    """Writes the page and returns its path.

    lines        of all members, as result_files.read returns them
    chosen       of selection.select, for models and controls; lines with a `control` are
                 shown below the models, in gray
    compared     of selection.compare
    tests        sentences on the texts of the test sets
    failures     {name: error message}: failed members and damaged files
    instances    {(model, task): interval} of summary.over_instances
    facts        {model: load.trained} of the models
    """
    rows = summary.rows(chosen)
    tasks = list(dict.fromkeys(row['task'] for row in rows))
    models = list(dict.fromkeys(row['model'] for row in rows if not row['control']))
    sections = [_overview(rows, tasks)] if len(tasks) > 1 else []
    for task in tasks:
        sections.append(_task(task, lines, chosen, models, instances))
    if compared:
        sections.append(_verdicts(compared))
    sections.append(_failed(rows, failures))
    if tests:
        sections.append({'heading': 'Test sets', 'text': '\n\n'.join(tests)})
    trained = any(line['learning_rate'] for line in lines)
    title = 'Fine-tuning results' if trained else 'Zero-shot results'
    sections = [*filter(None, sections), _methods(lines, chosen)]
    lead = answer(rows, compared, failures, instances)
    return page.write(path, title, lead, sections, described(lines, models, facts))


def answer(rows, compared, failures, instances):
    """Returns the scores of each task beside its controls, verdicts, and failures."""
    tasks = list(dict.fromkeys(row['task'] for row in rows))[:TOLD]
    scores = [_score(task, rows, instances) for task in tasks]
    parts = ['\n'.join(filter(None, scores)), headline(rows, compared)]
    own = (Counter(row['statuses']) for row in rows if not row['control'])
    counts = sum(own, Counter())
    if lost := [f'{counts[s]} {w}' for s, w in LOST.items() if counts[s]]:
        parts.append(f'Of {counts.total():,} fine-tuning runs, {" and ".join(lost)}.')
    if failures:
        groups = 'group of members' if len(failures) == 1 else 'groups of members'
        parts.append(f'{len(failures)} {groups} failed or were damaged: no results here.')
    return '\n\n'.join(filter(None, parts))


def _score(task, rows, instances):
    """Returns a sentence on the models of a task, and its strongest control."""
    rows = [row for row in rows if row['task'] == task and row['standard']]
    values = {row['model']: row['standard'].get(row['metric'], _NONE) for row in rows}
    # Controls are scored on the same texts, so the interval over seeds is not enough.
    for row in rows:
        if (row['model'], task) in instances:
            values[row['model']] = instances[row['model'], task]
    known = {name: one for name, one in values.items() if one[0] is not None}
    names = [row['model'] for row in rows if not row['control'] and row['model'] in known]
    controls = {name: one[0] for name, one in known.items() if name not in names}
    label = f'`{task}`, {rows[0]["metric"].replace("_", " ")}' if rows else ''
    if any(
        (name, task) not in instances and math.isfinite(known[name][1]) for name in names
    ):
        label += ' (± over seeds alone)'
    return page.scores(label, {name: known[name] for name in names}, controls)


def headline(rows, compared):
    """Returns which differences are significant, and how many seeds others would need."""
    models = {row['model'] for row in rows if not row['control']}
    if len(models) < 2:
        return 'No verdict: there is only one model, so nothing is compared.'
    if not compared:
        return 'No verdict: without training there are no seeds.'
    tested = [pair for pair in compared if pair.result.test]
    if not tested:
        seeds = max(pair.result.seeds for pair in compared)
        return (
            f'No verdict: {statistics.MIN_SEEDS} seeds of both models are needed, and '
            f'there are {seeds}.'
        )
    others = [pair.result for pair in tested if pair.p > 1 - statistics.LEVEL]
    text = (
        'Differences between models that are significant over seeds: '
        f'{len(tested) - len(others)} of {len(tested)}.'
    )
    seeds = [power.needed(result, len(tested)) for result in others]
    told = page.needed(f'The other {len(seeds)}', seeds, power.MAX_SEEDS)
    return f'{text} {told}'.strip()


def described(lines, models, facts):
    """Returns what was compared, from the lines and {model: load.trained}."""
    trained = [line for line in lines if line['learning_rate']]
    tests = {line['task']: line['examples'][-1] for line in lines if 'examples' in line}
    parts = [page.listed('model', models)]
    if sizes := page.amounts([{'parameters': x.get('parameters')} for x in trained]):
        parts[0] += f' of {sizes}'
    if steps := page.amounts(facts.values()):
        parts[0] += f', pretrained for {steps}'
    if tests:
        examples = page.span(tests.values())
        parts.append(f'{page.listed("task", tests)} with {examples} test examples')
    if trained:
        steps, batch = (page.span(x[key] for x in trained) for key in SETTINGS[:2])
        rates = map(summary.rate_text, sorted({x['learning_rate'] for x in trained}))
        seeds = {line['seed'] for line in trained}
        parts.append(
            f'fine-tuned for {steps} steps of {batch} texts at '
            f'{page.listed("learning rate", [*rates])} with {page.listed("seed", seeds)}'
        )
        of = 'seeds and texts' if len(seeds) > 1 else 'texts'
        parts.append(f'± is 95 % over {of}')
    return f'{"; ".join(parts)}.'


def _overview(rows, tasks):
    cells = {row['model']: {} for row in sorted(rows, key=lambda r: bool(r['control']))}
    for row in rows:
        value, *_ = row['standard'].get(row['metric'], _NONE)
        cells[row['model']][row['task']] = value
    metrics = {row['task']: row['metric'] for row in reversed(rows)}
    table = {
        'columns': ['model', *(f'{task}, {metrics[task]}' for task in tasks)],
        'rows': [[model, *map(values.get, tasks)] for model, values in cells.items()],
        'note': 'Means over seeds; for intervals see each task.',
    }
    return {'heading': 'All tasks', 'table': table}


def _task(task, lines, chosen, models, instances):
    chosen = [choice for choice in chosen if choice.task == task]
    chosen.sort(key=lambda choice: bool(choice.first.get('control')))
    rows = summary.rows(chosen)
    metric = next((row['metric'] for row in rows if row['standard']), rows[0]['metric'])
    names = [row['model'] for row in rows]
    others = [name for name in names if name not in models]
    looks = plots.styles([*models, *others], others)
    # The largest class would compress the scale of all others.
    means = {
        row['model']: {row['model']: row['standard'].get(row['metric'], np.nan)}
        for row in rows
        if row['control'] != controls.LARGEST
    }
    title, name = f'{task}: selected on validation', metric.replace('_', ' ')
    figures = [plots.dots(means, title, name, looks, has_legend=False)]
    if runs := _by_rate([line for line in lines if line['task'] == task], chosen):
        name = f'test {chosen[0].metric.replace("_", " ")}'
        named = 'All learning rates', name, 'learning rate'
        figures.append(plots.errors(runs, *named, looks, log=True))
    table = _table(rows, metric, instances)
    return {'heading': task, 'table': table, 'figures': figures}


def _by_rate(lines, chosen):
    """Returns {model: {learning rate: interval of the test metric over seeds}}."""
    runs = {}
    for choice in chosen:
        values = {}
        for line in lines:
            if line['model'] == choice.model and line['learning_rate']:
                value = selection.value(line, 'test', choice.by, choice.metric)
                values.setdefault(line['learning_rate'], []).append(value)
        if values:
            runs[choice.model] = {
                rate: selection.mean_over_seeds([x for x in numbers if x is not None])
                for rate, numbers in values.items()
            }
    return runs


def _table(rows, metric, instances):
    paper = next((name for row in rows for name in row['paper']), None)
    others = dict.fromkeys(name for row in rows for name in row['standard'])
    others = [name for name in others if name != metric][:3]
    lines = []
    for row in rows:
        value = row['standard'].get(metric, _NONE)
        sensitivity = row['sensitivity']
        line = {
            '': row['model'],
            metric: value[0],
            '± 95 %': page.margin_text(value),
            'seeds': row['n'],
            'learning rate': summary.rate_text(row['learning_rate']),
            'sensitivity': sensitivity if math.isfinite(sensitivity) else None,
        }
        line |= {name: row['standard'].get(name, _NONE)[0] for name in others}
        if paper:
            theirs = row['paper'].get(paper, _NONE)
            line |= {f"paper's {paper}": theirs[0], '±': page.margin_text(theirs)}
        if instances:
            text = page.interval_text(instances.get((row['model'], row['task'])))
            is_one = row['n'] == 1 and text and row['learning_rate']
            line['95 %, seeds and texts'] = f'{text} (texts)' if is_one else text
        lines.append(line)
    return {
        'columns': [name.replace('_', ' ') for name in lines[0]],
        'rows': [[*line.values()] for line in lines],
        'note': f'{NOTE} {SEEDS_AND_TEXTS}' if instances else NOTE,
    }


def _verdicts(compared):
    rows = []
    for pair in compared:
        result, p = pair.result, None
        if not math.isnan(pair.p):
            p = f'{pair.p:.3f}' if pair.p >= 1e-3 else '< 0.001'
        difference = None if math.isnan(result.difference) else result.difference
        margin = page.margin_text((result.difference, result.low, result.high))
        names = pair.task, pair.first, pair.second
        rows.append([*names, difference, margin, result.seeds, p, pair.verdict])
    columns = 'task, first, second, difference, ± 95 %, seeds, p, verdict'
    return {
        'heading': 'Verdicts',
        'text': f'Over the seeds that both models have, which use the same data order; '
        f'fewer than {statistics.MIN_SEEDS} seeds give no verdict. "No difference shown" '
        'does not mean that there is no difference.',
        'table': {'columns': columns.split(', '), 'rows': rows},
    }


def _failed(rows, failures):
    """Returns the section of failed, collapsed and lost members; falsy without any."""
    lines = []
    for row in rows:
        counts = [row['statuses'].get(status, 0) for status in ('done', *LOST)]
        if any(counts[1:]) or row['lost']:
            lost = ', '.join(map(str, row['lost'])) or None
            lines.append([row['task'], row['model'], *counts, lost])
    columns = ['task', 'model', 'done', 'not finite', 'collapsed', 'seeds without any']
    return (lines or failures) and {
        'heading': 'Failed members',
        'text': 'Members without a finite loss have no values and are excluded from '
        'means. Rates are selected by the seeds that all of them have; one of which such '
        'a seed is lost is selected only if all rates lost as many. Collapsed members '
        'give the same answer to all examples and are included with their values.',
        'table': lines and {'columns': columns, 'rows': lines},
        'details': failures,
    }


def _methods(lines, chosen):
    trained = [line for line in lines if line['learning_rate']]
    hours = sum(line.get('seconds') or 0 for line in lines) / 3600
    rule = 'by the mean over seeds'
    if any(choice.by == 'paper' for choice in chosen):
        rule += ", by the paper's metric, as are verdicts, sensitivity and rate figures"
    seeds = dict(needed=statistics.MIN_SEEDS, flipped=statistics.FLIPPED_SEEDS)
    text = [METHODS.format(rule=rule, **seeds)]
    if any(line.get('zero_shot') for line in lines):
        text.append(ZERO_SHOT)
    text.append(f'{len(trained):,} members were trained, in {hours:.3g} h of compute.')
    settings = {name: {str(line.get(name)) for line in trained} for name in SETTINGS}
    versions = {}
    for line in lines:
        for name, version in (line.get('versions') or {}).items():
            versions.setdefault(name, set()).add(version)
    details = {
        'Settings': {name: ', '.join(sorted(texts)) for name, texts in settings.items()},
        'Versions': {name: ', '.join(sorted(texts)) for name, texts in versions.items()},
        'This page': page.versions(),
    }
    return {'heading': 'Methods', 'text': '\n\n'.join(text), 'details': details}
