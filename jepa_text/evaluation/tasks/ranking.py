"""Retrieval tasks: MS MARCO, NQ, MLDR, and folders in the layout of BEIR or MLDR.

msmarco    questions to a search engine, passages      Bajaj et al. 2016
nq         questions, passages of Wikipedia            Kwiatkowski et al. 2019
mldr       questions on long documents, English        Chen et al. 2024

protocol='paper' follows arXiv 2507.00994, section 3 and appendix B. The corpus contains
only judged documents, which makes the task easy; texts start with 'Query: ' and
'Document: '; and without validation queries, as in NQ, half of the test queries are used,
here drawn by a seed. The paper's encoders are trained on
pairs='hub:hgissbkh/msmarco-pairs'.
"""

import itertools
import re
import warnings
from typing import NamedTuple

from jepa_text.data.sets import tables
from jepa_text.evaluation.sets import retrieval
from jepa_text.evaluation.sets import task as tasks
from jepa_text.settings import resolve

PROTOCOLS = ('full', 'paper')


class _Set(NamedTuple):
    """Name on the hub, location of the qrels, and the paper's template of a document."""

    path: str
    qrels: str
    document: str = 'Document: {text}'


TASKS = {
    'msmarco': _Set('hub:BeIR/msmarco', 'hub:BeIR/msmarco-qrels'),
    'nq': _Set('hub:BeIR/nq', 'hub:BeIR/nq-qrels', 'Document: {title}. {text}'),
    'mldr': _Set('hub:hgissbkh/mldr-en', 'hub:hgissbkh/mldr-en/default'),
}


def make(
    path='', qrels='', pairs='', document='', query='', protocol='full', task='', seed=0
):
    """Makes a retrieval task: one of TASKS by `task`, or the set at `path`.

    path        a folder (sets/retrieval.py), or a name on the hub with the configs corpus
                and queries
    qrels       folder of the qrels, or its name on the hub (default: path/qrels, and on
                the hub path-qrels)
    pairs       file or name on the hub with the fields query and positive, to train on
                (default: the relevant pairs of qrels/train), without those whose query
                is a validation query
    document    template that makes a text of a document's fields (default: '{title}
                {text}', or as `protocol` says)
    query       the same for queries (default: '{text}', or as `protocol` says)
    seed        draws the halves of the paper's protocol

    Without qrels/dev, 5 % of the queries of qrels/train are the validation queries.
    Raises ValueError if the qrels name unknown documents or queries.
    """
    chosen = tasks.named_set('ranking', TASKS, task, path, _Set('', ''))
    resolve.check_choice('ranking: protocol', protocol, PROTOCOLS)
    is_paper = protocol == 'paper'
    document = document or (chosen.document if is_paper else '{title} {text}')
    query = query or ('Query: {text}' if is_paper else '{text}')
    qrels = qrels or ('' if path else chosen.qrels)
    files = retrieval.find_files(path or chosen.path, qrels)
    where = task or tables.stem(path)
    asked, judged = retrieval.read_queries(files, query, where)
    train, validation, test = _with_validation(judged, is_paper, seed)
    scored = _documents(validation) | _documents(test)
    wanted = scored if pairs else scored | _documents(train)
    texts = retrieval.read_texts(files.corpus, document, wanted if is_paper else None)
    retrieval.check_known(wanted, texts, 'documents', where)
    if pairs:
        learned, commit = _read_pairs(pairs, document, query, where)
        known = {tasks.normalize_spaces(asked[name]) for name in validation}
        learned = [x for x in learned if tasks.normalize_spaces(x[0]) not in known]
    else:
        learned, commit = _relevant_pairs(train, asked, texts), ''
    learned = _drop_empty(learned, where)
    if is_paper:
        texts = {key: text for key, text in texts.items() if key in scored}
    queries = {name: asked[name] for name in validation | test}
    return retrieval.Retrieval(
        where,
        queries=retrieval.drop_empty(queries, queries, 'queries', where),
        corpus=retrieval.drop_empty(texts, scored, 'documents', where),
        qrels=test,
        validation_qrels=validation or None,
        pairs=learned,
        revision=' '.join(filter(None, (files.revision, commit))),
    )


def _documents(qrels):
    return set(itertools.chain.from_iterable(qrels.values()))


def _with_validation(qrels, is_paper, seed):
    """Returns (train, validation, test) qrels; the first two may be empty."""
    train, validation, test = (
        qrels.get(name, {}) for name in ('train', 'validation', 'test')
    )
    if not validation and train:
        rule = tasks.VALIDATION_SHARE, tasks.VALIDATION_SEED
        validation, train = retrieval.split_queries(train, *rule)
    elif not validation and is_paper:
        validation, test = retrieval.split_queries(test, 0.5, seed)
    return train, validation, test


def _relevant_pairs(qrels, queries, texts):
    return [
        (queries[query], texts[document])
        for query, judged in qrels.items()
        for document, score in judged.items()
        if score > 0
    ]


def _drop_empty(pairs, where):
    whole = [pair for pair in pairs if all(map(str.strip, pair))]
    if len(whole) < len(pairs):
        warnings.warn(
            f'{where}, train: {len(pairs) - len(whole):,} of {len(pairs):,} pairs of a '
            'query and a relevant document have an empty text and are left out.',
            stacklevel=2,
        )
    return whole


def _read_pairs(path, document, query, where):
    splits = tables.splits(path)
    where = f'{where}, pairs of {path}'
    texts, positives = tables.columns(splits.train, ('query', 'positive'), where)
    document = re.sub(r'\{title\}[^\w{]*', '', document)  # a positive has no title

    def fill(template, text, number):
        return retrieval.fill_template(template, {'text': text}, f'{path}, row {number}')

    pairs = [
        (fill(query, text, number), fill(document, positive, number))
        for number, (text, positive) in enumerate(zip(texts, positives), 1)
    ]
    return pairs, splits.revision
