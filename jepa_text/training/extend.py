"""Extends a run: its last phase gets more steps, and its learning rate continues.

The learning rate rises linearly from its last value to that of a run of the new length,
and then follows the schedule of that run. After a decay this is re-warming and
re-decaying (arXiv 2403.08763). Schedules of the last phase's objective, such as that of
the EMA momentum, stretch with the phase. The run equals one that had the new length from
the start only if no schedule had other values until then; messages say which had.
config.json records the extension:

    extended = [{'at': step, 'steps': of the run before, 'schedule': ..., 'rise': steps}]
"""

import jax
import numpy as np

from jepa_text.config import ranges, resolve
from jepa_text.optim import schedules
from jepa_text.running import budget

# Keys that may change in an extended run, besides the length of its last phase.
MAY_CHANGE = ('steps', 'tokens', 'schedule', 'extended')
RISE = 0.01  # length of the rise if the schedule has no warm-up, of the steps to come
_TOLERANCE = 0.01  # for equal learning rates, of the higher one


def lengthened(sections, first_total):
    """Returns sections of phases with the steps that they had in a run of `first_total`
    steps; the last phase takes the rest, and its new warm-up keeps its steps."""
    try:
        found = budget.spans(sections, first_total)
    except ValueError:  # their own steps add up to the new length
        *before, last = sections
        steps = first_total - sum(section.get('steps', 0) for section in before)
        return [*before, _with_rewarm_in_steps(last, steps)]
    fixed = [
        {k: v for k, v in section.items() if k != 'share'} | {'steps': stop - start}
        for section, (start, stop) in zip(sections[:-1], found)
    ]
    last = {k: v for k, v in sections[-1].items() if k not in ('share', 'steps')}
    return [*fixed, _with_rewarm_in_steps(last, found[-1][1] - found[-1][0])]


def _with_rewarm_in_steps(section, steps):
    """Returns the section of a phase of so many steps. A share of more steps would let
    the learning rate fall back into the new warm-up."""
    at_switch = section.get('at_switch') or {}
    if not at_switch.get('rewarm'):
        return section
    rewarm = ranges.in_steps(at_switch['rewarm'], steps)
    return section | {'at_switch': at_switch | {'rewarm': rewarm}}


def rise(schedule, steps_left):
    """Returns the steps in which the learning rate rises to a new schedule.

    They are the steps of its warm-up, or the fraction RISE of the steps left.
    """
    warmup = schedule.get('warmup', 0) if isinstance(schedule, dict) else 0
    rising = ranges.in_steps(warmup or RISE, steps_left)
    return max(1, min(rising, steps_left // 2))


def stretched(history, phase, tokenizer):
    """Returns {name: (value of the last step, of the next)} of the objective's schedules
    that an extension changes, because they span the last phase; `phase` is that phase."""
    found, now = {}, phase.objective.schedules()
    for entry in history:
        done = entry['at'] - phase.start
        if done <= 0:
            continue
        objective = resolve.build(
            'objectives',
            phase.section['objective'],
            tokenizer=tokenizer,
            length=phase.length,
            steps=entry['steps'] - phase.start,
        )
        for name, old in objective.schedules().items():
            if _differ(old, now[name], done):
                found[name] = float(old(done - 1)), float(now[name](done))
    return found


def _differ(old, new, steps):
    """Returns whether two schedules differ in any of the first steps."""
    return not np.allclose(*(jax.vmap(x)(np.arange(steps)) for x in (old, new)))


def lines(history, schedule, total, name, stretched):
    """Returns messages about the newest extension; empty for a run without extensions.

    `name` is that of the last phase, `total` the number of steps of the extended run, and
    `stretched` what the function of this name returns.
    """
    if not history:
        return []
    newest = history[-1]
    at, rising = newest['at'], newest['rise']
    old = schedules.for_run(newest['schedule'], newest['steps'], history[:-1])
    new = schedules.make(schedule, total)
    # The rate of the last step so far, and that of a run that always had the new length.
    last_rate, target_rate = float(old(max(at - 1, 0))), float(new(at))
    found = [
        f'extended from {newest["steps"]:,} to {total:,} steps, at step {at:,}: the last '
        f'phase ({name}) becomes longer.'
    ]
    if abs(last_rate - target_rate) <= _TOLERANCE * max(abs(last_rate), abs(target_rate)):
        found.append(f'The learning rate continues at {last_rate:.3g}.')
    else:
        found.append(
            f'The learning rate was {last_rate:.3g}. A run of {total:,} steps has '
            f'{target_rate:.3g} at this step, so the rate goes there in {rising:,} '
            f'step{"s" * (rising > 1)}, and then follows that schedule.'
        )
    found += [
        f'The {what} was {before:.4g} and continues at {after:.4g}, as its schedule '
        'spans the longer phase.'
        for what, (before, after) in stretched.items()
    ]
    changed = ['learning rate'] * _differ(old, new, at) + [*stretched]
    if changed:
        found.append(
            'The result differs from that of a run of this length from the start: its '
            f'{" and ".join(changed)} had other values in the steps so far.'
        )
    return found
