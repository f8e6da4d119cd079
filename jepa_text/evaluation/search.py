"""Exact search: the documents whose vectors have the largest products with a query's.

    encode_corpus(model, texts, folder)     vectors of documents, in shards on the disk
    open_corpus(folder)                     the shards, mapped: a corpus for `top_k`
    top_k(queries_QD, corpus, k)            scores_QK and index_QK
    rank(model, task, k, folder)            {query: {document: score}} of a Retrieval
    write_run(path, run, name)              the same as a run file of TREC

Vectors are of length 1, so that a product is a cosine. No array is as large as queries by
documents: block by block of the corpus, what beats the worst of a query's best is kept.
"""

import functools
import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.evaluation import identity
from jepa_text.files import atomic, checksums

# Documents in a file of vectors, documents whose products are taken at once, and queries:
# 64 MB of products on a host. The first block is small: only from then on there is a
# worst of the best, which few of a larger block beat.
SHARD, BLOCK, FIRST, QUERIES = 100_000, 65_536, 4_096, 256
# A device computes so many products in the time that it takes to be called.
DEVICE_BLOCK = 262_144
DTYPES = ('float32', 'float16')


def encode_corpus(model, texts, folder, dtype='float32', prompt='', tell=print):
    """The vectors of a list of texts as `folder`/vectors-*.npy of SHARD documents each.

    A shard appears whole; what a stopped call has finished is not encoded again. `prompt`
    comes before each text. Raises ValueError for a folder that holds the vectors of
    another model, other texts or another dtype, and for vectors that are not finite.
    """
    if dtype not in DTYPES:
        raise ValueError(f'dtype={dtype!r}; there are: {", ".join(DTYPES)}.')
    folder, texts = Path(folder), list(texts)
    folder.mkdir(parents=True, exist_ok=True)
    _claim(folder, _described(model, texts, dtype, prompt))
    starts = range(0, len(texts), SHARD)
    for number, start in enumerate(starts):
        path = folder / f'vectors-{number:05d}.npy'
        if path.exists():
            continue
        tell(f'{start:,} of {len(texts):,} documents encoded')
        part = [prompt + text for text in texts[start : start + SHARD]]
        _write_array(path, unit(model.encode(part)).astype(dtype))
    return open_corpus(folder)


def open_corpus(folder):
    """The shards of `encode_corpus`, mapped.

    Raises FileNotFoundError for a folder without any, ValueError where some are missing.
    """
    folder = Path(folder)
    if not (folder / 'corpus.json').is_file():
        raise FileNotFoundError(f'{folder} holds no corpus.json: call encode_corpus.')
    count = checksums.read_json(folder / 'corpus.json')['documents']
    paths = sorted(folder.glob('vectors-*.npy'))
    shards = [np.load(path, mmap_mode='r', allow_pickle=False) for path in paths]
    if (found := sum(map(len, shards))) != count:
        raise ValueError(
            f'{folder} holds {found:,} of {count:,} vectors: encode_corpus with the same '
            'model and texts makes those that are missing.'
        )
    return shards


def top_k(queries_QD, corpus, k):
    """(scores_QK float32, index_QK int64): the k largest products, the largest first.

    `corpus` is an array [N, D] or a list of such, as mapped files; indices count through
    all. Of equal products the smaller index comes first. K is min(k, N). On a CPU the
    products are numpy's and on an accelerator the device's, float32 in both. Raises
    ValueError for widths that differ, an empty corpus, and what is not finite.
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
        # One array for all products: the kernel would clear a new one each time.
        room = min(size, sum(map(len, shards))) * min(QUERIES, len(queries_QD))
        merge = functools.partial(_on_host, np.empty(room, np.float32))
    best = [
        (np.zeros((len(p), 0), np.float32), np.zeros((len(p), 0), int)) for p in parts
    ]
    for start, block_MD in _blocks(shards, size):
        if not on_host:
            block_MD = jax.device_put(block_MD)
        best = [merge(*pair, block_MD, start, k) for pair in zip(parts, best)]
    scores_QK, index_QK = map(np.concatenate, zip(*best))
    if len(bad := np.argwhere(~np.isfinite(scores_QK))):
        raise ValueError(_not_finite(index_QK[tuple(bad[0])]))
    return scores_QK, index_QK.astype(np.int64)


def rank(model, task, k=100, folder=None, prompts=('', ''), dtype='float32'):
    """{query: {document: score}}: for each judged query of a Retrieval the k documents of
    the largest cosines.

    `prompts` come before queries and documents. With `folder` the documents' vectors are
    kept there (`encode_corpus`). Raises ValueError for qrels of unknown queries.
    """
    asked = dict.fromkeys([*task.qrels, *(task.validation_qrels or ())])
    if unknown := [query for query in asked if query not in task.queries]:
        raise ValueError(
            f'{task.name}: qrels name {len(unknown)} queries that have no text, such as '
            f'{unknown[0]!r}.'
        )
    names, texts = list(task.corpus), list(task.corpus.values())
    if folder is None:
        corpus = unit(model.encode([prompts[1] + text for text in texts]))
    else:
        corpus = encode_corpus(model, texts, folder, dtype, prompts[1])
    queries_QD = unit(model.encode([prompts[0] + task.queries[query] for query in asked]))
    scores_QK, index_QK = top_k(queries_QD, corpus, k)
    return {
        query: {names[i]: float(score) for i, score in zip(*row)}
        for query, *row in zip(asked, index_QK, scores_QK)
    }


def write_run(path, run, name):
    """Writes {query: {document: score}} as lines 'query Q0 document rank score name', the
    best first. Raises ValueError for names with white space, which end a field."""
    for one in (name, *run, *(document for found in run.values() for document in found)):
        if not re.fullmatch(r'\S+', str(one)):
            raise ValueError(
                f'{one!r} cannot stand in a run file: it is empty or has gaps.'
            )
    lines = [
        f'{query} Q0 {document} {place} {score!r} {name}\n'
        for query, found in run.items()
        for place, (document, score) in enumerate(
            sorted(found.items(), key=lambda item: -item[1]), 1
        )
    ]
    atomic.write(path, ''.join(lines))


def unit(vectors_ND):
    """Vectors scaled to length 1, [N, D] float32; zeros stay zeros."""
    vectors_ND = np.asarray(vectors_ND, np.float32)
    lengths_N1 = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    return vectors_ND / np.maximum(lengths_N1, 1e-12)


def _on_host(room, queries_QD, best, block_MD, start, k):
    """The k best of `best` and a block; equal ones keep their order, the index's."""
    scores_QK, index_QK = best
    scores_MQ = room[: len(block_MD) * len(queries_QD)].reshape(len(block_MD), -1)
    # Documents first: as tall products numpy's run a third faster than as wide ones.
    np.matmul(np.asarray(block_MD, np.float32), queries_QD.T, out=scores_MQ)
    # A bad vector has bad products with every query.
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


def _on_device(queries_QD, best, block_MD, start, k):
    found = _merged(queries_QD, *best, block_MD, start, k=k)
    return jax.block_until_ready(found)


def _merge(queries_QD, scores_QK, index_QK, block_MD, start, *, k):
    product = dict(precision='highest', preferred_element_type=jnp.float32)
    scores_QM = jnp.matmul(queries_QD, block_MD.astype(jnp.float32).T, **product)
    # What is not finite comes first, for `top_k` to find.
    scores_QM = jnp.where(jnp.isfinite(scores_QM), scores_QM, jnp.inf)
    index_QM = jnp.broadcast_to(start + jnp.arange(len(block_MD)), scores_QM.shape)
    # Of equal ones lax.top_k takes the first, and the kept have smaller indices.
    scores_QP = jnp.concatenate([scores_QK, scores_QM], axis=1)
    index_QP = jnp.concatenate([index_QK, index_QM], axis=1)
    scores_QK, place_QK = jax.lax.top_k(scores_QP, min(k, scores_QP.shape[1]))
    return scores_QK, jnp.take_along_axis(index_QP, place_QK, axis=1)


_merged = jax.jit(_merge, static_argnames='k')


def _blocks(shards, size):
    """(index of its first document, block_MD) through all shards."""
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
            f'k={k} of {sum(map(len, shards))} documents: give at least one.'
        )
    widths = {shard.shape[-1] for shard in shards}
    if queries_QD.ndim != 2 or widths != {queries_QD.shape[-1]}:
        raise ValueError(
            f'queries of shape {queries_QD.shape}, but vectors of width '
            f'{sorted(widths)}: both must be of one model.'
        )
    if not len(queries_QD):
        raise ValueError('there is no query to find documents for.')
    if not np.isfinite(queries_QD).all():
        raise ValueError('queries that are not finite have no best documents.')


def _not_finite(number):
    return f'document {number:,} has a vector that is not finite: encode it again.'


def _described(model, texts, dtype, prompt):
    return {
        'model': identity.of(model),
        'documents': len(texts),
        'texts': checksums.checksum(texts),
        'prompt': prompt,
        'dtype': dtype,
        'shard': SHARD,
    }


def _claim(folder, described):
    path = folder / 'corpus.json'
    if not path.exists():
        atomic.write(path, json.dumps(described, indent=1))
    found = checksums.read_json(path)
    if differs := [key for key in described if found.get(key) != described[key]]:
        raise ValueError(
            f'{folder} holds vectors of other {", ".join(differs)}: give another folder, '
            'or delete this one.'
        )


def _write_array(path, vectors_ND):
    if not np.isfinite(vectors_ND).all():
        bad = int(np.flatnonzero(~np.isfinite(vectors_ND).all(axis=1))[0])
        raise ValueError(f'{path}: {_not_finite(bad)}')
    partial = path.with_name(path.name + '.tmp')
    with open(partial, 'wb') as file:
        np.save(file, vectors_ND, allow_pickle=False)
    atomic.flush(partial)
    partial.replace(path)
    atomic.flush(path.parent)
