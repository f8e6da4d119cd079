"""What a retrieval task is: questions, documents, and which of these answer which."""

import dataclasses

from jepa_text.evaluation import task as tasks


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


def shared_texts(task):
    """How many queries of `qrels` have a text that a query of `pairs` has; the same words
    with other white space between them are the same text."""
    known = {tasks.squeezed(query) for query, _ in task.pairs}
    return sum(tasks.squeezed(task.queries[query]) in known for query in task.qrels)
