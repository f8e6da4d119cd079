"""Tasks from files whose kind is inferred from the usual field names.

For other field names choose the kind and name its fields, e.g. dict(name='labeled',
path='mine.csv', text='review', label='stars').
"""

import itertools
from pathlib import Path

from jepa_text.config import resolve
from jepa_text.data.corpora import row_groups
from jepa_text.data.sets import hub, prepared, tables
from jepa_text.evaluation.tasks import tags

# A kind fits if a file has one field of each tuple; the first kind that fits is used.
FIELDS = (
    ('tags', (tags.WORDS, tags.TAGS)),
    ('spans', (('question',), ('context',), ('answers',))),
    ('spans', (('paragraphs',),)),
    ('spans', (('passage',), ('qas',))),
    ('query_pairs', (('query',), ('document',))),
    ('pairs', (('text_a',), ('text_b',), ('score',))),
    ('cloze', (('text',), ('answer',))),
    ('labeled', (('text',), ('label',))),
    ('scored', (('text',), ('score',))),
)


def make(path, title='', seed=0):
    """Makes the task of a file, folder or name on the hub.

    `title` and `seed` are as in labeled.py. Raises ValueError, which lists the fields, if
    no kind fits.
    """
    section = {'name': kind_of(path), 'path': path, 'title': title, 'seed': seed}
    return resolve.build('evaluation/tasks', section)


def kind_of(path):
    """Returns the name of the module of this folder that reads a set."""
    is_folder = not hub.is_name(path) and Path(path).is_dir()
    if is_folder and list(Path(path).glob('corpus.*')):
        return 'ranking'
    if str(path).startswith(prepared.TFDS):
        file, row = path, next(iter(tables.splits(path).train), {})
    else:
        files, _ = tables.files(path)
        file = next(itertools.chain.from_iterable(files.values()), None)
        if file is None:
            raise FileNotFoundError(f'{path} has no files in a supported format.')
        if file.name.endswith(tables.COLUMNS):
            return 'texts' if file.name.endswith(('.txt', '.txt.gz')) else 'tags'
        row = _first_row(file)
    if not row:
        raise ValueError(f'{file} has no rows.')
    for kind, fields in FIELDS:
        if all(any(name in row for name in names) for names in fields):
            return kind
    kinds = '; '.join(
        f'{kind}: {", ".join(names[0] for names in fields)}' for kind, fields in FIELDS
    )
    raise ValueError(
        f'{file} has the fields {", ".join(map(str, row))}, which match no kind of task '
        f'({kinds}). Choose the kind and name its fields, e.g. '
        "dict(name='labeled', path='...', text='...', label='...')."
    )


def _first_row(file):
    """Returns the first row of a file, or {}."""
    read = row_groups.rows if file.name.endswith('.parquet') else tables.read
    return next(iter(read(file)), {})
