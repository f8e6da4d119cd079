"""What an examination will take (`--dry-run`), and how far it is.

planned = [Planned('runs/a', 'trec', members=30, steps=135, flops=2e13)]
show_plan(planned, hardware='h100:8')
with Telling(planned) as telling:
    examination.run(members, tell=telling.group('runs/a', 'trec'))
    telling.done('runs/a', 'trec', len(members), 'trec  runs/a  accuracy 0.95')
"""

import math
import time
from typing import NamedTuple

from jepa_text.cost import hardware as chips
from jepa_text.report import console


class Planned(NamedTuple):
    """A model on a task: `members`, of which `done` are there; of one member, `steps` and
    `flops`, of training and of measuring (NaN: not known); `once`, FLOPs of what is done
    once for all of them."""

    model: str
    task: str
    members: int
    steps: int
    flops: float = math.nan
    done: int = 0
    once: float = 0.0

    @property
    def left(self):
        """FLOPs of the members that are not there."""
        members = self.members - self.done
        return members * self.flops + self.once if members else 0.0


def plan(planned, hardware='', rate=None):
    """(columns, rows, sentence) of what is left to do.

    hours = FLOPs left / FLOP/s, where FLOP/s is `rate`, as measured, or
    that of `hardware` ('h100:8', cost/hardware.py): peak x the share that its training is
    assumed to reach x chips. Without both there are no hours. Small models take longer:
    they wait for memory, and for what starts each step.
    """
    if hardware and rate is None:
        chip, count = chips.find(hardware)
        rate = chip.peak * chip.mfu * count
    columns = ['model', 'task', 'members', 'there', 'steps each', 'FLOPs left']
    columns += ['hours'] if rate else []
    rows = []
    for one in planned:
        said = _short(one.left)
        row = [one.model, one.task, one.members, one.done, one.steps, said]
        rows.append(row + ([_hours(one.left / rate)] if rate else []))
    members = sum(one.members - one.done for one in planned)
    steps = sum((one.members - one.done) * one.steps for one in planned)
    flops = sum(one.left for one in planned)
    said = f'{members:,} members are left to be trained, {steps:,} steps in all'
    if math.isfinite(flops):
        said += f', {_short(flops)} FLOPs'
        if rate:
            where = f' on {hardware}, if all of it is at hand' if hardware else ''
            said += f': about {_hours(flops / rate)} h{where}'
    return columns, rows, f'{said}.'


def show_plan(planned, hardware='', rate=None, stream=None):
    """Prints `plan`."""
    columns, rows, sentence = plan(planned, hardware, rate)
    console.table('What would be trained', columns, rows, stream)
    print(sentence, file=stream)


class Telling:
    """A progress bar over the steps of all members, with the time that is left; a context
    manager. What was there before is counted as done, and not as time."""

    def __init__(self, planned, stream=None, now=time.monotonic):
        self._steps = {(one.model, one.task): one.steps for one in planned}
        self._members = sum(one.members for one in planned)
        self._there = sum(one.done for one in planned)
        self._done = sum(one.done * one.steps for one in planned)
        total = sum(one.members * one.steps for one in planned)
        self._progress = console.Progress('examination', total, self._done, stream, now)

    def group(self, model, task):
        """`tell(steps)` for members of one model and task that are trained together."""

        def tell(steps):
            self._show(self._done + steps, f'{task}  {model}')

        tell(0)
        return tell

    def done(self, model, task, members=1, line=''):
        """So many members have ended, here or at another worker; `line` is printed."""
        if line:
            self._progress.log(line)
        self._there += members
        self._done += members * self._steps[model, task]
        self._show(self._done, f'{task}  {model}')

    def _show(self, steps, what):
        there = f'{self._there:,} of {self._members:,} members'
        self._progress.update(steps, description=f'{what}  {there}')

    def __enter__(self):
        self._progress.__enter__()
        return self

    def __exit__(self, *error):
        self._progress.__exit__(*error)


def _short(number):
    """'1.2e+15'; None of what is not known."""
    return None if math.isnan(number) else f'{number:.2g}'


def _hours(seconds):
    if math.isnan(seconds):
        return None
    hours = seconds / 3600
    return f'{hours:.1f}' if hours >= 0.1 else f'{hours:.2g}'
