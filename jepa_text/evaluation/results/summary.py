"""Results of a grid for other programs: a row a model and task, files in others' formats.

rows           what tables and the page show
summary        summary.json: records as EuroEval writes them, `results.raw` and `.total`
hub_results    .eval_results/*.yaml, which the hub shows on the page of a model

Each takes what selection.select gives, so all show one learning rate: that of validation.
"""

import json
import math
import re
from pathlib import Path

from jepa_text.config import resolve
from jepa_text.evaluation.results import comparison
from jepa_text.evaluation.results import lines as results
from jepa_text.files import atomic

HUB_FOLDER = '.eval_results'
# EuroEval's error is 1.96 standard errors, whatever the number of seeds.
_NORMAL = 1.96


def rows(chosen):
    """[row] in the order of `chosen`, plain values: a dict of

    model, task, kind, control    '' of a model, else which control (controls.py) it is
    metric          of standard, by which one compares
    rule, n, seeds, learning_rates, lost, statuses, sensitivity    as in selection.Chosen
    standard, paper {metric: (mean, low, high)} of the test set, 95 % of Student's t over
                    seeds; NaN ends of one seed. {} where no member has values
    """
    return [_row(one) for one in chosen]


def summary(chosen):
    """[record] for summary.json, one a model and task that has values.

    `raw` has a dict a seed, {metric: value}, the paper's metrics with 'paper_' before
    their names; `total`, for each, test_METRIC (mean), test_METRIC_se (1.96 standard
    errors, as EuroEval has it; null of one seed), and test_METRIC_low and _high (95 % by
    Student's t, which is wider). Values are shares, not percents.
    """
    return [_record(one) for one in chosen if one.members]


def write(folder, chosen):
    """Writes summary.json, and returns its path."""
    path = Path(folder) / 'summary.json'
    text = json.dumps(results.plain(summary(chosen)), indent=1, allow_nan=False)
    atomic.write(path, text + '\n')
    return path


def over_instances(folder, chosen):
    """{(model, task): Interval} over seeds and test instances, of the metric that
    selected, where side files have values of it whose mean it is."""
    found = {}
    for one in chosen:
        prefix = 'paper_' if one.by == 'paper' else ''
        values = {
            line['seed']: results.side(folder, line)[0]
            for line in one.members
            if line.get('side')
        }
        for name in (f'{prefix}{one.metric}', one.metric):
            whole = len(values) == len(one.members) > 0
            if whole and all(name in side for side in values.values()):
                found[one.model, one.task] = comparison.instance_interval(
                    one, lambda line, v=values, n=name: v[line['seed']][n]
                )
                break
    return found


def hub_results(folder, chosen, benchmarks, date, source=None):
    """Writes .eval_results/TASK.yaml for one model; returns (paths, tasks left out).

    benchmarks    {task: {'id': 'nyu-mll/glue', 'task_id': 'sst2', 'revision': ...}}: the
                  hub's data set, and the task in its eval.yaml; tasks without are left
                  out, as the hub shows registered benchmarks only
    date          of the evaluation, '2026-11-22'
    source        {'url': ..., 'name': ..., 'user': ...}, where all is shown; None: none

    The value is the mean over seeds of the metric that selected, as a share; what it is
    stands in the notes. Raises ValueError for several models and a benchmark without id
    or task_id.
    """
    models = {one.model for one in chosen}
    if len(models) != 1:
        raise ValueError(
            f'{HUB_FOLDER} lies in the folder of one model, but there are '
            f'{sorted(models)}: give the results of one.'
        )
    check_benchmarks(benchmarks)
    paths, left_out = [], []
    for one in chosen:
        if one.task not in benchmarks or not one.members:
            left_out.append(one.task)
            continue
        entry = _hub_entry(one, benchmarks[one.task], date, source)
        name = re.sub(r'[^\w.-]+', '-', one.task)
        path = Path(folder) / HUB_FOLDER / f'{name}.yaml'
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(path, '\n'.join(['- ' + _yaml(entry, '  ')[2:], '']))
        paths.append(path)
    return paths, left_out


def check_benchmarks(benchmarks, tasks=None):
    """Raises ValueError for a benchmark without id or task_id, and for one of a task that
    is none of `tasks`, if they are given."""
    for task, known in benchmarks.items():
        if not isinstance(known, dict) or not {'id', 'task_id'} <= set(known):
            raise ValueError(
                f'benchmarks[{task!r}]={known!r}: the hub asks for id and task_id, as '
                "{'id': 'nyu-mll/glue', 'task_id': 'sst2'}."
            )
        if tasks is not None and task not in tasks:
            raise ValueError(
                f'hub names the task {task!r}, which is none of this evaluation.'
                f'{resolve.nearest(task, tasks)}'
            )


def described(learning_rates):
    """'1e-05' of {seed: learning rate}; the range where seeds differ; '–' of none.

    >>> described({0: 1e-5, 1: 1e-5}), described({0: 1e-5, 1: 1e-4}), described({0: 0})
    ('1e-05', '1e-05 to 1e-04', '–')
    """
    rates = sorted({rate for rate in learning_rates.values() if rate})
    if not rates:
        return '–'
    words = [re.sub(r'\.?0*e', 'e', f'{rate:.6e}') for rate in rates]
    return words[0] if len(words) == 1 else f'{words[0]} to {words[-1]}'


def _row(one):
    metrics = {mode: {} for mode in results.MODES}
    first = one.members[0] if one.members else None
    for mode in results.MODES if first else ():
        metrics[mode] = {
            name: tuple(one.interval('test', mode, name)) for name in first['test'][mode]
        }
    return {
        'model': one.model,
        'task': one.task,
        'kind': first['kind'] if first else '',
        'control': first.get('control', '') if first else '',
        'metric': one.metric,
        'rule': one.rule,
        'n': len(one.members),
        'seeds': [line['seed'] for line in one.members],
        'learning_rates': one.learning_rates,
        'lost': list(one.lost),
        'statuses': one.statuses,
        'sensitivity': one.sensitivity,
        **metrics,
    }


def _record(one):
    first, row = one.members[0], _row(one)
    raw = [
        {
            **line['test']['standard'],
            **{f'paper_{name}': x for name, x in line['test']['paper'].items()},
            'seed': line['seed'],
            'learning_rate': line['learning_rate'],
        }
        for line in one.members
    ]
    total = {}
    for mode, before in (('standard', 'test_'), ('paper', 'test_paper_')):
        for name, (mean, low, high) in row[mode].items():
            values = one.values('test', mode, name).values()
            key = before + name
            ends = {f'{key}_low': low, f'{key}_high': high}
            total |= {key: mean, f'{key}_se': _NORMAL * _error(values), **ends}
    settings = {key: first[key] for key in results.CONFIG if key in first}
    differ = ('model', 'task', 'kind', 'learning_rate', 'seed')
    return {
        'dataset': one.task,
        'task': first['kind'],
        'model': one.model,
        'results': {'raw': raw, 'total': total},
        'selected_by': ''
        if first.get('zero_shot')
        else f'validation {one.by} {one.metric}, {one.rule}',
        'learning_rates_sensitivity': one.sensitivity,
        'members': one.statuses,
        **{key: value for key, value in settings.items() if key not in differ},
        'versions': first.get('versions', {}),
    }


def _error(values):
    """The standard error of a mean; NaN of one value."""
    values, count = list(values), len(values)
    if count < 2:
        return math.nan
    mean = sum(values) / count
    return math.sqrt(sum((x - mean) ** 2 for x in values) / (count - 1) / count)


def _hub_entry(one, benchmark, date, source):
    mean, low, high = one.interval()
    ends = f', 95 % {low:.4f} to {high:.4f}' if math.isfinite(low) else ''
    how = (
        f'fine-tuned, learning rate {described(one.learning_rates)} chosen on validation'
    )
    if one.members[0].get('zero_shot'):
        how = 'zero-shot'
    notes = f'{one.by} {one.metric}, mean of {len(one.members)} seed(s){ends}; {how}'
    entry = {'dataset': dict(benchmark), 'value': round(mean, 6), 'date': date}
    return {**entry, **({'source': dict(source)} if source else {}), 'notes': notes}


def _yaml(value, indent):
    """Block YAML of nested dicts, whose texts and numbers stand as in JSON."""
    lines = []
    for key, item in value.items():
        if isinstance(item, dict):
            lines += [f'{indent}{key}:', _yaml(item, f'{indent}  ')]
        else:
            lines.append(f'{indent}{key}: {json.dumps(item, ensure_ascii=False)}')
    return '\n'.join(lines)
