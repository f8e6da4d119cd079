"""The results of an examination as one HTML page: evaluation.html."""

import dataclasses
import math
from collections import Counter

from jepa_text.evaluation.results import comparison, figures, summary
from jepa_text.evaluation.results import run_sections as page_run
from jepa_text.evaluation.results import tables as result_tables
from jepa_text.measures import statistics
from jepa_text.report import page

_NONE = (None, math.nan, math.nan)  # of (mean, low, high)


@dataclasses.dataclass(frozen=True, eq=False)
class Examined:
    """What the page is of.

    lines        of all members, as results.read gives them
    chosen       of selection.select, of models and controls alike; a line that has a
                 `control` is one of these, and stands below the models, in grey
    compared     of comparison.compare
    shared       [(task, test examples, how many of them have a text that was trained
                 on, or None where that was not counted)]
    published    rows of published.rows, as in tables.table
    troubles     {what: why, in words}: members that raised, and damaged files
    cuts         truncation.Cut of each task and model
    instances    {(model, task): interval} of summary.over_instances
    notes        what else is to be known, such as what was left out of the grid
    """

    lines: list
    chosen: list
    compared: list
    shared: tuple = ()
    published: tuple = ()
    troubles: dict = dataclasses.field(default_factory=dict)
    cuts: tuple = ()
    instances: dict = dataclasses.field(default_factory=dict)
    notes: str = ''


def write(path, examined):
    """Writes the page, and returns its path."""
    lines, chosen = examined.lines, examined.chosen
    rows = summary.rows(chosen)
    # What chance has no part in, as TF-IDF, has one run, and so never a verdict.
    once = {row['model'] for row in rows if row['control'] and row['n'] < 2}
    compared = [c for c in examined.compared if not once & {c.first, c.second}]
    by_task = {}
    for one, row in zip(chosen, rows):
        by_task.setdefault(one.task, []).append((one, row))
    models = list(dict.fromkeys(row['model'] for row in rows if not row['control']))
    sections = [_facts(lines, by_task, models), _overview(rows, by_task, chosen)]
    for task, pairs in by_task.items():
        sections.append(_task(task, pairs, lines, models, examined.instances))
        own = [row for _, row in pairs]
        sections.append(_beside(own, task, examined.published))
    sections += [
        page_run.verdicts(compared),
        page_run.troubles(rows, examined.troubles),
        page_run.shared(examined.shared),
        page_run.cuts(examined.cuts),
        page_run.how(lines, chosen, examined.notes),
    ]
    trained = any(line['learning_rate'] for line in lines)
    return page.write(
        path,
        title='What fine-tuning makes of it' if trained else 'What it knows untaught',
        lead=headline(rows, compared) + page_run.without_results(examined.troubles),
        sections=[section for section in sections if section],
        subtitle=f'Examination of {", ".join(models)}',
    )


def headline(rows, compared):
    """What to remember: how many verdicts there are; which models no control is under;
    what was lost."""
    known = [one for one in compared if one.found.test]
    sure = sum(one.p <= 1 - statistics.LEVEL for one in known)
    models = {row['model'] for row in rows if not row['control']}
    text = 'One model, so nothing is compared.'
    if len(models) > 1:
        text = 'No verdict: without training there are no seeds.'
    if known:
        text = f'Of {len(known)} differences between models, {sure} are beyond seeds.'
    elif compared:
        seeds = max(one.found.seeds for one in compared)
        text = (
            f'No verdict: it takes {statistics.MIN_SEEDS} seeds of both models, and '
            f'there are {seeds}.'
        )
    reached = [
        f'`{row["model"]}` on {row["task"]}' for row in rows if _control_above(row, rows)
    ]
    if reached:
        text += f' No better than a control: {", ".join(reached)}.'
    counts = sum((Counter(row['statuses']) for row in rows), Counter())
    lost = [f'{counts[s]} {w}' for s, w in page_run.LOST.items() if counts[s]]
    return text + (f' Of all members, {" and ".join(lost)}.' if lost else '')


def _control_above(row, rows):
    """Does a control of its task reach the mean of a model?"""
    if row['control'] or not row['standard']:
        return False
    mean = row['standard'][row['metric']][0]
    others = (r for r in rows if r['control'] and r['task'] == row['task'])
    return any(
        other['standard'][row['metric']][0] >= mean
        for other in others
        if row['metric'] in other['standard']
    )


def _facts(lines, by_task, models):
    trained = [line for line in lines if line['learning_rate']]
    seconds = sum(line.get('seconds') or 0 for line in lines)
    spent = f'{seconds / 3600:.1f} h' if seconds >= 3600 else f'{seconds / 60:.0f} min'
    facts = (
        (f'{len(models)}', 'models' if models[1:] else 'model', None),
        (f'{len(by_task)}', 'tasks' if len(by_task) > 1 else 'task', ', '.join(by_task)),
        (f'{len(trained):,}', 'members trained', 'a learning rate and a seed each'),
        (spent, 'of computing', 'their sum'),
    )
    shown = (dict(zip(('value', 'label', 'note'), fact)) for fact in facts)
    return {'facts': [{key: x for key, x in fact.items() if x} for fact in shown]}


def _overview(rows, by_task, chosen):
    """All models and tasks in one table; None of one task, which has its own."""
    if len(by_task) < 2:
        return None
    made = result_tables.table(rows)
    controls = {row['model'] for row in rows if row['control']}
    models = [one for one in chosen if one.model not in controls]
    points, left_out = comparison.borda(models)
    lines = []
    for name, *own in made['rows']:
        values = [cell and cell.value for cell in own]
        mean = None if None in values else sum(values) / len(values)
        lines.append([name, *values, mean, _points(points.get(name))])
    note = (
        'Means over seeds; the intervals stand with each task. Borda: one point for each '
        'other model that is beaten on a task, half a point for equals.'
    )
    if left_out:
        note += f' It leaves out {", ".join(left_out)}, which not all models ran.'
    columns = [*made['columns'], 'mean', 'Borda']
    table = {'columns': columns, 'rows': lines, 'note': note}
    return {'heading': 'All tasks', 'table': table}


def _points(number):
    """Whole points without decimals."""
    return int(number) if number is not None and number == int(number) else number


def _task(task, pairs, lines, models, instances):
    rows = sorted((row for _, row in pairs), key=lambda row: bool(row['control']))
    metric = next((row['metric'] for row in rows if row['standard']), rows[0]['metric'])
    shown = [
        one
        for one, row in pairs
        if not row['control'] or len(one.learning_rates) + len(one.lost) > 1
    ]
    own = [line for line in lines if line['task'] == task]
    found = {
        one.model: (one, [line for line in own if line['model'] == one.model])
        for one in shown
    }
    name = metric.replace('_', ' ')
    drawn = [figures.means(rows, f'{task}: chosen on validation', name, models)]
    rates = {line['learning_rate'] for _, own in found.values() for line in own}
    if len(rates) > 1:
        drawn.append(
            figures.sensitivity(found, 'Which learning rate', f'test {name}', models)
        )
    if any(rates):
        drawn.append(figures.members(found, 'Every member', f'test {name}', models))
    return {'heading': task, 'table': _table(rows, metric, instances), 'figures': drawn}


def _table(rows, metric, instances):
    paper = next((name for row in rows for name in row['paper']), None)
    others = list(dict.fromkeys(n for row in rows for n in row['standard']))
    # What the best threshold reaches is no result of a test.
    others = [n for n in others if n != metric and not n.startswith('best_')][:3]
    lines = [_cells(row, metric, others, paper) for row in rows]
    note = (
        'Bold: the best, if its interval meets no other. Controls stand last; of those '
        'that nothing is drawn for, one run says all.'
    )
    if instances:
        for row, line in zip(rows, lines):
            over_both = instances.get((row['model'], row['task']))
            line['95 %, seeds and texts'] = page_run.ends(over_both)
        note += (
            ' Seeds and texts: both resampled, which describes how another test set may '
            'come out, and decides nothing.'
        )
    columns = [name.replace('_', ' ') for name in lines[0]]
    ends = [row['standard'].get(metric, _NONE)[1:] for row in rows]
    return {
        'columns': columns,
        'rows': [[*line.values()] for line in lines],
        'note': note,
        'best': {columns[1]: 'max'},
        'intervals': {columns[1]: [x if math.isfinite(x[0]) else None for x in ends]},
    }


def _cells(row, metric, others, paper):
    """{column: cell} of a row of the summary; `paper` is its metric, or None."""
    value = row['standard'].get(metric, _NONE)
    cells = {
        '': row['model'],
        metric: value[0],
        '± 95 %': page_run.reach(value),
        'seeds': row['n'],
        'learning rate': summary.described(row['learning_rates']),
        'sensitivity': row['sensitivity'] if math.isfinite(row['sensitivity']) else None,
    }
    cells |= {name: row['standard'].get(name, _NONE)[0] for name in others}
    if paper:
        theirs = row['paper'].get(paper, _NONE)
        cells |= {f"paper's {paper}": theirs[0], '±': page_run.reach(theirs)}
    return cells


def _beside(rows, task, published):
    """A paper's values of this task, beside ours of its mode; None without."""
    theirs = [one for one in published if one['task'] == task]
    if not theirs:
        return None
    named = []
    for one in theirs:
        who = result_tables.named(one), result_tables.mode_of(one), one['metric']
        named.append((*who, result_tables.cell_of(one)))
    modes = sorted({(mode, metric) for _, mode, metric, _ in named})
    for row in rows:
        for mode, metric in modes:
            if found := row[mode].get(metric):
                cell = result_tables.Cell(found[0], found[2] - found[0])
                named.append((row['model'], mode, metric, cell))
    return {
        'table': {
            'columns': ['published, and ours', 'definition', 'metric', 'percent', '95 %'],
            'rows': [
                [*who, 100 * cell.value, _percent(cell.reach)] for *who, cell in named
            ],
            'fold': f'Published values of {task}, beside ours',
        }
    }


def _percent(reach):
    return f'± {100 * reach:.2f}' if math.isfinite(reach) else None
