"""Tables of results as Markdown, LaTeX and CSV, with published values alongside.

    table = result_tables.table(rows, published=...)
    result_tables.markdown(table), .latex(table), .csv_of(table)

A table is {'columns': [...], 'rows': [[name, cell, ...]]}; a cell is None or a Cell.
"""

import csv
import io
import math
from typing import NamedTuple

PAPER = '2507.00994'  # the paper of the mode `paper`
SPECIAL = {char: f'\\{char}' for char in '&%$#_{}'} | {
    '~': r'\textasciitilde{}',
    '^': r'\textasciicircum{}',
    '\\': r'\textbackslash{}',
    '–': '--',
}


class Cell(NamedTuple):
    """A mean over `n` seeds and half the width of its 95 % interval (NaN: unknown)."""

    value: float
    reach: float = math.nan
    n: int | None = None


def table(rows, mode='standard', published=()):
    """Returns a table with models, then controls, as rows and tasks as columns.

    rows         of summary.rows
    mode         'standard' or 'paper'
    published    rows of published.rows; those with the table's mode, tasks and metrics
                 are added, one row per model

    A task's metric is the selection metric or, if the mode lacks it, its first.
    """
    rows = sorted(rows, key=lambda row: bool(row['control']))
    tasks = list(dict.fromkeys(row['task'] for row in rows))
    names = {task: _metric(rows, task, mode) for task in tasks}
    lines = {row['model']: {} for row in rows}
    for row in rows:
        if interval := row[mode].get(names[row['task']]):
            value, _, high = interval
            lines[row['model']][row['task']] = Cell(value, high - value, row['n'])
    for result in published:
        if mode_of(result) == mode and names.get(result['task']) == result['metric']:
            lines.setdefault(label_of(result), {})[result['task']] = cell_of(result)
    return {
        'columns': ['model', *(f'{task}, {names[task]}' for task in tasks)],
        'rows': [
            [model, *(cells.get(task) for task in tasks)]
            for model, cells in lines.items()
        ],
    }


def mode_of(published):
    """Returns the mode whose metric definitions a published row uses."""
    return 'paper' if published['paper'] == PAPER else 'standard'


def cell_of(published):
    """Returns the Cell of a published row, as a share; only 95 % intervals are kept."""
    unit = 100 if published['unit'] == '%' else 1
    interval = published['interval'] if published['paper'] == PAPER else None
    reach = math.nan if interval is None else interval / unit
    return Cell(published['value'] / unit, reach)


def label_of(published):
    """Returns a label like '210M mlm, 40 % masked, 42000 steps (2507.00994)'."""
    masking = published['masking'] and f'{published["masking"]:.0%} masked'
    steps = published['steps'] and f'{published["steps"]} steps'
    words = (f'{published["model"]} {published["objective"] or ""}'.strip(), masking)
    words = (*words, published['pooling'], steps)
    return f'{", ".join(filter(None, words))} ({published["paper"]})'


def markdown(table):
    """Formats a table as GitHub Markdown, in percent, e.g. 85.07 ± 0.12."""
    lines = [list(map(str, table['columns']))]
    lines.append(['---', *('---:' for _ in table['columns'][1:])])
    for name, *cells in table['rows']:
        shown = (_percent(cell, '{:.2f} ± {:.2f}', '–') for cell in cells)
        lines.append([str(name), *shown])
    escaped = ([cell.replace('|', '\\|') for cell in line] for line in lines)
    return ''.join(f'| {" | ".join(line)} |\n' for line in escaped)


def latex(table):
    """Formats a table as a LaTeX tabular, in percent, with booktabs rules."""
    head, *body = [table['columns'], *table['rows']]
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


def csv_of(table):
    """Formats a table as CSV: one line per model and task, with all digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator='\n')
    writer.writerow(['model', 'task and metric', 'value', '95 % reach', 'seeds'])
    for name, *cells in table['rows']:
        for column, cell in zip(table['columns'][1:], cells):
            if cell is not None:
                reach = '' if math.isnan(cell.reach) else repr(float(cell.reach))
                value = repr(float(cell.value))
                writer.writerow([name, column, value, reach, cell.n or ''])
    return text.getvalue()


def _metric(rows, task, mode):
    row = next((row for row in rows if row['task'] == task and row[mode]), None)
    if row is None:
        return ''
    return row['metric'] if row['metric'] in row[mode] else next(iter(row[mode]))


def _percent(cell, form, missing):
    if cell is None or not math.isfinite(cell.value):
        return missing
    if math.isnan(cell.reach):
        return f'{100 * cell.value:.2f}'
    return form.format(100 * cell.value, 100 * cell.reach)


def _escaped(text):
    return ''.join(SPECIAL.get(char, char) for char in str(text))
