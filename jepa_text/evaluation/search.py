"""Exact top-k search over document vectors, and retrieval runs.

    top_k(queries_QD, corpus, k)    scores_QK and index_QK
    rank(model, task, k)            {query: {document: score}} of a Retrieval
    write_run(path, run, name)      the same as a TREC run file

Vectors have length 1, so products are cosines. No array has the size of queries x
documents: the corpus is read in blocks, and only products above a query's k-th best so
far are kept.
"""

import functools
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.evaluation.metrics import ranking
from jepa_text.files import atomic

# Documents and queries per product: 64 MB on a host. The first block is small, to get a
# k-th best score that only few documents of the larger blocks exceed.
BLOCK, FIRST, QUERIES = 65_536, 4_096, 256
# On a device, smaller blocks take less time than the call itself.
DEVICE_BLOCK = 262_144


def top_k(queries_QD, corpus, k):
    """Returns (scores_QK float32, index_QK int64) of the k largest products, in order.

    `corpus` is an array [N, D] or a list of arrays, e.g. memory-mapped files; indices
    count through all of them. Ties go to the smaller index. K is min(k, N). Products are
    computed in float32, by numpy on a CPU and by the device on an accelerator. Raises
    ValueError for different widths, an empty corpus, and values that are not finite.
    """
    shards = list(corpus) if isinstance(corpus, list | tuple) else [corpus]
    queries_QD = np.ascontiguousarray(queries_QD, np.float32)
    _check(queries_QD, shards, k)
    on_host = jax.default_backend() == 'cpu'
    size = BLOCK if on_host else DEVICE_BLOCK
    starts = range(0, len(queries_QD), QUERIES)
    parts = [queries_QD[start : start + QUERIES] for start in starts]
    merge = _on_device
    if on_host:
        # Reuse one buffer for all products, as the system zeroes each new one.
        capacity = min(size, sum(map(len, shards))) * min(QUERIES, len(queries_QD))
        merge = functools.partial(_on_host, np.empty(capacity, np.float32))
    best = [
        (np.zeros((len(p), 0), np.float32), np.zeros((len(p), 0), int)) for p in parts
    ]
    for start, block_MD in _blocks(shards, size):
        if not on_host:
            block_MD = jax.device_put(block_MD)
        merged = (merge(*pair, block_MD, start, k) for pair in zip(parts, best))
        best = list(map(jax.block_until_ready, merged))
    scores_QK, index_QK = map(np.concatenate, zip(*best))
    if len(bad := np.argwhere(~np.isfinite(scores_QK))):
        raise ValueError(_not_finite(index_QK[tuple(bad[0])]))
    return scores_QK, index_QK.astype(np.int64)


def rank(model, task, k=100):
    """Returns {query: {document: score}} of a Retrieval: k documents by cosine per query.

    Queries are those with judgments. Ties and documents that are the query itself are
    treated as in metrics/ranking.py. Raises ValueError for qrels of unknown queries.
    """
    queries = task.qrels | (task.validation_qrels or {})
    if unknown := [query for query in queries if query not in task.queries]:
        raise ValueError(
            f'{task.name}: the qrels name {len(unknown)} queries without a text, such as '
            f'{unknown[0]!r}.'
        )
    # `top_k` breaks ties by the index: the larger id first, as trec_eval does.
    names = sorted(task.corpus, reverse=True)
    corpus_ND = unit(model.encode([task.corpus[name] for name in names]))
    queries_QD = unit(model.encode([task.queries[query] for query in queries]))
    scores_QK, index_QK = top_k(queries_QD, corpus_ND, k + 1)
    run = {}
    for (query, judged), *row in zip(queries.items(), index_QK, scores_QK):
        scores = {names[i]: float(score) for i, score in zip(*row)}
        scores = ranking.without_itself(query, scores, judged)
        run[query] = dict(itertools.islice(scores.items(), k))
    return run


def write_run(path, run, name):
    """Writes {query: {document: score}} as lines 'query Q0 document rank score name'.

    Documents are written in descending order of scores, then of ids. Raises ValueError
    for names that are empty or contain whitespace, which separates fields.
    """
    check_names((name, *run, *itertools.chain.from_iterable(run.values())))
    lines = [
        f'{query} Q0 {document} {rank} {score!r} {name}\n'
        for query, scores in run.items()
        for rank, (document, score) in enumerate(
            sorted(scores.items(), key=lambda item: item[::-1], reverse=True), 1
        )
    ]
    atomic.write(path, ''.join(lines))


def check_names(names):
    """Raises ValueError for a name that write_run cannot write."""
    for name in names:
        if not re.fullmatch(r'\S+', str(name)):
            raise ValueError(
                f'{name!r} cannot be written to a run file: it is empty or contains '
                'whitespace. Give the query or document another id.'
            )


def unit(vectors_ND):
    """Scales vectors to length 1, [N, D] float32; zero vectors stay zero."""
    vectors_ND = np.asarray(vectors_ND, np.float32)
    lengths_N1 = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    return vectors_ND / np.maximum(lengths_N1, 1e-12)


def _on_host(room, queries_QD, best, block_MD, start, k):
    """Merges a block into `best`; ties keep their order, i.e. the smaller index first."""
    scores_QK, index_QK = best
    scores_MQ = room[: len(block_MD) * len(queries_QD)].reshape(len(block_MD), -1)
    # Documents x queries, as numpy computes tall products a third faster than wide ones.
    np.matmul(np.asarray(block_MD, np.float32), queries_QD.T, out=scores_MQ)
    # A vector that is not finite has such products with every query.
    if len(bad := np.flatnonzero(~np.isfinite(scores_MQ[:, 0]))):
        raise ValueError(_not_finite(start + bad[0]))
    rows = len(queries_QD)
    if scores_QK.shape[1] < k:
        kth = max(len(scores_MQ) - k, 0)
        bound_Q = np.partition(scores_MQ, kth, axis=0)[kth]
        places = np.flatnonzero(scores_MQ >= bound_Q)
    else:
        places = np.flatnonzero(scores_MQ > scores_QK[:, -1])
    document_P, query_P = np.divmod(places, rows)
    query_P = np.concatenate([np.repeat(np.arange(rows), scores_QK.shape[1]), query_P])
    scores_P = np.concatenate([scores_QK.ravel(), scores_MQ.ravel()[places]])
    index_P = np.concatenate([index_QK.ravel(), document_P + start])
    order_P = np.lexsort((-scores_P, query_P))
    first_Q = np.searchsorted(query_P[order_P], np.arange(rows))
    width = min(k, scores_QK.shape[1] + len(scores_MQ))
    kept_QK = order_P[first_Q[:, None] + np.arange(width)]
    return scores_P[kept_QK], index_P[kept_QK]


@functools.partial(jax.jit, static_argnames='k')
def _on_device(queries_QD, best, block_MD, start, k):
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


def _blocks(shards, size):
    """Yields (index of the first document, block_MD) through all shards."""
    begin = 0
    for shard in shards:
        start = 0
        while start < len(shard):
            block_MD = shard[start : start + (size if begin + start else FIRST)]
            yield begin + start, block_MD
            start += len(block_MD)
        begin += len(shard)


def _check(queries_QD, shards, k):
    if k < 1 or not sum(map(len, shards)):
        raise ValueError(
            f'k={k} of {sum(map(len, shards))} documents: both must be at least 1.'
        )
    widths = {shard.shape[-1] for shard in shards}
    if queries_QD.ndim != 2 or widths != {queries_QD.shape[-1]}:
        raise ValueError(
            f'Queries have shape {queries_QD.shape}, but documents have width '
            f'{sorted(widths)}: use vectors of the same model.'
        )
    if not len(queries_QD):
        raise ValueError('There are no queries: at least one is needed.')
    if not np.isfinite(queries_QD).all():
        raise ValueError('Query vectors must be finite.')


def _not_finite(number):
    return f'The vector of document {number:,} is not finite: encode it again.'
