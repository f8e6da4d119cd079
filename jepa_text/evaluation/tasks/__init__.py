"""One task per file: make(**section) -> task.Task.

`name` in the section chooses the file, or a task of glue.py; the rest is what `make`
takes, mostly `path`: a folder or file that is on this machine already;
jepa_text/data/tables.py says which are read.
"""

from jepa_text.config import resolve
from jepa_text.evaluation.tasks import glue

FOLDER = 'evaluation/tasks'


def build(section):
    """The Task of a section; {'name': 'sst2'} is {'name': 'glue', 'task': 'sst2'}."""
    name, files = section.get('name'), resolve.names(FOLDER)
    if name in glue.TASKS:
        section = {**section, 'name': 'glue', 'task': name}
    elif isinstance(name, str) and '.' not in name and name not in files:
        raise ValueError(
            f'{FOLDER} has no {name!r}.{resolve.nearest(name, [*files, *glue.TASKS])}'
        )
    return resolve.build(FOLDER, section)
