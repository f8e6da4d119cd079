"""Tasks from files whose kind is inferred from the usual field names.

For other field names choose the kind and name its fields, e.g. dict(name='labeled',
path='mine.csv', text='review', label='stars').
"""

from pathlib import Path

from jepa_text.data.sets import hub, prepared, tables
from jepa_text.evaluation import tasks
from jepa_text.evaluation.tasks import tags
from jepa_text.files import paths

TEXT = ('text', 'sentence')
_PAIRS = (
    (('text_a',), ('text_b',)),
    (('sentence1',), ('sentence2',)),
    (('premise',), ('hypothesis',)),
    (('question1',), ('question2',)),
    (('question',), ('sentence',)),
    (('text',), ('text_pair',)),
)
LABEL, SCORE = ('label', 'target', 'is_duplicate'), ('score',)
# (kind, tuples of names of which a row has one each, the keywords of these fields if the
# names vary); the first kind that fits is used.
FIELDS = (
    ('tags', (tags.WORDS, tags.TAGS), ()),
    ('spans', (('question',), ('context',), ('answers',)), ()),
    ('query_pairs', (('query',), ('document',)), ()),
    *(
        ('labeled', (*pair, (*SCORE, *LABEL)), ('text', 'second', 'label'))
        for pair in _PAIRS
    ),
    ('cloze', (('text',), ('answer',)), ()),
    ('labeled', (TEXT, (*LABEL, *SCORE)), ('text', 'label')),
    ('spans', (('paragraphs',),), ()),
)


def make(path, seed=0, zero_shot=False):
    """Makes the task of a file, folder or name on the hub.

    The other arguments are as in labeled.py. Says which fields with texts are not read.
    Raises ValueError, which lists the fields, if no kind fits.
    """
    name, fields = _found(path)
    section = {'name': name, 'path': path, **fields}
    if name != 'cloze':  # never split
        section['seed'] = seed
    if name == 'labeled':
        section['kind'] = 'scores' if fields['label'] in SCORE else ''
    return tasks.build(section, zero_shot)


def _say_unread(file, row, chosen):
    unread = [
        str(name)
        for name, value in row.items()
        if name not in chosen and isinstance(value, str) and ' ' in value.strip()
    ]
    if unread:
        print(
            f'{file}: the texts of {", ".join(unread)} are not read, only '
            f'{", ".join(chosen)}. To read others, name them, as in dict(name='
            "'labeled', path='...', text='...', second='...', label='...')."
        )


def _found(path):
    """Returns (name of the module of this folder that reads a set, its fields)."""
    if str(path).startswith(prepared.TFDS):
        file, row = path, next(iter(tables.splits(path).train), {})
    else:
        place = '' if hub.is_name(path) else paths.local('The path of the set', path)
        if place and list(Path(place).glob('corpus.*')):
            return 'ranking', {}
        files, _ = tables.files(path)
        usual = (*tables.TRAIN, *tables.VALIDATION, *tables.TEST)
        words = [word for word in usual if word in files] or files
        file = next((file for word in words for file in files[word]), None)
        if file is None:
            raise FileNotFoundError(f'{path} has no files in a supported format.')
        if file.name.lower().endswith(tables.COLUMNS):
            return 'texts' if tables.kind_of(file) == 'txt' else 'tags', {}
        row = next(tables.rows(file), {})
    if not row:
        raise ValueError(f'{file} has no rows.')
    for kind, fields, keywords in FIELDS:
        chosen = [next((name for name in names if name in row), None) for names in fields]
        if None not in chosen:
            if kind == 'labeled':
                _say_unread(file, row, chosen)
            return kind, dict(zip(keywords, chosen))
    kinds = '; '.join(
        f'{kind}: {", ".join("|".join(names) for names in fields)}'
        for kind, fields, _ in FIELDS
    )
    text = max(row, key=lambda name: len(str(row[name])))
    label = next((name for name in reversed(row) if name != text), '...')
    section = {'name': 'labeled', 'path': str(path), 'text': text, 'label': label}
    raise ValueError(
        f'{file} has the fields {", ".join(map(str, row))}, which match no kind of '
        f'task. Name them, for `evaluate` as --config.tasks="({section},)", for '
        '`finetune` as --config.task="{...}", and in Python as tasks={...}. Fields that '
        f'need no naming: {kinds}.'
    )
