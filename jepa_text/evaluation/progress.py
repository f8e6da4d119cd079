"""The plan of an evaluation (`--dry-run`) and its progress bar.

For example:

    planned = [Planned('runs/a', 'trec', members=30, steps=135)]
    show_plan(planned)
    with MemberProgress(planned) as progress:
        examination.run(members, report=progress.group('runs/a', 'trec', steps))
        progress.done('runs/a', 'trec', len(members), 'trec  runs/a  accuracy 0.95')
"""

import time
from typing import NamedTuple

from jepa_text.report import console
from jepa_text.running import compilation


class Planned(NamedTuple):
    """The planned members of a model on a task: their number, training steps per member,
    and how many are finished."""

    model: str
    task: str
    members: int
    steps: int
    done: int = 0


def show_plan(planned):
    """Prints what remains to be trained."""
    columns = ['model', 'task', 'members', 'steps each', 'done']
    console.table('Training plan', columns, [list(entry) for entry in planned])
    members = sum(entry.members - entry.done for entry in planned)
    steps = sum((entry.members - entry.done) * entry.steps for entry in planned)
    print(f'{members:,} members remain to be trained, {steps:,} steps in total.')


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
