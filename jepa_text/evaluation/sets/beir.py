"""Documents, queries, and which of these answer which, as BEIR and MLDR lay them out.

    corpus.jsonl    {"_id": "d1", "title": "...", "text": "..."} a line
    queries.jsonl   {"_id": "q1", "text": "..."}
    qrels/test.tsv  query-id, corpus-id, score; and train.tsv, dev.tsv

Files may end in .gz, or be of another kind of table (data/sets/tables.py).
"""

import warnings
from pathlib import Path
from typing import NamedTuple

from jepa_text.config import resolve
from jepa_text.data.corpora import reading, row_groups
from jepa_text.data.sets import hub, tables
from jepa_text.files import paths

IDS, QUERY_IDS = ('_id', 'id', 'docid'), ('query-id', 'query_id', 'qid')
LAYOUT = (
    'A set has files corpus.jsonl and queries.jsonl, and a folder qrels with test.tsv.'
)
DOCUMENT_IDS, SCORES = ('corpus-id', 'corpus_id', 'docid', 'doc_id'), ('score',)


class Places(NamedTuple):
    """Files of each part, `qrels` by split; the commits of the hub, or ''."""

    corpus: list
    queries: list
    qrels: dict
    revision: str


class Asked(NamedTuple):
    """{query: text} and {split: {query: {document: score}}}."""

    queries: dict
    qrels: dict


def texts(files, template, wanted=None):
    """{id: text} of files of texts, only of those `wanted` if not None.

    `template` is of the fields of a row, such as '{title} {text}'; a title that is
    missing is ''. Raises ValueError for an id that is missing or there twice, and for a
    field that no row has.
    """
    found = {}
    for file in files:
        for number, row in enumerate(_rows(file), 1):
            where = f'{file}, row {number}'
            key = str(_value(row, IDS, where))
            if wanted is not None and key not in wanted:
                continue
            if key in found:
                raise ValueError(
                    f'{where}: the id {key!r} is there twice. Ids tell texts apart: '
                    'leave one of the two out.'
                )
            found[key] = filled(template, row, where)
    return found


def qrels(files):
    """{query: {document: score}} of files of judgments; ValueError for a score that is
    no whole number and for two of one pair that differ."""
    found = {}
    for file in files:
        for number, row in enumerate(_rows(file), 1):
            where = f'{file}, row {number}'
            query, document = (
                str(_value(row, usual, where)) for usual in (QUERY_IDS, DOCUMENT_IDS)
            )
            score = _whole(_value(row, SCORES, where), where)
            if found.setdefault(query, {}).setdefault(document, score) != score:
                raise ValueError(
                    f'{where}: document {document!r} has the score {score} for query '
                    f'{query!r}, and {found[query][document]} before: leave one out.'
                )
    return found


def places(path, where_qrels=''):
    """The Places of a set's files: of a folder, or of a name on the hub."""
    if hub.is_name(path):
        name, at, revision = path.partition('@')
        return _on_hub(name, at + revision, where_qrels or f'{name}-qrels')
    top = Path(paths.local('The path of the set', path))
    inside = Path(where_qrels or top / 'qrels')
    if not top.is_dir():
        raise FileNotFoundError(f'There is no folder {path}. {LAYOUT}')
    if hub.is_name(where_qrels):
        qrels, revision = tables.files(where_qrels)
    else:
        qrels, revision = tables.files(inside if inside.is_dir() else top)
    return _checked(
        Places(_found(top, 'corpus'), _found(top, 'queries'), qrels, revision)
    )


def _on_hub(name, revision, where_qrels):
    corpus = hub.find(f'{name}/corpus{revision}')
    is_same = where_qrels.startswith(f'{name}/') and '@' not in where_qrels
    qrels = hub.find(where_qrels + revision * is_same)
    commit = ' '.join(dict.fromkeys([corpus.commit, qrels.commit]))
    # A set whose judgments hold the queries themselves has no other file of them.
    is_alone = where_qrels.startswith(f'{name}/')
    queries = [] if is_alone else _all(hub.find(f'{name}/queries{revision}'))
    return _checked(Places(_all(corpus), queries, qrels.splits, commit))


def _all(found):
    return [file for files in found.splits.values() for file in files]


def _checked(found):
    """The Places with dev called validation; FileNotFoundError for a missing part."""
    qrels = {tables.CALLED.get(name, name): files for name, files in found.qrels.items()}
    qrels = {
        name: qrels[name] for name in ('train', 'validation', 'test') if name in qrels
    }
    missing = 'corpus' if not found.corpus else 'test' if 'test' not in qrels else ''
    if missing:
        raise FileNotFoundError(f'There is no {missing} among the files. {LAYOUT}')
    return found._replace(qrels=qrels)


def _found(folder, name):
    return sorted(
        file
        for file in folder.iterdir()
        if file.name.endswith(tables.SUFFIXES) and file.name.split('.')[0] == name
    )


def asked(place, template, where):
    """The Asked of Places; `template` makes the text of a query.

    Raises ValueError for qrels that name queries that are not there, or by which no
    document answers any.
    """
    if not place.queries:
        return _passages(place.qrels, template)
    queries = texts(place.queries, template)
    found = {split: qrels(files) for split, files in place.qrels.items()}
    for split, side in found.items():
        check(side, queries, 'queries', f'{where}, {split}')
        if split != 'train':
            _check_relevant(side, f'{where}, {split}')
    return Asked(queries, found)


def _passages(files, template):
    """Of rows with a query and its `positive_passages`, as of MLDR."""
    made = Asked({}, {split: {} for split in files})
    for split, some in files.items():
        for file in some:
            for number, row in enumerate(_rows(file), 1):
                where = f'{file}, row {number}'
                key = str(_value(row, QUERY_IDS, where))
                text = {'text': _value(row, ('query', 'text'), where)}
                made.queries[key] = filled(template, text, where)
                positive = _value(row, ('positive_passages',), where)
                judged = {str(_value(one, IDS[::-1], where)): 1 for one in positive}
                made.qrels[split][key] = judged
    return made


def check(judged, known, what, where):
    """Raises ValueError unless all `judged` ids are `known`: how many are not, and the
    first; `what` they are."""
    unknown = [key for key in dict.fromkeys(judged) if key not in known]
    if unknown:
        raise ValueError(
            f'{where}: the qrels name {len(unknown):,} {what} that are not there, the '
            f'first {unknown[0]!r}. Are these the files of one set, and of one version?'
        )


def _check_relevant(side, where):
    """Raises ValueError where no query of a split has a relevant document; warns of
    those that have none, which count as 0."""
    bare = [query for query, found in side.items() if max(found.values(), default=0) < 1]
    if side and len(bare) == len(side):
        raise ValueError(
            f'{where}: no query has a relevant document: each score is below 1. Is it '
            'the right column?'
        )
    if bare:
        warnings.warn(
            f'{where}: {len(bare):,} of {len(side):,} queries have no relevant document '
            f'and count as 0, the first {bare[0]!r}.',
            stacklevel=3,
        )


def without_empty(texts, judged, what, where):
    """The texts without those that are empty; ValueError for one that was judged."""
    empty = [key for key, text in texts.items() if not text.strip()]
    if bad := [key for key in empty if key in judged]:
        raise ValueError(
            f'{where}: {len(bad):,} {what} that the qrels name are empty, the first '
            f'{bad[0]!r}. Does the template name the right field? Else take them out of '
            'the qrels.'
        )
    if empty:
        warnings.warn(
            f'{where}: {len(empty):,} of {len(texts):,} {what} are empty and left out, '
            f'the first {empty[0]!r}; the qrels name none of them.',
            stacklevel=3,
        )
    return {key: text for key, text in texts.items() if text.strip()}


def _rows(file):
    """Rows, one at a time where the file allows: a corpus may be large."""
    if file.name.endswith('.parquet'):
        return row_groups.rows(file)
    if file.name.endswith(('.jsonl', '.jsonl.gz', '.ndjson', '.ndjson.gz')):
        return (row for _, row in reading.objects(file))
    return tables.read(file)


def _value(row, usual, where):
    name = next((name for name in usual if name in row), None)
    if name is None:
        near = resolve.nearest(usual[0], [str(key) for key in row])
        raise ValueError(f'{where}, has no field {usual[0]!r}.{near}')
    return row[name]


def filled(template, row, where):
    """The template with the fields of a row; ValueError for one that it lacks."""
    try:
        values = {key: '' if value is None else value for key, value in row.items()}
        return template.format(**({'title': ''} | values)).strip()
    except (KeyError, IndexError, ValueError) as error:
        near = resolve.nearest(str(error).strip("'"), [str(key) for key in row])
        raise ValueError(
            f'{where} does not fit the template {template!r}: {error}.{near}'
        ) from error


def _whole(value, where):
    try:
        if float(value) == int(float(value)):
            return int(float(value))
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(
        f'{where}: the score is {value!r}, and must be a whole number: 0 for what does '
        'not answer, from 1 on for what does.'
    )
