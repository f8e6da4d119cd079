"""Time to target: how soon runs reach given values of logged metrics.

    config.report = dict(target={'heldout/mlm_loss': 4.5})

A target is {metric logged during training: value}. Losses must fall to the value, all
other metrics must rise to it. The target is reached at the first step at which all of its
metrics were evaluated and hold, so the resolution is `evaluate.every` steps.
"""

import math

import numpy as np

from jepa_text.config import resolve
from jepa_text.study import arms as of_arms
from jepa_text.study import budgets
from jepa_text.training import heldout

_KINDS = ('accuracy', 'balanced')  # of a probe
_NEVER = 'not reached'
_NEVER_SPENT = (math.inf, math.inf, math.inf)  # seconds, steps, FLOPs


def check_run(target, evaluate):
    """Raises ValueError if a run with the section `evaluate` does not log metrics."""
    if target and not evaluate['every']:
        raise ValueError(
            'report.target needs evaluations during training, but evaluate.every=0 '
            'disables them.'
        )


def check_logged(target, recipes):
    """Raises ValueError for a metric that none of the runs with these Recipes logs."""
    scored, probed = {}, {}
    for recipe in recipes:
        scored |= heldout.scorings([phase.network for phase in recipe.phases])
        for evaluation in recipe.evaluations:
            probed |= dict.fromkeys(getattr(evaluation, 'probed', ()))
    known = [f'heldout/{name}_{kind}' for name in scored for kind in ('loss', 'accuracy')]
    known += ['heldout/bits_per_byte'] * ('clm' in scored)
    known += [f'probe/{name}/{kind}' for name in probed for kind in _KINDS]
    for metric in target:
        if metric not in known:
            near = resolve.nearest(metric, known)
            raise ValueError(f'report.target: no run logs {metric!r}.{near}')


def reached(log, target):
    """Returns the first step, from 1 on, at which a target holds; None if it never does.

    >>> log = [{'step': 5, 'heldout/mlm_loss': 4.6}, {'step': 9, 'heldout/mlm_loss': 4.4}]
    >>> reached(log, {'heldout/mlm_loss': 4.5}), reached(log, {'heldout/mlm_loss': 4.0})
    (9, None)
    """
    by_step = {}
    for row in log:
        known = {metric: row[metric] for metric in target if metric in row}
        by_step.setdefault(row['step'], {}).update(known)
    for step in sorted(by_step.keys() - {0}):
        values = by_step[step]
        if len(values) == len(target) and all(
            _holds(metric, values[metric], wanted) for metric, wanted in target.items()
        ):
            return step
    return None


def section(study, arms):
    """Returns a section with one row per arm of a report.Study; None without a target.

    A row has the number of seeds that reach the target; medians of the seconds, steps and
    FLOPs that this takes; and their ratios to those of the first arm that reaches it.
    `arms` are as of arms.by_seed.
    """
    target, members = study.report.get('target'), study.members
    if not target:
        return None
    reached_in = {}
    for arm in dict.fromkeys((*members, *arms)):
        own = members.get(arm, [])
        reached_by = [
            _spent(study.logs[member], target, study.spent[member])
            for member in own
            if study.logs.get(member)
        ]
        # Members without results have not reached it either.
        lost = max(0, len(arms.get(arm, ())) - len(own))
        reached_in[arm] = np.array(reached_by + [_NEVER_SPENT] * lost)
    medians = {arm: np.median(x, axis=0) for arm, x in reached_in.items() if len(x)}
    # A seed that never reaches the target counts as infinitely slow.
    base = next((x for x in medians.values() if math.isfinite(x[1])), None)
    rows = [
        _row(arm, reached_in[arm], medians.get(arm), base, arms.get(arm, {}))
        for arm in reached_in
    ]
    first = next((arm for arm, x in medians.items() if x is base), 'the first')
    columns = ['', 'reached by', 'seconds', 'lowest to highest', f'of {first}']
    columns += ['steps', f'of {first}', 'FLOPs', f'of {first}']
    return {
        'heading': 'Time to target',
        'text': f'Until {describe(target)}, at the first evaluation during training '
        'where this holds. Medians over seeds; a seed that does not reach the target '
        'counts as never. Seconds are those of the training steps, without evaluation, '
        'checkpoints and compilation, on this machine under its load at the time. The '
        'last columns are final results, means over seeds.',
        'table': {'columns': [*columns, of_arms.LOSS, of_arms.PROBES], 'rows': rows},
    }


def describe(target):
    """Returns a target as text.

    >>> describe({'heldout/mlm_loss': 4.5, 'probe/bundled/balanced': 0.8})
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
        value = median[place]
        # Seconds are unknown if all logged steps compiled.
        shown = None if math.isnan(value) else text.format(value)
        row.append(_NEVER if value == math.inf else shown)
        if place == 0:
            row.append(_ends(found_S3[:, 0]))
        ratio = value / base[place] if math.isfinite(value) else math.nan
        row.append(None if math.isnan(ratio) else f'{ratio:.2f}')
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
    """Returns (seconds, steps, FLOPs) until the target; infinite if never reached."""
    step = reached(log, target)
    if step is None:
        return _NEVER_SPENT
    return budgets.seconds(log, step), step, float(budget.flops(step))


def _holds(metric, value, wanted):
    return value <= wanted if _is_lower_better(metric) else value >= wanted


def _is_lower_better(metric):
    return metric.endswith(('_loss', 'bits_per_byte'))
