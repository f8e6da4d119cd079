"""The plan of an evaluation (`--dry-run`) and its progress bar.

For example:

    planned = [Planned('runs/a', 'trec', members=30, steps=135, flops=2e13)]
    show_plan(planned, hardware='h100:8')
    with MemberProgress(planned) as progress:
        examination.run(members, report=progress.group('runs/a', 'trec', steps))
        progress.done('runs/a', 'trec', len(members), 'trec  runs/a  accuracy 0.95')
"""

import math
import time
from typing import NamedTuple

from jepa_text.cost import hardware as chips
from jepa_text.report import console
from jepa_text.running import compilation


class Planned(NamedTuple):
    """The planned members of a model on a task.

    members    number of members, of which `done` are finished
    steps      training steps per member
    flops      FLOPs of training and measuring one member; NaN: unknown
    shared     FLOPs that are spent once for all members
    """

    model: str
    task: str
    members: int
    steps: int
    flops: float = math.nan
    done: int = 0
    shared: float = 0.0

    @property
    def left(self):
        """FLOPs of the members that are not finished."""
        members = self.members - self.done
        return members * self.flops + self.shared if members else 0.0


def plan(planned, hardware=''):
    """Returns (columns, rows, sentence) that describe the remaining work.

    hours = remaining FLOPs / FLOP/s, where FLOP/s is that of `hardware` ('h100:8',
    cost/hardware.py): peak x assumed utilization x chips. Without it, hours are left out.
    Small models take longer, as they are limited by memory bandwidth and by the overhead
    of each step.
    """
    rate = None
    if hardware:
        chip, count = chips.find(hardware)
        rate = chip.peak * chip.mfu * count
    columns = ['model', 'task', 'members', 'done', 'steps each', 'FLOPs left']
    columns += ['hours'] if rate else []
    rows = []
    for entry in planned:
        flops = _short(entry.left)
        row = [entry.model, entry.task, entry.members, entry.done, entry.steps, flops]
        rows.append(row + ([_hours(entry.left / rate)] if rate else []))
    members = sum(entry.members - entry.done for entry in planned)
    steps = sum((entry.members - entry.done) * entry.steps for entry in planned)
    flops = sum(entry.left for entry in planned)
    sentence = f'{members:,} members remain to be trained, {steps:,} steps in total'
    if math.isfinite(flops):
        sentence += f', {_short(flops)} FLOPs'
        if rate:
            hours = _hours(flops / rate)
            sentence += f': about {hours} h on {hardware}, if all chips are used'
    return columns, rows, f'{sentence}.'


def show_plan(planned, hardware=''):
    """Prints the `plan`."""
    columns, rows, sentence = plan(planned, hardware)
    console.table('Training plan', columns, rows)
    print(sentence)


class MemberProgress:
    """A progress bar over the steps of all members, with an estimate of the time left.

    A context manager. Members that were finished before count as done, but not as time
    spent; nor does compiling.
    """

    def __init__(self, planned, stream=None, now=time.monotonic):
        self._planned = {(entry.model, entry.task): entry for entry in planned}
        self._started = set()  # groups of which a step is finished
        total, done = self._total('members'), self._total('done')
        self._shown = compilation.progress('evaluation', total, done, stream, now)

    def group(self, model, task, each):
        """Returns `report(steps)` for members of one model and task trained together.

        They take `each` steps, perhaps more than planned: long contexts have several
        rows.
        """
        self._replace(model, task, steps=each)

        def report(steps):
            if steps:
                self._started.add((model, task))
            self._show(model, task, steps)

        report(0)
        if not self._started:
            self._progress.begin()
        return report

    def done(self, model, task, members=1, line=''):
        """Counts members as finished, and prints `line`."""
        if line:
            self._progress.log(line)
        self._replace(model, task, done=self._planned[model, task].done + members)
        self._show(model, task)

    def _replace(self, model, task, **values):
        entry = self._planned[model, task]._replace(**values)
        self._planned[model, task] = entry
        self._progress.total = self._total('members')

    def _total(self, field):
        return sum(
            getattr(entry, field) * entry.steps for entry in self._planned.values()
        )

    def _show(self, model, task, steps=0):
        done, members = (
            sum(getattr(entry, field) for entry in self._planned.values())
            for field in ('done', 'members')
        )
        compiles = '' if (model, task) in self._started else '  compiling'
        label = f'{task}  {model}  {done:,} of {members:,} members{compiles}'
        self._progress.update(self._total('done') + steps, description=label)

    def __enter__(self):
        self._progress = self._shown.__enter__()
        return self

    def __exit__(self, *error):
        self._shown.__exit__(*error)


def _short(number):
    """Formats a number like '1.2e+15'; None if it is unknown."""
    return None if math.isnan(number) else f'{number:.2g}'


def _hours(seconds):
    if math.isnan(seconds):
        return None
    hours = seconds / 3600
    return f'{hours:.1f}' if hours >= 0.1 else f'{hours:.2g}'
