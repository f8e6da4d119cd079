"""Sequence labeling: named entities or parts of speech, in named sets or from files.

conll2003    four types of entities in news           Tjong Kim Sang & De Meulder 2003
ontonotes5   eighteen types in six genres             Weischedel et al. 2013
uner         three types, English, from the web       Mayhew et al. 2024

Files have one word per line (data/sets/columns.py), or one sentence per row, as a list of
words and a list of tags (data/sets/tables.py).
"""

import functools
import warnings
from typing import NamedTuple

from jepa_text.data.corpora import invalid_text
from jepa_text.data.sets import columns, tables
from jepa_text.evaluation.metrics import tags as metrics
from jepa_text.evaluation.sets import task as tasks
from jepa_text.settings import resolve

WORDS, TAGS = ('tokens', 'words'), ('tags', 'ner_tags', 'ner', 'labels')
SCHEMES = ('iob2', 'iob1')
CONLLU = 1, 3  # columns of words and universal parts of speech


class _Set(NamedTuple):
    """Name on the hub, entity `types`, and the columns and tagging scheme of its files;
    entities of the types in `outside` are tagged O."""

    hub: str
    types: str
    columns: tuple = (0, -1)
    scheme: str = ''
    outside: tuple = ()


TASKS = {
    # Its original files use B- only between two adjacent entities of the same type.
    'conll2003': _Set('hub:hgissbkh/conll2003-en', 'PER ORG LOC MISC', scheme='iob1'),
    'ontonotes5': _Set(
        'hub:hgissbkh/ontonotes5',
        'PERSON NORP FAC ORG GPE LOC PRODUCT EVENT WORK_OF_ART LAW LANGUAGE DATE TIME '
        'PERCENT MONEY QUANTITY ORDINAL CARDINAL',
    ),
    # Columns: number, word, tag, annotator. OTH is any other type of entity.
    'uner': _Set('hub:hgissbkh/uner_en', 'PER ORG LOC', (1, 2), outside=('OTH',)),
}


def make(
    path='',
    words: str | int = '',
    tags: str | int = '',
    names=(),
    labels=(),
    scheme='',
    task='',
    seed=0,
):
    """Makes a sequence labeling task: one of TASKS by `task`, or the set at `path`.

    words, tags    names of the fields ('': the first that exists of WORDS and TAGS), or
                   numbers of the columns ('': the first and the last, in .conllu
                   files the second and the fourth)
    names          names of tags that are written as numbers, in order, if the file does
                   not contain them
    labels         all tags; another tag is then an error
    scheme         tagging scheme of the file, one of SCHEMES ('': iob2, or tags without
                   entities, such as parts of speech); iob1 is converted to iob2, where
                   B- starts each entity

    Splits are as in labeled.py.
    """
    chosen = tasks.named_set('tags', TASKS, task, path, _Set('', ''))
    path, scheme = path or chosen.hub, scheme or chosen.scheme
    if scheme:
        resolve.check_choice('tags: scheme', scheme, SCHEMES)
    title = task or tables.stem(path)
    fields = [None if field == '' else field for field in (words, tags)]
    known = tuple(labels) or _iob2(chosen.types.split())

    def checked(rows, split):
        where = f'{title}, {split}, in {path}'
        whole = [
            _sentence(row, fields, f'{where}, row {n}', names)
            for n, row in enumerate(rows, 1)
        ]
        whole = _drop_empty(whole, where)
        if not whole:
            raise ValueError(f'{where}: the set has no sentences.')
        return [to_iob2(_checked(one), scheme, chosen.outside) for one in whole]

    def examples(sentences, split):
        _check_known(sentences, known)
        words, tags = ([one[n] for one in sentences] for n in (1, 2))
        return tasks.Examples(words, None, tags)

    classes = dict.fromkeys(names or labels)
    read = functools.partial(
        _read, fields=fields, defaults=chosen.columns, classes=classes, names=names
    )
    splits = tables.splits(path, read)
    by_split = {
        split: None if rows is None else checked(rows, split)
        for split, rows in zip(splits._fields, splits[:3])
    }
    metric = _metric([one for part in by_split.values() for one in part or ()])
    parts = tasks.make_splits(splits._replace(**by_split), examples, seed)
    return tasks.Task(title, 'tags', metric, **parts, classes=tuple(classes))


def _metric(sentences):
    """Returns 'entity_f1' for tags in IOB2, else 'token_accuracy'."""
    tags = [sentence.tags for sentence in sentences]
    all_tags = {tag for one in tags for tag in one}
    if metrics.are_entities(tags, lambda index: sentences[index].where):
        return 'entity_f1'
    if metrics.OUTSIDE in all_tags:
        others = ', '.join(sorted(all_tags - {metrics.OUTSIDE})[:3])
        warnings.warn(
            f'The tags are O and {others} without B- or I-: the metric is the accuracy '
            'of words, not the F1 of entities. For that, write B- before the type of the '
            'first word of an entity, and I- before that of the others.',
            stacklevel=3,
        )
    return 'token_accuracy'


def _iob2(types):
    pairs = (f'{prefix}-{name}' for name in types for prefix in 'BI')
    return ('O', *pairs) if types else ()


def _read(file, fields, defaults, classes, names):
    """Reads the sentences or rows of a file; numbered tags get `names`, or else those of
    the file, which are added to the keys of `classes`."""
    if tables.kind_of(file) == 'conllu':
        defaults = CONLLU
    is_named = any(isinstance(field, str) for field in fields)
    # A .tsv file has columns without names, unless a field is named.
    is_columns = tables.kind_of(file) == 'tsv' and not is_named
    if file.name.lower().endswith(tables.SUFFIXES) and not is_columns:
        rows = tables.read(file)
        field = _field(rows[0], fields[1], TAGS, str(file)) if rows else ''
        names = names or tables.class_names(file, field)
        classes.update(dict.fromkeys(names))
        return [
            _sentence(row, fields, f'{file}, row {n}', names)
            for n, row in enumerate(rows, 1)
        ]
    words, tags = (
        default if field is None else field for field, default in zip(fields, defaults)
    )
    if isinstance(words, str) or isinstance(tags, str):
        raise ValueError(
            f'{file} has columns without names, so words={words!r} and tags={tags!r} '
            'must be column numbers, from 0, or from -1 backwards.'
        )
    return columns.sentences(file, words, tags)


def _field(row, field, usual, where):
    if field is None:
        field = next((name for name in usual if name in row), usual[0])
    if not isinstance(field, str):
        raise ValueError(
            f'{where}: {field} is a column number, but the file has named fields: '
            f'{", ".join(map(str, row))}. Give one of these names.'
        )
    tables.value(row, field, where)
    return field


def _sentence(row, fields, where, names):
    """Returns the columns.Sentence of a row; numbered tags are replaced by `names`."""
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
    numbers = [tag for tag in tags if not isinstance(tag, str)]
    if numbers and not all(isinstance(n, int) and 0 <= n < len(names) for n in numbers):
        known = f'names has {len(names)}' if names else 'the file has no names of tags'
        raise ValueError(
            f'{where} has the tag {numbers[0]!r}, but {known}. Give the names of tags in '
            "the order of their numbers, e.g. names=('O', 'B-PER', 'I-PER')."
        )
    tags = [tag if isinstance(tag, str) else names[tag] for tag in tags]
    return columns.Sentence(where, words, tags)


def _drop_empty(sentences, where):
    """Drops sentences without words, which readers of CoNLL files leave at the end."""
    empty = [s.where for s in sentences if not s.words and not s.tags]
    if empty:
        warnings.warn(
            f'{where}: {len(empty):,} of {len(sentences):,} sentences have no words and '
            f'are dropped, the first: {empty[0]}.',
            stacklevel=2,
        )
    return [s for s in sentences if s.words or s.tags]


def _checked(sentence):
    where, words, tags = sentence
    if len(words) != len(tags):
        raise ValueError(
            f'{where} has {len(words)} words and {len(tags)} tags, but needs one tag per '
            'word. Fix or remove it.'
        )
    bad = [
        word for word in words if not isinstance(word, str) or not word.strip(' \t\r\n')
    ]
    if bad:
        raise ValueError(
            f'{where} has the word {bad[0]!r}, but words must be strings that are not '
            'empty.'
        )
    for word in words:
        invalid_text.check_unicode(word, where)
    return sentence


def to_iob2(sentence, scheme, outside):
    """Converts a Sentence from `scheme`, one of SCHEMES or '', to IOB2.

    Entities of types in `outside` become O. Raises ValueError for a tag that is not of
    the scheme, and for an I- that continues no entity, except in 'iob1'.
    """
    made, inside = [], ''
    for number, tag in enumerate(sentence.tags, 1):
        tag = metrics.OUTSIDE if tag[2:] in outside else tag
        where = f'{sentence.where}: word {number} has the tag {tag!r}'
        is_iob2 = metrics.IOB2.fullmatch(tag)
        if scheme and not is_iob2:
            raise ValueError(
                f'{where}, but in the scheme {scheme!r} a tag is O, or B- or I- and a '
                "type. Fix the tag, or leave scheme '' for tags without entities, such "
                'as parts of speech.'
            )
        kind = tag[2:] if is_iob2 else ''
        if tag[:1] == 'I' and kind and kind != inside:
            if scheme != 'iob1':
                raise ValueError(
                    f'{where} after {(made or [metrics.OUTSIDE])[-1]!r}, but an entity '
                    'starts with B-. If B- is used only for adjacent entities, set '
                    "scheme='iob1'."
                )
            tag = f'B-{kind}'
        made.append(tag)
        inside = kind
    return sentence._replace(tags=made)


def _check_known(sentences, known):
    for sentence in sentences if known else ():
        for place, tag in enumerate(sentence.tags, 1):
            if tag not in known:
                near = resolve.nearest(tag, known)
                raise ValueError(
                    f'{sentence.where}: word {place} has the tag {tag!r}, which is not a '
                    f'tag of the set.{near}'
                )
