"""Exact top-k search over document vectors, and ranking of a retrieval task.

Vectors have length 1, so products are cosines. No array has the size of queries x
documents: the corpus is read in blocks, and only the k best of a query are kept.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.evaluation.metrics import ranking

DEPTH = 100  # ranked documents per query
BLOCK, QUERIES = 65_536, 256  # documents and queries per product: 64 MB


def top_k(queries_QD, corpus_ND, k):
    """Returns (scores_QK float32, index_QK int64) of the k largest products, in order.

    The corpus may be a memory-mapped file. Ties go to the smaller index. K is min(k, N).
    Products are computed in float32. Raises ValueError without queries or documents, for
    a corpus that is not one array, and for values that are not finite.
    """
    queries_QD = np.asarray(queries_QD, np.float32)
    documents = len(corpus_ND)
    if min(k, len(queries_QD), documents) < 1:
        raise ValueError(
            f'k={k} of {documents} documents for {len(queries_QD)} queries: each must be '
            'at least 1.'
        )
    if getattr(corpus_ND, 'ndim', 0) != 2:
        raise ValueError(
            f'The corpus is a {type(corpus_ND).__name__} of {documents} items, but must '
            'be one array [N, D], such as a memory-mapped file.'
        )
    parts = [queries_QD[i : i + QUERIES] for i in range(0, len(queries_QD), QUERIES)]
    best = [
        (np.zeros((len(p), 0), np.float32), np.zeros((len(p), 0), int)) for p in parts
    ]
    for start in range(0, documents, BLOCK):
        block_MD = jax.device_put(corpus_ND[start : start + BLOCK])
        merged = (_merged(*both, block_MD, start, k) for both in zip(parts, best))
        best = list(map(jax.block_until_ready, merged))
    scores_QK, index_QK = map(np.concatenate, zip(*best))
    if len(bad := np.argwhere(~np.isfinite(scores_QK))):
        query, rank = bad[0]
        raise ValueError(
            f'The vector of document {index_QK[query, rank]:,} or of query {query:,} is '
            'not finite: encode it again.'
        )
    return scores_QK, index_QK.astype(np.int64)


def rank(model, task, k=DEPTH):
    """Returns {query: {document: score}} of a Retrieval: k documents by cosine per query.

    Queries are those with judgments. Ties and documents that are the query itself are
    treated as in metrics/ranking.py. None if a vector is not finite.
    """
    queries = task.qrels | (task.validation_qrels or {})
    # `top_k` breaks ties by the index: the larger id first, as trec_eval does.
    names = sorted(task.corpus, reverse=True)
    corpus_ND = unit(model.encode([task.corpus[name] for name in names]))
    queries_QD = unit(model.encode([task.queries[query] for query in queries]))
    if not (np.isfinite(corpus_ND).all() and np.isfinite(queries_QD).all()):
        return None
    scores_QK, index_QK = top_k(queries_QD, corpus_ND, k + 1)
    run = {}
    for (query, judged), *row in zip(queries.items(), index_QK, scores_QK):
        scores = {names[i]: float(score) for i, score in zip(*row)}
        scores = ranking.without_itself(query, scores, judged)
        run[query] = dict(itertools.islice(scores.items(), k))
    return run


def unit(vectors_ND):
    """Scales vectors to length 1, [N, D] float32; zero vectors stay zero."""
    vectors_ND = np.asarray(vectors_ND, np.float32)
    lengths_N1 = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    return vectors_ND / np.maximum(lengths_N1, 1e-12)


@functools.partial(jax.jit, static_argnames='k')
def _merged(queries_QD, best, block_MD, start, k):
    """Returns the k best products of each query in `best` and in a block."""
    scores_QK, index_QK = best
    product = dict(precision='highest', preferred_element_type=jnp.float32)
    scores_QM = jnp.matmul(queries_QD, block_MD.astype(jnp.float32).T, **product)
    # Put products that are not finite first, so that `top_k` raises an error.
    scores_QM = jnp.where(jnp.isfinite(scores_QM), scores_QM, jnp.inf)
    index_QM = jnp.broadcast_to(start + jnp.arange(len(block_MD)), scores_QM.shape)
    # lax.top_k prefers the first of equal values, and kept ones have smaller indices.
    scores_QP = jnp.concatenate([scores_QK, scores_QM], axis=1)
    index_QP = jnp.concatenate([index_QK, index_QM], axis=1)
    scores_QK, place_QK = jax.lax.top_k(scores_QP, min(k, scores_QP.shape[1]))
    return scores_QK, jnp.take_along_axis(index_QP, place_QK, axis=1)
