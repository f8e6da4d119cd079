"""What a retrieval task is: questions, documents, and which of these answer which."""

import dataclasses

import numpy as np

from jepa_text.evaluation.sets import task as tasks


@dataclasses.dataclass(frozen=True, eq=False)
class Retrieval:
    """One learns from `pairs`, chooses by `validation_qrels`, is scored on `qrels`.

    queries, corpus     {id: text}
    qrels               {id of a query: {id of a document: score}}, whole numbers from 0
                        on, 0 for what was judged not to answer
    validation_qrels    the same of other queries, or None
    pairs               [(text of a query, text of a document that answers it)], [] where
                        nothing is to be learned from
    revision            the commit of the hub that the data are of, or ''
    """

    name: str
    queries: dict
    corpus: dict
    qrels: dict
    validation_qrels: dict | None = None
    pairs: list = dataclasses.field(default_factory=list)
    revision: str = ''


def with_validation(task, seed=tasks.VALIDATION_SEED):
    """The task with queries to validate on: its own, or half of those of `qrels`, dealt
    by the seed, which are no test queries then."""
    if task.validation_qrels:
        return task
    if len(task.qrels) < 2:
        raise ValueError(
            f'{task.name} has {len(task.qrels)} test queries, and none to validate on: '
            'give more, or qrels of a split dev.'
        )
    validation, test = dealt(task.qrels, 0.5, seed)
    return dataclasses.replace(task, qrels=test, validation_qrels=validation)


def dealt(qrels, share, seed):
    """(so much of the queries, the others), dealt by the seed, in their order."""
    names = np.random.default_rng(seed).permutation(sorted(qrels)).tolist()
    some = set(names[: round(share * len(names))])
    return (
        {name: found for name, found in qrels.items() if name in some},
        {name: found for name, found in qrels.items() if name not in some},
    )


def shared_texts(task):
    """How many queries of `qrels` have a text that a query of `pairs` has; the same words
    with other white space between them are the same text."""
    known = {tasks.squeezed(query) for query, _ in task.pairs}
    return sum(tasks.squeezed(task.queries[query]) in known for query in task.qrels)
