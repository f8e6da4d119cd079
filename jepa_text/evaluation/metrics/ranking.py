"""Ranking metrics: nDCG@10, MRR@10, recall@100, and the nDCG of arXiv 2507.00994."""

import numpy as np

from jepa_text.evaluation.metrics import base

PAPER_DEPTH = 10


def measure(qrels, run):
    """Returns the Measured of a run {query: {document: score}} by relevance judgments.

    `qrels` is {query: {document: relevance}}; relevance is an integer, and documents are
    relevant from 1 on. Documents without a judgment are not relevant.

    ndcg@10       DCG@10 = sum of relevance / log2(rank + 1), divided by that of the best
                  order of all relevant documents, retrieved or not (Järvelin & Kekäläinen
                  2002)
    mrr@10        1 / rank of the first relevant document in the top ten, else 0
    recall@100    share of the relevant documents in the top hundred
    paper: ndcg@10    with relevance 1 or 0, divided by the best order of the ten
                  retrieved documents only, averaged over the orders of equal scores
                  (arXiv 2507.00994, section 3): 1 for three relevant documents of twenty
                  at the top

    By ir-measures, i.e. trec_eval, and scikit-learn. As in trec_eval, of equal scores (as
    float32) the larger document id comes first. A document with the id of the query does
    not count, unless it is judged relevant (`without_itself`). A query that the run
    lacks, or without a relevant document, counts as 0. Instances are the queries of
    `qrels`, in order; all queries of the run are among them. Raises ValueError for a
    relevance that is no integer.
    """
    ir_measures = base.extra('ir_measures')
    qrels = {query: _integers(query, judged) for query, judged in qrels.items()}
    run = {query: without_itself(query, run[query], qrels[query]) for query in run}
    names = {
        ir_measures.nDCG @ 10: 'ndcg@10',
        # RR @ 10 is computed by MS MARCO's script, which breaks ties the other way.
        ir_measures.RR: 'mrr@10',
        ir_measures.R @ 100: 'recall@100',
    }
    index_of = {query: index for index, query in enumerate(qrels)}
    per_instance = {name: np.zeros(len(qrels)) for name in names.values()}
    for result in ir_measures.iter_calc(list(names), qrels, run):
        per_instance[names[result.measure]][index_of[result.query_id]] = result.value
    per_instance['mrr@10'][per_instance['mrr@10'] < 1 / 10] = 0
    standard = {name: float(values_N.mean()) for name, values_N in per_instance.items()}
    per_instance['paper_ndcg@10'] = np.array(
        [_truncated_ndcg(qrels[query], run.get(query, {})) for query in qrels]
    )
    paper = {'ndcg@10': float(per_instance['paper_ndcg@10'].mean())}
    return base.Measured(standard, paper, per_instance)


def _integers(query, judged):
    for document, relevance in judged.items():
        if relevance != int(relevance):
            raise ValueError(
                f'qrels of {query!r}: the relevance of {document!r} is {relevance}, but '
                'must be an integer.'
            )
    return {document: int(relevance) for document, relevance in judged.items()}


def without_itself(query, scores, judged):
    """Returns a query's {document: score} without the document of the query's own id.

    In sets whose queries are documents, such as Quora, it is the query, which would rank
    first. It stays if it is judged relevant: then ids of queries and documents have
    nothing to do with each other.

    >>> without_itself('1', {'1': 1.0, '2': 0.5}, {'2': 1})
    {'2': 0.5}
    """
    if judged.get(query, 0) >= 1:
        return scores
    return {document: scores[document] for document in scores if document != query}


def _truncated_ndcg(judged, scores):
    ndcg_score = base.extra('sklearn.metrics').ndcg_score
    best = sorted(scores, key=lambda d: (scores[d], d), reverse=True)[:PAPER_DEPTH]
    relevant_M = [float(judged.get(document, 0) >= 1) for document in best]
    if len(best) < 2:  # scikit-learn raises an error
        return sum(relevant_M)
    return ndcg_score([relevant_M], [[scores[document] for document in best]])
