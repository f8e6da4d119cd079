"""Rankings of documents: nDCG@10, MRR@10, recall@100, and the paper's nDCG."""

import numpy as np

from jepa_text.evaluation.metrics import base

PAPER_DEPTH = 10


def measure(qrels, run):
    """Measured of {query: {document: score}} against {query: {document: relevance}}.

    ndcg@10       DCG@10 = sum of relevance / log2(rank + 1), over that of the best order
                  of all relevant documents, found or not (Järvelin & Kekäläinen 2002)
    mrr@10        1 / rank of the first relevant document among ten, else 0
    recall@100    share of the relevant documents among the first hundred
    paper: ndcg@10    of relevance 1 or 0, over the best order of the ten that were found
                  only, equal scores averaged (arXiv 2507.00994, §3): 1 for three of
                  twenty on top

    By ir-measures (trec_eval's, but for MRR, MS MARCO's) and scikit-learn. Relevance is
    a whole number, relevant from 1 on; documents without are not. A query that
    the run lacks, or that has no relevant document, counts as 0. Instances are the
    queries of `qrels`, in its order. Raises ValueError for queries of the run that
    `qrels` lacks and scores that are not finite.
    """
    ir_measures = base.extra('ir_measures')
    qrels = _checked(qrels, run)
    names = {
        ir_measures.nDCG @ 10: 'ndcg@10',
        ir_measures.RR @ 10: 'mrr@10',
        ir_measures.R @ 100: 'recall@100',
    }
    place = {query: index for index, query in enumerate(qrels)}
    per_instance = {name: np.zeros(len(qrels)) for name in names.values()}
    for found in ir_measures.iter_calc(list(names), qrels, run):
        per_instance[names[found.measure]][place[found.query_id]] = found.value
    standard = {name: float(values_N.mean()) for name, values_N in per_instance.items()}
    per_instance['paper_ndcg@10'] = np.array(
        [_truncated_ndcg(qrels[query], run.get(query, {})) for query in qrels]
    )
    paper = {'ndcg@10': float(per_instance['paper_ndcg@10'].mean())}
    return base.Measured(standard, paper, per_instance)


def _checked(qrels, run):
    """The qrels, their relevance as int; ValueError for what cannot be measured."""
    if not qrels:
        raise ValueError('qrels are empty: there is no query to measure.')
    unknown = [query for query in run if query not in qrels]
    if unknown:
        raise ValueError(
            f'The run has {len(unknown)} queries that qrels lack, such as '
            f'{unknown[0]!r}: measure it with the qrels of its own split.'
        )
    for query, scores in run.items():
        scores_M = np.array(list(scores.values()), np.float64)
        base.check_finite(scores_M, f'scores of query {query!r}')
    checked = {}
    for query, judged in qrels.items():
        odd = [d for d, value in judged.items() if not float(value).is_integer()]
        if odd:
            raise ValueError(
                f'qrels of {query!r}: the relevance of {odd[0]!r} is {judged[odd[0]]}, '
                'but must be a whole number.'
            )
        checked[query] = {d: int(value) for d, value in judged.items()}
    return checked


def _truncated_ndcg(judged, scores):
    ndcg_score = base.extra('sklearn.metrics').ndcg_score
    best = sorted(scores, key=scores.get, reverse=True)[:PAPER_DEPTH]
    relevant_M = [float(judged.get(document, 0) >= 1) for document in best]
    if len(best) < 2:  # which scikit-learn refuses
        return sum(relevant_M)
    return ndcg_score([relevant_M], [[scores[document] for document in best]])
