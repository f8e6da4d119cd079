"""How soon runs come to a stated score: the section "Time to target" of a study's page.

    config.report = dict(target={'heldout/mlm_loss': 4.5})

A target is {a metric that is logged beside the steps: what it must come to}; losses come
down to it, all else up. It is reached at the first step at which all of them were
evaluated and hold, so times are as fine as `evaluate.every`.
"""

import math
import re

import numpy as np

from jepa_text.config import ranges
from jepa_text.study import arms as of_arms
from jepa_text.study import budgets

_METRIC = re.compile(
    r'heldout/\w+_(loss|accuracy)|heldout/bits_per_byte'
    r'|probe/(?P<task>.+)/(accuracy|balanced)'
)
_NEVER = 'not reached'


def check(target):
    """Raises ValueError for a metric that no log has, and a value that is no number."""
    for metric, value in target.items():
        if not _METRIC.fullmatch(metric):
            raise ValueError(
                f'report.target: {metric!r} is not logged beside the steps; there are '
                'heldout/mlm_loss, heldout/mlm_accuracy, probe/TASK/balanced and their '
                'like.'
            )
        ranges.number(f'report.target: {metric}', value)


def check_run(target, evaluate):
    """Raises ValueError where a run with the section `evaluate` logs no such metric."""
    if target and not evaluate['every']:
        raise ValueError(
            'report.target is read off evaluations beside the steps, but '
            'evaluate.every=0 makes none.'
        )
    for metric in target:
        task = _METRIC.fullmatch(metric)['task']
        if task and not any(task in text for text in evaluate['tasks']):
            raise ValueError(
                f'report.target: {metric} is of the task {task!r}, which is none of '
                f'evaluate.tasks={tuple(evaluate["tasks"])}.'
            )


def reached(log, target):
    """After how many steps, from 1 on, all of a target holds first; None for never.

    >>> log = [{'step': 5, 'heldout/mlm_loss': 4.6}, {'step': 9, 'heldout/mlm_loss': 4.4}]
    >>> reached(log, {'heldout/mlm_loss': 4.5}), reached(log, {'heldout/mlm_loss': 4.0})
    (9, None)
    """
    found = {}
    for row in log:
        known = {metric: row[metric] for metric in target if metric in row}
        found.setdefault(row['step'], {}).update(known)
    for step in sorted(found.keys() - {0}):
        values = found[step]
        if len(values) == len(target) and all(
            _holds(metric, values[metric], wanted) for metric, wanted in target.items()
        ):
            return step
    return None


def section(target, members, logs, spent, arms):
    """A row an arm: by how many seeds it is reached, after how many seconds, steps and
    FLOPs (medians), and what these are of those of the first arm that reaches it.

    `members` {arm: [its members]}, `logs` {member: its metrics}, `spent` {arm: Budget},
    `arms` as arms.by_seed gives them.
    """
    found = {
        arm: np.array([_spent(logs[m], target, spent[arm]) for m in own if logs.get(m)])
        for arm, own in members.items()
    }
    medians = {arm: np.median(x, axis=0) for arm, x in found.items() if len(x)}
    # A seed that never comes to it counts as one that takes for ever.
    base = next((x for x in medians.values() if math.isfinite(x[1])), None)
    rows = [
        _row(arm, found[arm], medians.get(arm), base, arms.get(arm, {})) for arm in found
    ]
    first = next((arm for arm, x in medians.items() if x is base), 'the first')
    columns = ['', 'reached by', 'seconds', 'lowest to highest', f'of {first}']
    columns += ['steps', f'of {first}', 'FLOPs', f'of {first}']
    return {
        'heading': 'Time to target',
        'text': f'Until {said(target)}, at the first evaluation beside the steps that '
        'says so. Medians over seeds, where one that does not come to it counts as '
        'never; seconds are those of the steps, without evaluation, checkpoints and '
        'compiling, on this machine as it was. The last columns are what was measured '
        'in the end, means over seeds.',
        'table': {'columns': [*columns, of_arms.LOSS, of_arms.PROBES], 'rows': rows},
    }


def said(target):
    """A target in words.

    >>> said({'heldout/mlm_loss': 4.5, 'probe/bundled/balanced': 0.8})
    'heldout/mlm_loss ≤ 4.5 and probe/bundled/balanced ≥ 0.8'
    """
    return ' and '.join(
        f'{metric} {"≤" if _is_lower_better(metric) else "≥"} {value:g}'
        for metric, value in target.items()
    )


def _row(arm, found_S3, median, base, seeds):
    if median is None:
        return [arm, None, *[None] * 9]
    count = int(np.isfinite(found_S3[:, 1]).sum())
    row = [arm, f'{count} of {len(found_S3)}']
    for place, text in enumerate(('{:.1f}', '{:,.0f}', '{:.3g}')):
        is_known = math.isfinite(median[place])
        row.append(text.format(median[place]) if is_known else _NEVER)
        if place == 0:
            row.append(_ends(found_S3[:, 0]))
        row.append(f'{median[place] / base[place]:.2f}' if is_known else None)
    for metric in (of_arms.LOSS, of_arms.PROBES):
        values = [one[metric] for one in seeds.values() if metric in one]
        row.append(float(np.mean(values)) if values else None)
    return row


def _ends(seconds_S):
    low, high = (f'{x:.1f}' for x in (seconds_S.min(), seconds_S.max()))
    if not math.isfinite(seconds_S.min()):
        return None
    return f'{low} to {high if math.isfinite(seconds_S.max()) else "never"}'


def _spent(log, target, budget):
    """(seconds, steps, FLOPs) until the target; infinite for never."""
    step = reached(log, target)
    if step is None:
        return math.inf, math.inf, math.inf
    return budgets.seconds(log, step), step, float(budget.flops(step))


def _holds(metric, value, wanted):
    return value <= wanted if _is_lower_better(metric) else value >= wanted


def _is_lower_better(metric):
    return metric.endswith(('_loss', 'bits_per_byte'))
