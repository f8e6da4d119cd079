"""The HTML page of an evaluation's results: evaluation.html."""

import dataclasses
import math
from collections import Counter

from jepa_text.evaluation.results import (
    comparison,
    figures,
    published,
    run_sections,
    summary,
)
from jepa_text.measures import statistics
from jepa_text.report import page

_NONE = (None, math.nan, math.nan)  # of (mean, low, high)


@dataclasses.dataclass(frozen=True, eq=False)
class Contents:
    """Contents of the page.

    lines        of all members, as results.read returns them
    chosen       of selection.select, for models and controls; lines with a `control` are
                 shown below the models, in gray
    compared     of comparison.compare
    shared       [(task, test examples, how many of them share a text with the training
                 set, or None if unknown)]
    published    rows of published.rows, as in tables.table
    failures     {name: error message}: failed members and damaged files
    truncations  truncation.Cut of each task and model
    instances    {(model, task): interval} of summary.over_instances
    """

    lines: list
    chosen: list
    compared: list
    shared: tuple = ()
    published: tuple = ()
    failures: dict = dataclasses.field(default_factory=dict)
    truncations: tuple = ()
    instances: dict = dataclasses.field(default_factory=dict)


def write(path, contents):
    """Writes the page and returns its path."""
    lines, chosen = contents.lines, contents.chosen
    rows = summary.rows(chosen)
    # Deterministic controls such as TF-IDF have one run, so there is never a verdict.
    single = {row['model'] for row in rows if row['control'] and row['n'] < 2}
    compared = [c for c in contents.compared if not single & {c.first, c.second}]
    by_task = {}
    for choice, row in zip(chosen, rows):
        by_task.setdefault(choice.task, []).append((choice, row))
    models = list(dict.fromkeys(row['model'] for row in rows if not row['control']))
    sections = [_overview(rows, by_task, chosen)]
    for task, pairs in by_task.items():
        sections.append(_task(task, pairs, lines, models, contents.instances))
        own = [row for _, row in pairs]
        sections.append(_published(own, task, contents.published))
    sections += [
        run_sections.verdicts(compared),
        run_sections.failures(rows, contents.failures),
        run_sections.shared_texts(contents.shared),
        run_sections.truncations(contents.truncations),
        run_sections.methods_section(lines, chosen),
    ]
    trained = any(line['learning_rate'] for line in lines)
    return page.write(
        path,
        title='Fine-tuning results' if trained else 'Zero-shot results',
        lead=headline(rows, compared) + run_sections.without_results(contents.failures),
        sections=[section for section in sections if section],
        subtitle=f'Evaluation of {", ".join(models)}',
    )


def headline(rows, compared):
    """Summarizes verdicts, models no better than a control, and failures."""
    tested = [pair for pair in compared if pair.result.test]
    significant = sum(pair.p <= 1 - statistics.LEVEL for pair in tested)
    models = {row['model'] for row in rows if not row['control']}
    text = 'There is only one model, so nothing is compared.'
    if len(models) > 1:
        text = 'No verdict: without training there are no seeds.'
    if tested:
        text = (
            f'Of {len(tested)} differences between models, {significant} are significant '
            'over seeds.'
        )
    elif compared:
        seeds = max(pair.result.seeds for pair in compared)
        text = (
            f'No verdict: {statistics.MIN_SEEDS} seeds of both models are needed, and '
            f'there are {seeds}.'
        )
    reached = [
        f'`{row["model"]}` on {row["task"]}' for row in rows if _control_above(row, rows)
    ]
    if reached:
        text += f' No better than a control: {", ".join(reached)}.'
    counts = sum((Counter(row['statuses']) for row in rows), Counter())
    lost = [f'{counts[s]} {w}' for s, w in run_sections.LOST.items() if counts[s]]
    return text + (f' Of all members, {" and ".join(lost)}.' if lost else '')


def _control_above(row, rows):
    """Returns whether a control of the task reaches the mean of a model."""
    if row['control'] or not row['standard']:
        return False
    mean = row['standard'][row['metric']][0]
    others = (r for r in rows if r['control'] and r['task'] == row['task'])
    return any(
        other['standard'][row['metric']][0] >= mean
        for other in others
        if row['metric'] in other['standard']
    )


def _overview(rows, by_task, chosen):
    """Returns a table of all models and tasks; None for one task, which has its own."""
    if len(by_task) < 2:
        return None
    table = summary.table(rows)
    controls = {row['model'] for row in rows if row['control']}
    models = [choice for choice in chosen if choice.model not in controls]
    points, left_out = comparison.borda(models)
    lines = []
    for name, *own in table['rows']:
        values = [cell and cell.value for cell in own]
        mean = None if None in values else sum(values) / len(values)
        lines.append([name, *values, mean, _points(points.get(name))])
    note = (
        'Means over seeds; for intervals see each task. Borda: one point for each other '
        'model that is beaten on a task, half a point for ties.'
    )
    if left_out:
        note += f' Without {", ".join(left_out)}, which some models did not run.'
    columns = [*table['columns'], 'mean', 'Borda']
    table = {'columns': columns, 'rows': lines, 'note': note}
    return {'heading': 'All tasks', 'table': table}


def _points(number):
    """Returns whole points as int."""
    return int(number) if number is not None and number == int(number) else number


def _task(task, pairs, lines, models, instances):
    rows = sorted((row for _, row in pairs), key=lambda row: bool(row['control']))
    metric = next((row['metric'] for row in rows if row['standard']), rows[0]['metric'])
    shown = [
        choice
        for choice, row in pairs
        if not row['control'] or len(choice.members) + len(choice.lost) > 1
    ]
    own = [line for line in lines if line['task'] == task]
    results = {
        choice.model: (choice, [line for line in own if line['model'] == choice.model])
        for choice in shown
    }
    name = metric.replace('_', ' ')
    drawn = [figures.means(rows, f'{task}: selected on validation', name, models)]
    rates = {line['learning_rate'] for _, own in results.values() for line in own}
    if any(rates):
        scale = f'test {shown[0].metric.replace("_", " ")}'
        # Of seeds and texts: one seed has no interval over seeds.
        ends = (one[1:] for (_, of), one in instances.items() if of == task)
        span = max((high - low for low, high in ends), default=0.0)
        drawn.append(figures.members(results, 'All members', scale, models, span))
    return {'heading': task, 'table': _table(rows, metric, instances), 'figures': drawn}


def _table(rows, metric, instances):
    paper = next((name for row in rows for name in row['paper']), None)
    others = list(dict.fromkeys(n for row in rows for n in row['standard']))
    others = [name for name in others if name != metric][:3]
    lines = [_cells(row, metric, others, paper) for row in rows]
    note = 'Controls are last; those without randomness have one run.'
    if instances:
        for row, line in zip(rows, lines):
            over_both = instances.get((row['model'], row['task']))
            text = page.interval_text(over_both)
            is_one = row['n'] == 1 and text and row['learning_rate']
            line['95 %, seeds and texts'] = f'{text} (texts)' if is_one else text
        note += (
            ' Seeds and texts: the variation between training runs and between test '
            'sets; not used for verdicts. Of a single seed it is that between test sets '
            'alone, and another seed may lie outside.'
        )
    return {
        'columns': [name.replace('_', ' ') for name in lines[0]],
        'rows': [[*line.values()] for line in lines],
        'note': note,
    }


def _cells(row, metric, others, paper):
    """Returns {column: cell} of a row of the summary; `paper` is its metric or None."""
    value = row['standard'].get(metric, _NONE)
    cells = {
        '': row['model'],
        metric: value[0],
        '± 95 %': page.margin_text(value),
        'seeds': row['n'],
        'learning rate': summary.rate_text(row['learning_rate']),
        'sensitivity': row['sensitivity'] if math.isfinite(row['sensitivity']) else None,
    }
    cells |= {name: row['standard'].get(name, _NONE)[0] for name in others}
    if paper:
        theirs = row['paper'].get(paper, _NONE)
        cells |= {f"paper's {paper}": theirs[0], '±': page.margin_text(theirs)}
    return cells


def _published(rows, task, known):
    """Returns a table of a task's published values next to ours; None without any."""
    theirs = [one for one in known if one['task'] == task]
    cells = [
        (
            published.label_of(one),
            published.mode_of(one),
            one['metric'],
            published.cell_of(one),
        )
        for one in theirs
    ]
    for row in rows:
        for mode, metric in sorted({(mode, metric) for _, mode, metric, _ in cells}):
            if interval := row[mode].get(metric):
                cell = published.Cell(interval[0], interval[2] - interval[0])
                cells.append((row['model'], mode, metric, cell))
    return theirs and {
        'table': {
            'columns': ['published, and ours', 'definition', 'metric', 'percent', '95 %'],
            'rows': [
                [*names, 100 * cell.value, _percent(cell.reach)] for *names, cell in cells
            ],
            'fold': f'Published values of {task}, compared with ours',
        }
    }


def _percent(reach):
    return f'± {100 * reach:.2f}' if math.isfinite(reach) else None
