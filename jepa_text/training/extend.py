"""A run gets more steps: its last phase becomes longer, its learning rate goes on.

The rate rises, in a straight line, from where it stood to what a run of so many steps
has there, and ends as that does. Where both are equal, as in the middle of a stable
phase, the run is as if it had had that length from the start. After a decay this is
re-warming and decaying again (arXiv 2403.08763). config.json keeps what was before:

    extended = [{'at': step, 'steps': of the run before, 'schedule': ..., 'rise': steps}]
"""

from jepa_text.config import ranges
from jepa_text.optim import schedules
from jepa_text.training import phases

# What may differ in a run that gets more steps, beside the length of its last phase.
MAY_CHANGE = ('steps', 'tokens', 'schedule', 'extended')
SHARE = 0.01  # of the steps to come: the rise, where the schedule has no warm-up
_ALIKE = 0.01  # of the higher rate


def lengthened(sections, first):
    """Sections of phases with the steps they had in a run of `first`; the last takes
    the rest."""
    try:
        found = phases.spans(sections, first)
    except ValueError:  # their own steps add up to the new length
        return sections
    fixed = [
        {k: v for k, v in section.items() if k != 'share'} | {'steps': stop - start}
        for section, (start, stop) in zip(sections[:-1], found)
    ]
    last = {k: v for k, v in sections[-1].items() if k not in ('share', 'steps')}
    return [*fixed, last]


def rise(schedule, left):
    """Steps in which the rate goes to a new schedule: its warm-up, or SHARE."""
    warmup = schedule.get('warmup', 0) if isinstance(schedule, dict) else 0
    return max(1, min(ranges.in_steps(warmup or SHARE, left), left // 2))


def lines(past, schedule, total, name):
    """What the newest extension means, in sentences; none of a run that had none.

    `name` is that of its last phase, `total` its steps now.
    """
    if not past:
        return []
    was = past[-1]
    at, risen = was['at'], was['rise']
    old = schedules.of_run(was['schedule'], was['steps'], past[:-1])
    # The rate of the step that was the last, and those of a run that was always as long.
    stood, there = float(old(max(at - 1, 0))), schedules.make(schedule, total)
    said = [
        f'extended from {was["steps"]:,} to {total:,} steps, at step {at:,}: the last '
        f'phase ({name}) becomes longer.'
    ]
    if _alike(stood, float(there(at))):
        said.append(f'The learning rate goes on at {stood:.3g}.')
    else:
        said.append(
            f'The learning rate stood at {stood:.3g}. A run of {total:,} steps has '
            f'{float(there(at)):.3g} there, so it goes to that in {risen:,} '
            f'step{"s" * (risen > 1)}, and on '
            'as that. This is not the same as a run of that length from the start.'
        )
    return said


def _alike(a, b):
    return abs(a - b) <= _ALIKE * max(abs(a), abs(b))
