"""Units of a corpus shared among machines, by Apache Beam: prepare.engine='beam'.

    numbers of units --Beam--> workers --> shards in the folder, which all must see

A worker does what a process of this machine would (data/preparing/processes.py), so the
bytes are the same. This file alone imports Beam.
"""

import json

import apache_beam
from apache_beam.options import pipeline_options

from jepa_text.data.preparing import processes
from jepa_text.data.preparing import work as works
from jepa_text.files import atomic

FAILED = 'failed-{}.json'


class Do(apache_beam.DoFn):
    """Does a task of processes.TASKS for a unit."""

    def __init__(self, folder, task):
        self._folder, self._task = str(folder), task

    def setup(self):
        self._work = works.begin(self._folder)

    def process(self, number):
        try:
            processes.TASKS[self._task](self._work, number)
        except ValueError as error:
            # Bad text stays bad: Beam would try again.
            path = self._work.folder / FAILED.format(number)
            atomic.write(path, json.dumps(processes.told(error)))
        return []


def run(work, task, numbers, flags):
    """Has a task done for the units of these numbers. `flags` are those of a pipeline,
    such as '--runner=FlinkRunner'; without, it is Beam's runner on this machine.

    Raises ValueError as the first unit does that has bad text, and what Beam raises.
    """
    for path in work.folder.glob(FAILED.format('*')):
        path.unlink()
    options = pipeline_options.PipelineOptions(list(flags))
    with apache_beam.Pipeline(options=options) as pipeline:
        (
            pipeline
            | apache_beam.Create(list(numbers))
            | apache_beam.Reshuffle()
            | apache_beam.ParDo(Do(work.folder, task))
        )
    failed = sorted(work.folder.glob(FAILED.format('*')))
    if failed:
        raise processes.error_of(json.loads(failed[0].read_text(encoding='utf-8')))
