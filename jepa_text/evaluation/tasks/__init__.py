"""One kind of task per file: make(**section) -> task.Task or retrieval.Retrieval.

`name` in the section chooses the file, or one of the named tasks that a file has in its
TASKS; the rest is what `make` takes, mostly `path`: a folder or file on this machine, or
'hub:NAME/CONFIG@REVISION'; jepa_text/data/sets/tables.py says which are read.
"""

from pathlib import Path

from jepa_text.config import resolve
from jepa_text.data.sets import tables
from jepa_text.evaluation.tasks import glue, ranking, spans, tags

FOLDER = 'evaluation/tasks'
NAMED = {'glue': glue.TASKS, 'tags': tags.TASKS}
NAMED |= {'spans': spans.TASKS, 'ranking': ranking.TASKS}


def section_of(text):
    """The section of a task on a command line: NAME@PATH, NAME, or a file or folder of
    one's own, of which own.py tells the kind.

    >>> section_of('sst2@GLUE/SST-2'), section_of('mine.jsonl')
    ({'name': 'sst2', 'path': 'GLUE/SST-2'}, {'name': 'own', 'path': 'mine.jsonl'})
    """
    name, _, path = text.partition('@')
    if not path and (name.endswith(tables.READ) or _is_place(name)):
        return {'name': 'own', 'path': name}
    if name == 'sentences':
        return {'name': name, 'made': path}
    return {'name': name, 'path': path} if path else {'name': name}


def _is_place(name):
    """Is it a path, and no name of a task? So what is not there is told as a path."""
    known = [
        *resolve.names(FOLDER),
        *(name for named in NAMED.values() for name in named),
    ]
    return '/' in name or (name not in known and Path(name).is_dir())


def build(section):
    """The task of a section; {'name': 'sst2'} is {'name': 'glue', 'task': 'sst2'}."""
    name, files = section.get('name'), resolve.names(FOLDER)
    file = next((file for file, known in NAMED.items() if name in known), None)
    if file is not None:
        section = {**section, 'name': file, 'task': name}
    elif isinstance(name, str) and '.' not in name and name not in files:
        known = [*files, *(name for named in NAMED.values() for name in named)]
        raise ValueError(f'{FOLDER} has no {name!r}.{resolve.nearest(name, known)}')
    return resolve.build(FOLDER, section)
