"""The retrieval task, and the reading of sets in the layouts of BEIR and MLDR.

    corpus.jsonl    {"_id": "d1", "title": "...", "text": "..."} per line
    queries.jsonl   {"_id": "q1", "text": "..."}
    qrels/test.tsv  query-id, corpus-id, score; and train.tsv, dev.tsv

Files may be gzipped (.gz), or be another kind of table (data/sets/tables.py).
"""

import dataclasses
import re
import warnings
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from jepa_text.data.corpora import invalid_text
from jepa_text.data.sets import hub, tables
from jepa_text.evaluation.sets import task as tasks
from jepa_text.files import paths
from jepa_text.settings import resolve

IDS, QUERY_IDS = ('_id', 'id', 'docid'), ('query-id', 'query_id', 'qid')
LAYOUT = (
    'A set needs files corpus.jsonl and queries.jsonl, and a folder qrels with test.tsv.'
)
DOCUMENT_IDS, SCORES = ('corpus-id', 'corpus_id', 'docid', 'doc_id'), ('score',)


@dataclasses.dataclass(frozen=True, eq=False)
class Retrieval:
    """A retrieval task: trained on pairs, tuned and scored on relevance judgments.

    queries, corpus     {id: text}
    qrels               {query id: {document id: score}} of the test queries; scores are
                        integers, 0: judged not relevant
    validation_qrels    the same for validation queries, or None
    pairs               training pairs [(query text, text of a relevant document)], or []
    revision            commit of the data on the hub, or ''
    zero_shot           whether it is answered without training

    Raises ValueError for qrels of unknown queries.
    """

    kind: ClassVar[str] = 'retrieval'
    metric: ClassVar[str] = 'ndcg@10'
    name: str
    queries: dict
    corpus: dict
    qrels: dict
    validation_qrels: dict | None = None
    pairs: list = dataclasses.field(default_factory=list)
    revision: str = ''
    zero_shot: bool = False

    def __post_init__(self):
        judged = self.qrels | (self.validation_qrels or {})
        check_known(judged, self.queries, 'queries', self.name)


def split_queries(qrels, share, seed):
    """Splits qrels by query into (this share, the rest), drawn by the seed, in order."""
    names = np.random.default_rng(seed).permutation(sorted(qrels)).tolist()
    chosen = set(names[: round(share * len(names))])
    return (
        {name: judged for name, judged in qrels.items() if name in chosen},
        {name: judged for name, judged in qrels.items() if name not in chosen},
    )


def shared_texts(task):
    """Counts the test queries whose text is also that of a training pair's query;
    whitespace makes no difference."""
    known = {tasks.normalize_spaces(query) for query, _ in task.pairs}
    return sum(
        tasks.normalize_spaces(task.queries[query]) in known for query in task.qrels
    )


class Files(NamedTuple):
    """Files of each part, `qrels` by split; the commits on the hub, or ''."""

    corpus: list
    queries: list
    qrels: dict
    revision: str


def read_texts(files, template, wanted=None):
    """Reads {id: text} from files, only of the ids `wanted` if it is not None.

    `template` is filled with the fields of a row, e.g. '{title} {text}'; a missing title
    is ''. Raises ValueError for a missing or duplicate id, and for a missing field.
    """
    texts = {}
    for where, row in _rows(files):
        key = str(_value(row, IDS, where))
        if wanted is not None and key not in wanted:
            continue
        if key in texts:
            raise ValueError(
                f'{where}: the id {key!r} is a duplicate. Ids must be unique: remove '
                'one of the two rows.'
            )
        texts[key] = fill_template(template, row, where)
    return texts


def _rows(files):
    for file in files:
        for number, row in enumerate(tables.rows(file), 1):
            yield f'{file}, row {number}', row


def read_qrels(files):
    """Reads {query: {document: score}} from files of judgments; raises ValueError for a
    score that is not an integer, and for a pair with two different scores."""
    qrels = {}
    for where, row in _rows(files):
        query = str(_value(row, QUERY_IDS, where))
        document = str(_value(row, DOCUMENT_IDS, where))
        given = _value(row, SCORES, where)
        if not re.fullmatch(r'-?\d+(\.0+)?', str(given)):
            raise ValueError(
                f'{where}: the score is {given!r}, but must be an integer: 0 for a '
                'document that is not relevant, 1 or more for a relevant one.'
            )
        score = int(float(given))
        known = qrels.setdefault(query, {}).setdefault(document, score)
        if known != score:
            raise ValueError(
                f'{where}: document {document!r} has score {score} for query {query!r}, '
                f'but an earlier row says {known}: remove one of them.'
            )
    return qrels


def find_files(path, where_qrels=''):
    """Finds the Files of a set in a folder, or by a name on the hub; raises
    FileNotFoundError for a missing part."""
    if hub.is_name(path):
        name, at, revision = path.partition('@')
        files = _on_hub(name, at + revision, where_qrels or f'{name}-qrels')
    else:
        top = Path(paths.local('The path of the set', path))
        if not top.is_dir():
            raise FileNotFoundError(f'Folder {path} does not exist. {LAYOUT}')
        inside = top / 'qrels' if (top / 'qrels').is_dir() else top
        by_name, _ = tables.files(top)
        parts = (by_name.get(part, []) for part in ('corpus', 'queries'))
        files = Files(*parts, *tables.files(where_qrels or inside))
    qrels = {tables.CALLED.get(name, name): some for name, some in files.qrels.items()}
    missing = 'corpus' if not files.corpus else 'test' if 'test' not in qrels else ''
    if missing:
        raise FileNotFoundError(f'Among the files, {missing} is missing. {LAYOUT}')
    known = {name: qrels[name] for name in tasks.SPLITS if name in qrels}
    return files._replace(qrels=known)


def _on_hub(name, revision, where_qrels):
    corpus, commit = hub.find(f'{name}/corpus{revision}')
    is_same = where_qrels.startswith(f'{name}/') and '@' not in where_qrels
    qrels, other = tables.files(where_qrels + revision * is_same)
    queries = {}
    # If the judgments contain the query texts, as in MLDR, there is no queries file.
    if not where_qrels.startswith(f'{name}/'):
        queries, _ = hub.find(f'{name}/queries{revision}')
    corpus, queries = (sum(part.values(), []) for part in (corpus, queries))
    commits = ' '.join(dict.fromkeys(filter(None, [commit, other])))
    return Files(corpus, queries, qrels, commits)


def read_queries(files, template, where):
    """Reads ({query: text}, {split: {query: {document: score}}}) of Files; `template`
    makes the text of a query.

    Raises ValueError for qrels of unknown queries, or without any relevant document, and
    FileNotFoundError for qrels without texts of queries if there is no file of these.
    """
    if files.queries:
        queries = read_texts(files.queries, template)
        qrels = {split: read_qrels(some) for split, some in files.qrels.items()}
    else:
        queries, qrels = _read_passages(files.qrels, template)
    for split, judged in qrels.items():
        check_known(judged, queries, 'queries', f'{where}, {split}')
        if split != 'train':
            _check_relevant(judged, f'{where}, {split}')
    return queries, qrels


def _read_passages(files, template):
    """`read_queries` of rows with a query and its `positive_passages`, as in MLDR."""
    queries, qrels = {}, {split: {} for split in files}
    for split, some in files.items():
        for where, row in _rows(some):
            if 'positive_passages' not in row:
                raise FileNotFoundError(
                    f'{where} has no positive_passages, as in MLDR, and there is no file '
                    f'of queries. {LAYOUT}'
                )
            key = str(_value(row, QUERY_IDS, where))
            fields = {'text': _value(row, ('query', 'text'), where)}
            query = fill_template(template, fields, where)
            if queries.setdefault(key, query) != query:
                raise ValueError(
                    f'{where}: the query {key!r} has another text than before: give each '
                    'query an id of its own.'
                )
            passages = row['positive_passages']
            ids = (str(_value(passage, IDS[::-1], where)) for passage in passages)
            qrels[split].setdefault(key, {}).update(dict.fromkeys(ids, 1))
    return queries, qrels


def check_known(judged, known, what, where):
    """Raises ValueError if `judged` ids are not `known`; `what` says what they name."""
    unknown = [key for key in dict.fromkeys(judged) if key not in known]
    if unknown:
        raise ValueError(
            f'{where}: the qrels name {len(unknown):,} {what} that do not exist, the '
            f'first {unknown[0]!r}. Use files of the same set and version.'
        )


def _check_relevant(qrels, where):
    """Raises ValueError if no query of a split has a relevant document, and warns of
    queries without one, which count as 0."""
    bare = [q for q, scores in qrels.items() if max(scores.values(), default=0) < 1]
    if len(bare) == len(qrels):
        raise ValueError(
            f'{where}: no query has a relevant document, as no score is 1 or more. Check '
            'that the file has rows below its header, and its score column or '
            'positive_passages.'
        )
    if bare:
        warnings.warn(
            f'{where}: {len(bare):,} of {len(qrels):,} queries have no relevant document '
            f'and count as 0, the first {bare[0]!r}.',
            stacklevel=3,
        )


def drop_empty(texts, judged, what, where):
    """Drops empty texts, with a warning; raises ValueError if one of them was judged."""
    empty = [key for key, text in texts.items() if not text.strip()]
    if bad := [key for key in empty if key in judged]:
        raise ValueError(
            f'{where}: {len(bad):,} {what} that the qrels name are empty, the first '
            f'{bad[0]!r}. Check the field in the template, or remove them from the qrels.'
        )
    if empty:
        warnings.warn(
            f'{where}: {len(empty):,} of {len(texts):,} {what} are empty and are '
            f'dropped, the first {empty[0]!r}; no test or validation query needs them.',
            stacklevel=3,
        )
    return {key: text for key, text in texts.items() if text.strip()}


def _value(row, usual, where):
    name = next((name for name in usual if name in row), usual[0])
    return tables.value(row, name, where)


def fill_template(template, row, where):
    """Fills the template with a row's fields; raises ValueError for a missing field and
    for text that is not valid Unicode."""
    try:
        values = {key: '' if value is None else value for key, value in row.items()}
        text = template.format(**({'title': ''} | values)).strip()
    except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
        near = resolve.nearest(str(error).strip("'"), [str(key) for key in row])
        raise ValueError(
            f'{where} does not fit the template {template!r}: {error}.{near}'
        ) from error
    invalid_text.check_unicode(text, where)
    return text
