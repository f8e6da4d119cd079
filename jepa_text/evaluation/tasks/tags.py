"""A tag for every word: entities, parts of speech; the named sets, and one's own.

conll2003    four types of entities in news           Tjong Kim Sang & De Meulder 2003
ontonotes5   eighteen types in six genres             Weischedel et al. 2013
uner         three types, English, of the web         Mayhew et al. 2024

Files have a word a line (data/sets/columns.py), or a sentence a row with a list of words
and one of tags (data/sets/tables.py).
"""

import functools
import re
import warnings
from typing import NamedTuple

from jepa_text.config import resolve
from jepa_text.data.sets import columns, tables
from jepa_text.evaluation.sets import task as tasks

WORDS, TAGS = ('tokens', 'words'), ('tags', 'ner_tags', 'ner', 'labels')
SCHEMES = ('iob2', 'iob1', 'bioes')
VALIDATION, TEST = (*tables.VALIDATION, 'testa'), ('test', 'testb')
_ENTITY = re.compile(r'O|[BI]-\S+')


class _Set(NamedTuple):
    """Where it is on the hub, its `types` of entities, and its files' columns and
    scheme. Entities of the types in `outside` are none."""

    hub: str
    types: str
    columns: tuple = (0, -1)
    scheme: str = 'iob2'
    outside: tuple = ()


TASKS = {
    # Its own files write B- only between two entities of a type that touch.
    'conll2003': _Set('hub:hgissbkh/conll2003-en', 'PER ORG LOC MISC', scheme='iob1'),
    'ontonotes5': _Set(
        'hub:hgissbkh/ontonotes5',
        'PERSON NORP FAC ORG GPE LOC PRODUCT EVENT WORK_OF_ART LAW LANGUAGE DATE TIME '
        'PERCENT MONEY QUANTITY ORDINAL CARDINAL',
    ),
    # Columns: number, word, tag, and who annotated it. OTH is what no type fits.
    'uner': _Set('hub:hgissbkh/uner_en', 'PER ORG LOC', (1, 2), outside=('OTH',)),
}


def make(
    path='',
    words: str | int = '',
    tags: str | int = '',
    names=(),
    labels=(),
    scheme='',
    title='',
    task='',
    seed=0,
):
    """`task` is one of TASKS, or '' for a set of one's own, which is at `path`.

    `words` and `tags` name the fields, the first of WORDS and of TAGS if '', or are the
    numbers of columns, the first and the last. `names` are those of tags that are written
    as numbers, in their order, where the file does not tell; `labels` all tags there are,
    so that another is an error. `scheme`, one of SCHEMES, is how entities are written
    ('': iob2); they become iob2, where B- begins each. Splits are as in labeled.py.
    """
    chosen = tasks.named_set('tags', TASKS, task, path, _Set('', ''))
    path, scheme = path or chosen.hub, scheme or chosen.scheme
    resolve.check_choice('tags: scheme', scheme, SCHEMES)
    title = title or task or tables.stem(path)
    fields = [given if given != '' else None for given in (words, tags)]
    known = tuple(labels) or _iob2(chosen.types.split())

    def side(rows, split):
        where = f'{title}, {split}, in {path}'
        read = [
            _sentence(row, fields, f'{where}, row {n}') for n, row in enumerate(rows, 1)
        ]
        named = [_checked(one, names) for one in _full(read, where)]
        if not named:
            raise ValueError(f'{where}: there is no sentence.')
        made = [in_scheme(one, scheme, chosen.outside) for one in named]
        _check_known(made, known)
        return tasks.Examples([x.words for x in made], None, [x.tags for x in made])

    read = functools.partial(_read, fields=fields, given=chosen.columns)
    found = tables.splits(path, read, validation=VALIDATION, test=TEST)
    made = tasks.sides(found, side, seed)
    return tasks.Task(title, 'tags', _metric(made['train'].target), **made)


def _metric(target):
    """Entities are scored whole, other tags one by one."""
    every = {tag for tags in target for tag in tags}
    is_entities = len(every) > 1 and all(map(_ENTITY.fullmatch, every))
    return 'entity_f1' if is_entities else 'token_accuracy'


def _iob2(types):
    """('O', 'B-PER', 'I-PER', ...); none without types."""
    pairs = (f'{begin}-{one}' for one in types for begin in 'BI')
    return ('O', *pairs) if types else ()


def _read(file, fields, given):
    """Sentences of a file, or its rows, with the names of their tags if it tells them."""
    if file.name.endswith(tables.SUFFIXES) and not _is_columns(file, fields):
        rows = tables.read(file)
        field = _field(rows[0], fields[1], TAGS, str(file)) if rows else ''
        names = tables.class_names(file, field)
        where = f'{file}, row '
        return [
            _sentence(row, fields, f'{where}{n}', names) for n, row in enumerate(rows, 1)
        ]
    words, tags = (g if f is None else f for f, g in zip(fields, given))
    if isinstance(words, str) or isinstance(tags, str):
        raise ValueError(
            f'{file} has columns without names, so words={words!r} and tags={tags!r} '
            'must be the numbers of two, from 0, or from -1 at the end.'
        )
    return columns.sentences(file, words, tags)


def _is_columns(file, fields):
    """A .tsv is a table if its fields are named, else columns."""
    is_tsv = file.name.removesuffix('.gz').endswith('.tsv')
    return is_tsv and not any(isinstance(field, str) for field in fields)


def _field(row, given, usual, where):
    if given is None:
        given = next((name for name in usual if name in row), usual[0])
    if not isinstance(given, str):
        raise ValueError(
            f'{where}: {given} is the number of a column, but this has fields with '
            f'names: {", ".join(map(str, row))}. Name one.'
        )
    tables.value(row, given, where)
    return given


def _sentence(row, fields, where, names=None):
    """A columns.Sentence of a row; its tags are named where there are names."""
    if isinstance(row, columns.Sentence):
        return row
    words, tags = (
        row[_field(row, field, usual, where)]
        for field, usual in zip(fields, (WORDS, TAGS))
    )
    if not isinstance(words, list) or not isinstance(tags, list):
        raise ValueError(
            f'{where}: words and tags must be lists, not {words!r} and {tags!r}.'
        )
    if names:
        there = range(len(names))
        tags = [names[t] if isinstance(t, int) and t in there else t for t in tags]
    return columns.Sentence(where, words, tags)


def _full(sentences, where):
    """Those with a word: readers of CoNLL's columns leave empty ones at the end."""
    empty = [one.where for one in sentences if not one.words and not one.tags]
    if empty:
        warnings.warn(
            f'{where}: {len(empty):,} of {len(sentences):,} sentences have no word and '
            f'are left out, the first: {empty[0]}.',
            stacklevel=2,
        )
    return [one for one in sentences if one.words or one.tags]


def _checked(one, names):
    """The Sentence with tags that are texts; ValueError for what is none."""
    at = one.where
    if len(one.words) != len(one.tags):
        raise ValueError(
            f'{at} has {len(one.words)} words and {len(one.tags)} tags: a sentence has a '
            'tag for each word. Mend it or leave it out.'
        )
    bad = [word for word in one.words if not isinstance(word, str) or not word.strip()]
    if bad:
        raise ValueError(f'{at} has the word {bad[0]!r}: words are texts, not empty.')
    numbers = [tag for tag in one.tags if not isinstance(tag, str)]
    if numbers and not all(isinstance(n, int) and 0 <= n < len(names) for n in numbers):
        known = f'names has {len(names)}' if names else 'the file does not name them'
        raise ValueError(
            f'{at} has the tag {numbers[0]!r}, and {known}. Give the names of tags in '
            "the order of their numbers, as names=('O', 'B-PER', 'I-PER')."
        )
    tags = [tag if isinstance(tag, str) else names[tag] for tag in one.tags]
    return columns.Sentence(at, one.words, tags)


def in_scheme(one, scheme, outside):
    """The Sentence in IOB2 of one in `scheme`, without entities of the types `outside`;
    ValueError for an I- that goes on from nothing."""
    tags = ['O' if tag[2:] in outside else tag for tag in one.tags]
    if scheme == 'bioes':
        tags = [re.sub('^S-', 'B-', re.sub('^E-', 'I-', tag)) for tag in tags]
    before = 'O'
    for place, tag in enumerate(tags):
        if _ENTITY.fullmatch(tag) and tag[0] == 'I' and before[1:] != tag[1:]:
            if scheme != 'iob1':
                raise ValueError(
                    f'{one.where}: word {place + 1} has the tag {tag!r} after '
                    f'{before!r}, but an entity begins with B-. If B- is only for '
                    "entities that touch, give scheme='iob1'."
                )
            tags[place] = f'B{tag[1:]}'
        before = tag
    return one._replace(tags=tags)


def _check_known(sentences, known):
    for one in sentences if known else ():
        for place, tag in enumerate(one.tags, 1):
            if tag not in known:
                near = resolve.nearest(tag, known)
                raise ValueError(
                    f'{one.where}: word {place} has the tag {tag!r}, which is none of '
                    f'the set.{near}'
                )
