"""Preparation of units on several machines with Apache Beam: prepare.engine='beam'.

    numbers of units --Beam--> workers --> shards in the folder, which all must share

A worker does what a local process does (data/preparing/processes.py), so the output is
the same. Only this module imports Beam.
"""

import json

import apache_beam
from apache_beam.options import pipeline_options

from jepa_text.data.preparing import processes
from jepa_text.data.preparing import work as works
from jepa_text.files import atomic

FAILED = 'failed-{:06d}.json'


class Do(apache_beam.DoFn):
    """Runs a task of processes.TASKS on a unit."""

    def __init__(self, folder, task):
        self._folder, self._task = str(folder), task

    def setup(self):
        self._work = works.load(self._folder)

    def process(self, number):
        try:
            processes.TASKS[self._task](self._work, number)
        except ValueError as error:
            # Stored, not raised: Beam would retry, and invalid text stays invalid.
            path = self._work.folder / FAILED.format(number)
            atomic.write(path, json.dumps(processes.error_to_dict(error)))
        return []


def run(work, task, numbers, flags):
    """Runs a task on the units of these numbers. `flags` are those of a Beam pipeline,
    such as '--runner=FlinkRunner'; by default it runs on this machine.

    Raises the ValueError of the first unit with invalid text, and what Beam raises.
    """
    _taken(work.folder)  # of an earlier run that was killed
    options = pipeline_options.PipelineOptions(list(flags))
    try:
        with apache_beam.Pipeline(options=options) as pipeline:
            (
                pipeline
                | apache_beam.Create(list(numbers))
                | apache_beam.Reshuffle()
                | apache_beam.ParDo(Do(work.folder, task))
            )
    finally:
        errors = _taken(work.folder)
    if errors:
        raise errors[0]


def _taken(folder):
    """Returns the stored errors by number of their unit, and deletes them."""
    paths = sorted(folder.glob('failed-*.json'))
    found = [json.loads(path.read_text(encoding='utf-8')) for path in paths]
    for path in paths:
        path.unlink()
    return [processes.error_from_dict(error) for error in found]
