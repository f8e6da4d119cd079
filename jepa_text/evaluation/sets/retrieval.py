"""The retrieval task: queries, documents, relevance judgments and training pairs."""

import dataclasses

import numpy as np

from jepa_text.evaluation.sets import task as tasks


@dataclasses.dataclass(frozen=True, eq=False)
class Retrieval:
    """A retrieval task: trained on pairs, tuned and scored on relevance judgments.

    queries, corpus     {id: text}
    qrels               {query id: {document id: score}} of the test queries; scores are
                        integers, 0: judged not relevant
    validation_qrels    the same for validation queries, or None
    pairs               training pairs [(query text, text of a relevant document)], or []
    revision            commit of the data on the hub, or ''
    zero_shot           True: answered without training; None: trained
    """

    name: str
    queries: dict
    corpus: dict
    qrels: dict
    validation_qrels: dict | None = None
    pairs: list = dataclasses.field(default_factory=list)
    revision: str = ''
    zero_shot: bool | None = None


def split_queries(qrels, share, seed):
    """Splits qrels by query into (this share, the rest), drawn by the seed, in order."""
    names = np.random.default_rng(seed).permutation(sorted(qrels)).tolist()
    chosen = set(names[: round(share * len(names))])
    return (
        {name: judged for name, judged in qrels.items() if name in chosen},
        {name: judged for name, judged in qrels.items() if name not in chosen},
    )


def shared_texts(task):
    """Counts the test queries whose text is also that of a training pair's query.

    Texts that differ only in whitespace are the same text.
    """
    known = {tasks.normalize_spaces(query) for query, _ in task.pairs}
    return sum(
        tasks.normalize_spaces(task.queries[query]) in known for query in task.qrels
    )
