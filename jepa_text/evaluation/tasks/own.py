"""A set of one's own with fields of the usual names: the kind of task is told by these.

For other names, choose the kind and name its fields, as in
dict(name='labeled', path='mine.csv', text='review', label='stars').
"""

from pathlib import Path

from jepa_text.config import resolve
from jepa_text.data.corpora import row_groups
from jepa_text.data.sets import hub, tables
from jepa_text.evaluation.tasks import tags

# A file has a field of each of these; the first kind that fits is taken.
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
    """The task of a file, folder or name on the hub; `title` and `seed` as in labeled.py.

    Raises ValueError, with the fields that are there, where no kind fits.
    """
    section = {'name': kind_of(path), 'path': path, 'title': title, 'seed': seed}
    return resolve.build('evaluation/tasks', section)


def kind_of(path):
    """The name of the file of this folder that reads a set."""
    is_folder = not hub.is_name(path) and Path(path).is_dir()
    if is_folder and list(Path(path).glob('corpus.*')):
        return 'ranking'
    files, _ = tables.files(path)
    file = next((file for some in files.values() for file in some), None)
    if file is None:
        raise FileNotFoundError(f'{path} has no files that can be read.')
    if file.name.endswith(tables.COLUMNS):
        return 'texts' if file.name.endswith(('.txt', '.txt.gz')) else 'tags'
    row = _first(file)
    if not row:
        raise ValueError(f'{file} has no row.')
    for kind, fields in FIELDS:
        if all(any(name in row for name in names) for names in fields):
            return kind
    kinds = '; '.join(
        f'{kind}: {", ".join(names[0] for names in fields)}' for kind, fields in FIELDS
    )
    raise ValueError(
        f'{file} has the fields {", ".join(map(str, row))}, which are those of no kind '
        f'of task ({kinds}). Choose the kind and name its fields, as in '
        "dict(name='labeled', path='...', text='...', label='...')."
    )


def _first(file):
    """The first row of a file, {} if there is none."""
    if file.name.endswith('.parquet'):
        return next(iter(row_groups.rows(file)), {})
    return next(iter(tables.read(file)), {})
