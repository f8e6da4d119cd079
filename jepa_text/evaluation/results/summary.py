"""Summaries of a grid: rows for tables, EuroEval records, and files for the hub.

rows           one row per model and task, for tables and the page
summary        summary.json: records in EuroEval's format, `results.raw` and `.total`
hub_results    .eval_results/*.yaml, which the hub shows on the page of a model

All take the result of selection.select, so they show the same learning rate.
"""

import json
import math
import re
import statistics
from pathlib import Path

from jepa_text.config import resolve
from jepa_text.evaluation.results import comparison, selection
from jepa_text.evaluation.results import lines as results
from jepa_text.files import atomic

HUB_FOLDER = '.eval_results'
# EuroEval's error is 1.96 standard errors, whatever the number of seeds.
_NORMAL = 1.96


def rows(chosen):
    """Returns one row per Chosen: a dict of plain values.

    model, task, kind, control    control: '' for a model, else its name (controls/)
    metric          the metric of the task among standard
    rule, n, seeds, learning_rates, lost, statuses, sensitivity    as in selection.Chosen
    standard, paper {metric: (mean, low, high)} of the test set, 95 % by Student's t over
                    seeds; NaN ends for one seed. {} if no member has values
    """
    return [_row(choice) for choice in chosen]


def summary(chosen):
    """Returns the records of summary.json, one per model and task with values.

    `raw` has a dict per seed, {metric: value}, with 'paper_' before the names of the
    paper's metrics. `total` has, for each metric, test_METRIC (mean), test_METRIC_se
    (1.96 standard errors, as in EuroEval; null for one seed), and test_METRIC_low and
    _high (95 % by Student's t, which is wider). Values are shares, not percents.
    """
    return [_record(choice) for choice in chosen if choice.members]


def write(folder, chosen):
    """Writes summary.json and returns its path."""
    path = Path(folder) / 'summary.json'
    text = json.dumps(results.plain(summary(chosen)), indent=1, allow_nan=False)
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


def hub_results(folder, chosen, benchmarks, date):
    """Writes .eval_results/TASK.yaml for the tasks of one model, and returns the paths.

    benchmarks    {task: {'id': 'nyu-mll/glue', 'task_id': 'sst2', 'revision': ...}}: the
                  data set on the hub, and the task in its eval.yaml. Other tasks are left
                  out, as the hub shows registered benchmarks only
    date          of the evaluation, '2026-11-22'

    The value is the mean over seeds of the selection metric, as a share; the notes
    describe it. Raises ValueError for several models and a benchmark without id or
    task_id.
    """
    models = {choice.model for choice in chosen}
    if len(models) != 1:
        raise ValueError(
            f'{HUB_FOLDER} is in the folder of one model, but got results of '
            f'{sorted(models)}: give the results of one model.'
        )
    check_benchmarks(benchmarks)
    paths = []
    for choice in chosen:
        if choice.task not in benchmarks or not choice.members:
            continue
        entry = _hub_entry(choice, benchmarks[choice.task], date)
        name = re.sub(r'[^\w.-]+', '-', choice.task)
        path = Path(folder) / HUB_FOLDER / f'{name}.yaml'
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(path, '\n'.join(['- ' + _yaml(entry, '  ')[2:], '']))
        paths.append(path)
    return paths


def check_benchmarks(benchmarks, tasks=None):
    """Raises ValueError for a benchmark without id or task_id, or of an unknown task."""
    for task, known in benchmarks.items():
        if not isinstance(known, dict) or not {'id', 'task_id'} <= set(known):
            raise ValueError(
                f'benchmarks[{task!r}]={known!r} must have id and task_id, e.g. '
                "{'id': 'nyu-mll/glue', 'task_id': 'sst2'}."
            )
        if tasks is not None and task not in tasks:
            raise ValueError(
                f'hub names the task {task!r}, which is not part of this evaluation.'
                f'{resolve.nearest(task, tasks)}'
            )


def learning_rate_text(learning_rates):
    """Formats {seed: learning rate} as '1e-05', or as a range; '–' if there are none.

    >>> [learning_rate_text({0: 1e-5, 1: rate}) for rate in (1e-5, 1e-4)]
    ['1e-05', '1e-05 to 1e-04']
    >>> learning_rate_text({0: 0})
    '–'
    """
    rates = sorted({rate for rate in learning_rates.values() if rate})
    if not rates:
        return '–'
    words = [re.sub(r'\.?0*e', 'e', f'{rate:.6e}') for rate in rates]
    return words[0] if len(words) == 1 else f'{words[0]} to {words[-1]}'


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
        'rule': choice.rule,
        'n': len(choice.members),
        'seeds': [line['seed'] for line in choice.members],
        'learning_rates': choice.learning_rates,
        'lost': list(choice.lost),
        'statuses': choice.statuses,
        'sensitivity': choice.sensitivity,
        **metrics,
    }


def _record(choice):
    first, row = choice.members[0], _row(choice)
    raw = [
        {
            **line['test']['standard'],
            **{f'paper_{name}': x for name, x in line['test']['paper'].items()},
            'seed': line['seed'],
            'learning_rate': line['learning_rate'],
        }
        for line in choice.members
    ]
    total = {}
    for mode, prefix in (('standard', 'test_'), ('paper', 'test_paper_')):
        for name, (mean, low, high) in row[mode].items():
            values = choice.values('test', mode, name).values()
            key = prefix + name
            total |= {
                key: mean,
                f'{key}_se': _NORMAL * _standard_error(values),
                f'{key}_low': low,
                f'{key}_high': high,
            }
    settings = {key: first[key] for key in results.CONFIG if key in first}
    differ = ('model', 'task', 'kind', 'learning_rate', 'seed')
    return {
        'dataset': choice.task,
        'task': first['kind'],
        'model': choice.model,
        'results': {'raw': raw, 'total': total},
        'selected_by': ''
        if first.get('zero_shot')
        else f'validation {choice.by} {choice.metric}, {choice.rule}',
        'learning_rates_sensitivity': choice.sensitivity,
        'members': choice.statuses,
        **{key: value for key, value in settings.items() if key not in differ},
        'versions': first.get('versions', {}),
    }


def _standard_error(values):
    """Returns the standard error of the mean; NaN for one value."""
    if len(values) < 2:
        return math.nan
    return statistics.stdev(values) / math.sqrt(len(values))


def _hub_entry(choice, benchmark, date):
    mean, low, high = choice.interval()
    ends = f', 95 % {low:.4f} to {high:.4f}' if math.isfinite(low) else ''
    how = 'zero-shot'
    if not choice.members[0].get('zero_shot'):
        rate = learning_rate_text(choice.learning_rates)
        how = f'fine-tuned, learning rate {rate} selected on validation'
    notes = (
        f'{choice.by} {choice.metric}, mean of {len(choice.members)} seed(s){ends}; {how}'
    )
    entry = {'dataset': dict(benchmark), 'value': round(mean, 6), 'date': date}
    return {**entry, 'notes': notes}


def _yaml(value, indent):
    """Formats nested dicts as block YAML, with strings and numbers as in JSON."""
    lines = []
    for key, item in value.items():
        if isinstance(item, dict):
            lines += [f'{indent}{key}:', _yaml(item, f'{indent}  ')]
        else:
            lines.append(f'{indent}{key}: {json.dumps(item, ensure_ascii=False)}')
    return '\n'.join(lines)
