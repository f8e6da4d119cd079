"""Summaries of a grid, of the result of selection.select.

rows           one row per model and task: summary.json, and what the page shows
table          models as rows and tasks as columns; as Markdown and CSV
"""

import csv
import io
import json
import math
import re
from pathlib import Path

from jepa_text.evaluation.results import comparison, published, selection
from jepa_text.evaluation.results import lines as results
from jepa_text.evaluation.results.published import Cell
from jepa_text.files import atomic
from jepa_text.report import page


def rows(chosen):
    """Returns one row per Chosen: a dict of plain values.

    model, task, kind, control    control: '' for a model, else its name (controls/)
    metric          the metric of the task among standard
    by, n, seeds, learning_rate, lost, statuses, sensitivity    as in selection.Chosen
    standard, paper {metric: (mean, low, high)} of the test set, 95 % by Student's t over
                    seeds; NaN ends for one seed. {} if no member has values
    """
    return [_row(choice) for choice in chosen]


def write(folder, rows):
    """Writes rows to summary.json, where NaN is null, and returns its path."""
    path = Path(folder) / 'summary.json'
    text = json.dumps(results.plain(rows), indent=1, allow_nan=False)
    atomic.write(path, text + '\n')
    return path


def over_instances(folder, chosen, clusters):
    """Returns {(model, task): Interval} over seeds and instances of the metric of `rows`.

    Only for models whose side files contain per-instance values of the metric. `clusters`
    are {task: columns of texts} of the test instances that depend on each other.
    """
    intervals = {}
    for choice in chosen:
        values = {
            line['seed']: results.read_side(folder, line)[0]
            for line in choice.members
            if line.get('side')
        }
        name = selection.metric_of(choice.members[0]) if choice.members else ''
        is_complete = len(values) == len(choice.members) > 0
        if is_complete and all(name in side for side in values.values()):
            intervals[choice.model, choice.task] = comparison.instance_interval(
                choice,
                lambda line, v=values, n=name: v[line['seed']][n],
                clusters.get(choice.task, ()),
            )
    return intervals


def rate_text(rate):
    """Formats a learning rate; '–' for none.

    >>> rate_text(1e-5), rate_text(0)
    ('1e-05', '–')
    """
    return re.sub(r'\.?0*e', 'e', f'{rate:.6e}') if rate else '–'


def table(rows, mode='standard', known=()):
    """Returns a table with models, then controls, as rows and tasks as columns.

    rows     of `rows`
    mode     'standard' or 'paper'
    known    rows of published.rows; those with the table's mode, tasks and metrics are
             added, one row per model

    A task's metric is the selection metric or, if the mode lacks it, its first. Returns
    {'columns': [...], 'rows': [[name, Cell or None, ...]]}.
    """
    rows = sorted(rows, key=lambda row: bool(row['control']))
    tasks = list(dict.fromkeys(row['task'] for row in rows))
    names = {task: _metric(rows, task, mode) for task in tasks}
    lines = {row['model']: {} for row in rows}
    for row in rows:
        if interval := row[mode].get(names[row['task']]):
            value, _, high = interval
            lines[row['model']][row['task']] = Cell(value, high - value, row['n'])
    for one in known:
        if published.mode_of(one) == mode and names.get(one['task']) == one['metric']:
            cells = lines.setdefault(published.label_of(one), {})
            cells[one['task']] = published.cell_of(one)
    return {
        'columns': ['model', *(f'{task}, {names[task]}' for task in tasks)],
        'rows': [[model, *map(cells.get, tasks)] for model, cells in lines.items()],
    }


def markdown(table):
    """Formats a table as Markdown, in percent, e.g. 85.07 ± 0.12."""
    cells = [[name, *map(_percent, own)] for name, *own in table['rows']]
    return page.markdown_table(table | {'rows': cells}) + '\n'


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


def _row(choice):
    first = choice.first
    test = choice.members[0]['test'] if choice.members else {}
    metrics = {
        mode: {
            name: tuple(choice.interval('test', mode, name))
            for name in test.get(mode, {})
        }
        for mode in results.MODES
    }
    return {
        'model': choice.model,
        'task': choice.task,
        'kind': first['kind'],
        'control': first.get('control', ''),
        'metric': selection.metric_of(first),
        'by': choice.by,
        'n': len(choice.members),
        'seeds': [line['seed'] for line in choice.members],
        'learning_rate': choice.rate,
        'lost': list(choice.lost),
        'statuses': choice.statuses,
        'sensitivity': choice.sensitivity,
        **metrics,
    }


def _metric(rows, task, mode):
    row = next((row for row in rows if row['task'] == task and row[mode]), None)
    if row is None:
        return ''
    return row['metric'] if row['metric'] in row[mode] else next(iter(row[mode]))


def _percent(cell):
    if cell is None or not math.isfinite(cell.value):
        return None
    reach = '' if math.isnan(cell.reach) else f' ± {100 * cell.reach:.2f}'
    return f'{100 * cell.value:.2f}{reach}'
