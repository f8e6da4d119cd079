"""Summaries of a grid, of the result of selection.select: rows of means and intervals."""

import csv
import io
import json
import math
import re
from pathlib import Path

import numpy as np

from jepa_text.data import truncation
from jepa_text.evaluation.results import result_files, selection
from jepa_text.files import atomic
from jepa_text.measures import statistics
from jepa_text.report import console, page

COLUMNS = (
    *('model', 'control', 'task', 'definition', 'metric', 'value', 'low', 'high'),
    *('seeds', 'learning_rate'),
)


def rows(chosen):
    """Returns one row per Chosen: a dict of plain values.

    model, task, kind, control    control: '' for a model, else its name (controls/)
    metric          the metric of the task among standard
    by, n, seeds, learning_rate, lost, statuses, sensitivity    as in selection.Chosen
    standard, paper {metric: (mean, low, high)} of the test set, 95 % by Student's t over
                    seeds; NaN ends for one seed. {} if no member has values
    """
    return list(map(_row, chosen))


def write(folder, rows):
    """Writes rows to summary.json, where NaN is null, and to summary.csv, which has one
    line per model, task, definition and metric."""
    plain = result_files.plain(rows)
    text = json.dumps(plain, indent=1, allow_nan=False)
    atomic.write(Path(folder) / 'summary.json', text + '\n')
    table = io.StringIO()
    writer = csv.writer(table, lineterminator='\n')
    writer.writerow(COLUMNS)
    for row in plain:
        names = row['model'], row['control'], row['task']
        for mode in result_files.MODES:
            for metric, interval in row[mode].items():
                rest = row['n'], row['learning_rate']
                writer.writerow([*names, mode, metric, *interval, *rest])
    atomic.write(Path(folder) / 'summary.csv', table.getvalue())


def beside_controls(rows):
    """Returns one row per model, task and metric, of `rows`: model, task, metric, value,
    low, high, seeds, learning_rate, and the strongest `control` of the task by this
    metric with its `control_value` ('' and NaN if there is none)."""
    made = []
    for row in rows:
        for metric, (value, low, high) in row['standard'].items():
            controls = {
                other['model']: other['standard'][metric][0]
                for other in rows
                if other['control'] and other['task'] == row['task']
                if metric in other['standard']
            }
            best = max(controls, key=controls.get, default='')
            names = dict(model=row['model'], task=row['task'], metric=metric)
            values = dict(value=value, low=low, high=high)
            how = dict(seeds=row['n'], learning_rate=row['learning_rate'])
            strongest = dict(control=best, control_value=controls.get(best, math.nan))
            if not row['control']:
                made.append(names | values | how | strongest)
    return made


def over_instances(folder, chosen, clusters):
    """Returns {(model, task): Interval} over seeds and instances of the metric of `rows`,
    for description and not for tests.

    Only for models whose side files have its values per instance. `clusters` are {task:
    columns of texts} of test instances that depend on each other (statistics.variance).
    """
    intervals = {}
    for choice in chosen:
        if not all(line.get('side') for line in choice.members) or not choice.members:
            continue
        name = selection.metric_of(choice.members[0])
        sides = [result_files.read_side(folder, line)[0] for line in choice.members]
        if all(name in side for side in sides):
            is_correlation = choice.first['kind'] == 'scores' or name == 'mcc'
            scale = 'correlation' if is_correlation else 'share'
            values_SN = np.stack([np.asarray(side[name], np.float64) for side in sides])
            intervals[choice.model, choice.task] = statistics.two_level_interval(
                values_SN, scale, clusters.get(choice.task, ())
            )
    return intervals


def truncated(lines):
    """Returns a sentence for each task and model with texts longer than a row."""
    sentences = {}
    for line in lines:
        cut, texts = line.get('texts_cut') or (0, 0)
        if cut and not line.get('control'):
            name = f'{line["task"]}, {line["model"]}'
            sentences[truncation.message(name, line['max_length'], cut, texts)] = None
    return list(sentences)


def show(rows):
    """Prints the metric of each task: models, then controls."""
    columns = ['task', 'model', 'metric', 'test', '± 95 %', 'seeds', 'learning rate']
    table = []
    for row in sorted(rows, key=lambda row: (row['task'], bool(row['control']))):
        interval = row['standard'].get(row['metric'], (None, math.nan, math.nan))
        names = row['task'], row['model'], row['metric']
        rest = page.margin_text(interval), row['n'], rate_text(row['learning_rate'])
        table.append([*names, interval[0], *rest])
    console.table('Test scores, selected on validation', columns, table)


def rate_text(rate):
    """Formats a learning rate; '–' for none.

    >>> rate_text(1e-5), rate_text(0)
    ('1e-05', '–')
    """
    return re.sub(r'\.?0*e', 'e', f'{rate:.6e}') if rate else '–'


def _row(choice):
    first = choice.first
    test = choice.members[0]['test'] if choice.members else {}
    metrics = {
        mode: {name: tuple(choice.interval(mode, name)) for name in test.get(mode, {})}
        for mode in result_files.MODES
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
