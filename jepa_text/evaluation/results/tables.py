"""Tables of results as Markdown, LaTeX and CSV, a paper's values beside ours.

    made = result_tables.table(rows, published=...)
    result_tables.markdown(made), .latex(made), .csv_of(made)

A table is {'columns': [...], 'rows': [[name, cell, ...]]}; a cell is None or a Cell.
"""

import csv
import io
import math
from typing import NamedTuple

PAPER = '2507.00994'  # whose definitions are the mode `paper`
SPECIAL = {char: f'\\{char}' for char in '&%$#_{}'} | {
    '~': r'\textasciitilde{}',
    '^': r'\textasciicircum{}',
    '\\': r'\textbackslash{}',
    '–': '--',
}


class Cell(NamedTuple):
    """A mean over `n` seeds and how far its 95 % interval reaches; NaN: not known."""

    value: float
    reach: float = math.nan
    n: int | None = None


def table(rows, mode='standard', metrics=None, published=()):
    """Models down, then controls, tasks across: the metric of each task, of summary.rows.

    mode         'standard' or 'paper'
    metrics      {task: metric}; where there is none, the one that selected or, of the
                 paper's mode, its first
    published    rows of published.rows: those of the table's mode, tasks and metrics, a
                 line a model under ours

    Raises ValueError for a metric that a task lacks.
    """
    rows = sorted(rows, key=lambda row: bool(row['control']))
    tasks = list(dict.fromkeys(row['task'] for row in rows))
    names = {task: _metric(rows, task, mode, metrics or {}) for task in tasks}
    lines = {row['model']: {} for row in rows}
    for row in rows:
        if found := row[mode].get(names[row['task']]):
            value, _, high = found
            lines[row['model']][row['task']] = Cell(value, high - value, row['n'])
    for one in published:
        if mode_of(one) == mode and names.get(one['task']) == one['metric']:
            lines.setdefault(named(one), {})[one['task']] = cell_of(one)
    return {
        'columns': ['model', *(f'{task}, {names[task]}' for task in tasks)],
        'rows': [
            [model, *(cells.get(task) for task in tasks)]
            for model, cells in lines.items()
        ],
    }


def mode_of(published):
    """Whose definition of a metric a published row goes by."""
    return 'paper' if published['paper'] == PAPER else 'standard'


def cell_of(published):
    """The Cell of a published row, as a share; what is no 95 % interval is left out."""
    unit = 100 if published['unit'] == '%' else 1
    interval = published['interval'] if published['paper'] == PAPER else None
    reach = math.nan if interval is None else interval / unit
    return Cell(published['value'] / unit, reach)


def named(published):
    """'210M mlm, 40 % masked, 42000 steps (2507.00994)' of a published row."""
    masking = published['masking'] and f'{published["masking"]:.0%} masked'
    steps = published['steps'] and f'{published["steps"]} steps'
    words = (f'{published["model"]} {published["objective"] or ""}'.strip(), masking)
    words = (*words, published['pooling'], steps)
    return f'{", ".join(filter(None, words))} ({published["paper"]})'


def markdown(made):
    """A table of GitHub's Markdown, in percent: 85.07 ± 0.12."""
    lines = [list(map(str, made['columns']))]
    lines.append(['---', *('---:' for _ in made['columns'][1:])])
    for name, *cells in made['rows']:
        shown = (_percent(cell, '{:.2f} ± {:.2f}', '–') for cell in cells)
        lines.append([str(name), *shown])
    escaped = ([cell.replace('|', '\\|') for cell in line] for line in lines)
    return ''.join(f'| {" | ".join(line)} |\n' for line in escaped)


def latex(made):
    """A tabular of LaTeX, in percent, with the rules of booktabs."""
    head, *body = [made['columns'], *made['rows']]
    lines = [' & '.join(map(_escaped, head)) + r' \\', r'\midrule']
    for name, *cells in body:
        shown = [_percent(cell, r'${:.2f}_{{\pm {:.2f}}}$', '--') for cell in cells]
        lines.append(' & '.join([_escaped(name), *shown]) + r' \\')
    places = 'l' + 'r' * (len(head) - 1)
    return '\n'.join(
        [
            f'\\begin{{tabular}}{{{places}}}',
            r'\toprule',
            *lines,
            r'\bottomrule',
            r'\end{tabular}',
            '',
        ]
    )


def csv_of(made):
    """A line a model and task, with all digits: model, column, value, reach, n."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator='\n')
    writer.writerow(['model', 'task and metric', 'value', '95 % reach', 'seeds'])
    for name, *cells in made['rows']:
        for column, cell in zip(made['columns'][1:], cells):
            if cell is not None:
                reach = '' if math.isnan(cell.reach) else repr(float(cell.reach))
                value = repr(float(cell.value))
                writer.writerow([name, column, value, reach, cell.n or ''])
    return text.getvalue()


def _metric(rows, task, mode, metrics):
    row = next((row for row in rows if row['task'] == task and row[mode]), None)
    if row is None:
        return ''
    default = row['metric'] if row['metric'] in row[mode] else next(iter(row[mode]))
    name = metrics.get(task, default)
    if name not in row[mode]:
        raise ValueError(
            f'{task} has no {mode} metric {name!r}, but {", ".join(row[mode])}.'
        )
    return name


def _percent(cell, form, missing):
    if cell is None or not math.isfinite(cell.value):
        return missing
    if math.isnan(cell.reach):
        return f'{100 * cell.value:.2f}'
    return form.format(100 * cell.value, 100 * cell.reach)


def _escaped(text):
    return ''.join(SPECIAL.get(char, char) for char in str(text))
