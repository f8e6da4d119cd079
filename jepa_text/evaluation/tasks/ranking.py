"""Which documents answer a query? The named sets, and folders in BEIR's or MLDR's layout.

msmarco    questions to a search engine, passages      Bajaj et al. 2016
nq         questions, passages of Wikipedia            Kwiatkowski et al. 2019
mldr       questions on long documents, English        Chen et al. 2024

With `protocol='paper'` as in arXiv 2507.00994, section 3 and appendix B: the corpus has
labeled documents only, which makes it easy; texts begin 'Query: ' and 'Document: '; and
where no queries are there to validate on, as in NQ, the test queries are halved, here by
a seed. Its encoders learn from pairs='hub:hgissbkh/msmarco-pairs'.
"""

from typing import NamedTuple

from jepa_text.config import resolve
from jepa_text.data.sets import tables
from jepa_text.evaluation.sets import beir
from jepa_text.evaluation.sets import task as tasks
from jepa_text.evaluation.sets.retrieval import Retrieval, dealt

PROTOCOLS = ('full', 'paper')


class _Set(NamedTuple):
    """Its name on the hub, where its qrels are, and the paper's text of a document."""

    path: str
    qrels: str
    document: str = 'Document: {text}'


TASKS = {
    'msmarco': _Set('hub:BeIR/msmarco', 'hub:BeIR/msmarco-qrels'),
    'nq': _Set('hub:BeIR/nq', 'hub:BeIR/nq-qrels', 'Document: {title}. {text}'),
    'mldr': _Set('hub:hgissbkh/mldr-en', 'hub:hgissbkh/mldr-en/default'),
}


def make(
    path='',
    qrels='',
    pairs='',
    document='',
    query='',
    protocol='full',
    title='',
    task='',
    seed=0,
):
    """`task` is one of TASKS, or '' for a set of one's own, which is at `path`: a folder
    as of sets/beir.py, or a name on the hub with the configs corpus and queries.

    `qrels` are in path/qrels, or where this says. `document` and `query` make a text of
    the fields of a row ('': '{title} {text}' and '{text}', or as `protocol` says).
    `pairs`, a file or name on the hub with the fields query and positive, is what one
    learns from, else qrels/train. Without qrels/dev, 5 % of the queries of qrels/train
    are what one validates on. `seed` deals the halves of the paper. Raises ValueError for
    qrels that name documents or queries that are not there.
    """
    chosen = tasks.named_set('ranking', TASKS, task, path, _Set('', ''))
    resolve.check_choice('ranking: protocol', protocol, PROTOCOLS)
    is_paper = protocol == 'paper'
    document = document or (chosen.document if is_paper else '{title} {text}')
    query = query or ('Query: {text}' if is_paper else '{text}')
    qrels = qrels or ('' if path else chosen.qrels)
    place = beir.places(path or chosen.path, qrels)
    where = title or task or tables.stem(path)
    asked = beir.asked(place, query, where)
    train, validation, test = _with_validation(asked.qrels, is_paper, seed)
    scored = _documents(validation) | _documents(test)
    wanted = scored if pairs else scored | _documents(train)
    texts = beir.texts(place.corpus, document, wanted if is_paper else None)
    beir.check(wanted, texts, 'documents', where)
    if pairs:
        learned, commit = _pairs(pairs, document, query, where)
    else:
        learned, commit = _relevant(train, asked.queries, texts), ''
    if is_paper:
        texts = {key: text for key, text in texts.items() if key in scored}
    queries = {name: asked.queries[name] for name in validation | test}
    return Retrieval(
        where,
        beir.without_empty(queries, queries, 'queries', where),
        beir.without_empty(texts, scored, 'documents', where),
        test,
        validation or None,
        learned,
        ' '.join(filter(None, (place.revision, commit))),
    )


def _documents(qrels):
    """Ids of all that were judged."""
    return {document for found in qrels.values() for document in found}


def _with_validation(qrels, is_paper, seed):
    """(train, validation, test); the first two may be empty."""
    train, validation, test = (
        qrels.get(name, {}) for name in ('train', 'validation', 'test')
    )
    if not validation and train:
        validation, train = dealt(train, tasks.VALIDATION_SHARE, tasks.VALIDATION_SEED)
    elif not validation and is_paper:
        validation, test = dealt(test, 0.5, seed)
    return train, validation, test


def _relevant(qrels, queries, texts):
    pairs = [(q, d) for q, found in qrels.items() for d in found if found[d] > 0]
    return [(queries[q], texts[d]) for q, d in pairs]


def _pairs(path, document, query, where):
    """([(query text, document text), ...], the commit of the hub or '')."""
    found = tables.splits(path)
    texts, positives = (
        tables.column(found.train, name, f'{where}, pairs of {path}')
        for name in ('query', 'positive')
    )
    made = [
        tuple(
            beir.filled(template, {'text': text}, f'{path}, row {number}')
            for template, text in ((query, one), (document, other))
        )
        for number, (one, other) in enumerate(zip(texts, positives), 1)
    ]
    return made, found.revision
