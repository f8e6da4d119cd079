"""Task builders, one per file: make(**section) -> task.Task or retrieval.Retrieval.

`name` in the section selects the file, or a named task in the file's TASKS, and `title`
the name in tables (default: that of the named task, or of the file). The remaining fields
are the arguments of `make`, mostly `path`: a local folder or file, or
'hub:NAME/CONFIG@REVISION'. jepa_text/data/sets/tables.py lists the supported formats.
"""

import dataclasses
import itertools
from pathlib import Path

from jepa_text.data.sets import hub, prepared, tables
from jepa_text.evaluation.sets import retrieval, task
from jepa_text.evaluation.tasks import glue, ranking, spans, tags
from jepa_text.settings import ranges, resolve

FOLDER = 'evaluation/tasks'
# Tasks whose `make` is told that there is no training, so that it splits nothing.
ZERO_SHOT = ('own', 'labeled', 'glue', 'query_pairs')
NAMED = {
    'glue': glue.TASKS,
    'tags': tags.TASKS,
    'spans': spans.TASKS,
    'ranking': ranking.TASKS,
}


def section_of(text):
    """Parses a task of a command line: NAME@PATH, NAME, or the file or folder of a set.

    The kind of a file or folder is inferred by own.py.

    >>> section_of('sst2@GLUE/SST-2'), section_of('mine.jsonl')
    ({'name': 'sst2', 'path': 'GLUE/SST-2'}, {'name': 'own', 'path': 'mine.jsonl'})
    """
    name, _, path = text.partition('@')
    # In a path or a name on the hub, an @ is part of it.
    is_path = '/' in name or name.startswith((hub.PREFIX, prepared.TFDS))
    is_there = name not in _names() and Path(text).exists()
    is_table = not path and name.lower().endswith(tables.READ)
    if is_path or is_there or is_table:
        return {'name': 'own', 'path': text}
    if name == 'sentences':
        return {'name': name, 'made': path}
    return {'name': name, 'path': path} if path else {'name': name}


def _names():
    return [*resolve.names(FOLDER), *itertools.chain(*NAMED.values())]


def build(section, zero_shot=False):
    """Builds the task of a section; `zero_shot` says that it needs no training set.

    {'name': 'sst2'} is short for {'name': 'glue', 'task': 'sst2'}.
    """
    name, title = section.get('name'), section.get('title')
    section = {key: value for key, value in section.items() if key != 'title'}
    file = next((file for file, known in NAMED.items() if name in known), None)
    if file is not None:
        section = {**section, 'name': file, 'task': name}
    elif isinstance(name, str) and '.' not in name and name not in resolve.names(FOLDER):
        raise ValueError(f'{FOLDER} has no {name!r}.{resolve.nearest(name, _names())}')
    if 'seed' in section:
        ranges.number(f'{name}: seed', section['seed'], whole=True, minimum=0)
    given = {'zero_shot': zero_shot} if section.get('name') in ZERO_SHOT else {}
    built = resolve.build(FOLDER, section, **given)
    if not isinstance(built, task.Task | retrieval.Retrieval):
        kind = type(built).__name__
        resolve.reject_user_code(
            section['name'], f'make returned {kind}, no Task or Retrieval.'
        )
    return dataclasses.replace(built, name=str(title)) if title else built
