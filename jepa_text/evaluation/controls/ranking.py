"""Lexical retrieval baselines: TF-IDF and BM25 rankings of documents for queries."""

import functools
import types

import numpy as np

from jepa_text.evaluation import controls, search
from jepa_text.evaluation.controls import words
from jepa_text.evaluation.metrics import base

BM25 = 'BM25'
CONTROLS = (controls.TF_IDF, BM25)
K1, B = 1.2, 0.75
_BLOCK = 256  # queries per matrix product


def predictions(task, chosen, model):
    """Returns {control: (run of the validation queries, of the test queries)} of the
    `chosen` controls of a Retrieval; `model` is needed for the bag of embeddings only."""
    made, sides = {}, (task.validation_qrels or {}, task.qrels)
    if set(CONTROLS) & set(chosen):
        queries = {query: task.queries[query] for qrels in sides for query in qrels}
        # One more, as metrics leave out the document of a query's own id.
        made = runs(queries, task.corpus, search.DEPTH + 1)
    if controls.BAG in chosen:
        encode = functools.partial(controls.bag_of_embeddings, model)
        made[controls.BAG] = search.rank(types.SimpleNamespace(encode=encode), task)
    return {
        name: [{query: run[query] for query in qrels} for qrels in sides]
        for name, run in made.items()
    }


def runs(queries, corpus, top=100):
    """Returns {control: run}, where a run is {query: {document: score}}, the best first.

    queries, corpus    {id: text}
    top                at most so many documents per query; all share a word with it

    TF-IDF    cosine of the vectors (1 + log tf) idf, idf = log((1 + N) / (1 + n)) + 1
    BM25      sum over the query's words of idf tf (k1 + 1) / (tf + k1 (1 - b + b |d| /
              mean |d|)), idf = log(1 + (N - n + 0.5) / (n + 0.5)), k1 = 1.2, b = 0.75
              (Robertson & Zaragoza 2009; idf as in Lucene, never below 0)

    Words are `words.terms`, n of the N documents contain the word. Of equal scores,
    rounded to float32, the larger id comes first, as in metrics/ranking.py. Raises
    ValueError for a corpus without words.
    """
    corpus = dict(sorted(corpus.items(), reverse=True))
    text = base.extra('sklearn.feature_extraction.text')
    counter = text.CountVectorizer(analyzer=words.terms, dtype=np.float64)
    try:
        counts_NW = counter.fit_transform(corpus.values())
    except ValueError as error:
        raise ValueError(
            f'None of {len(corpus)} documents contains a word, so none can be ranked.'
        ) from error
    queries_QW = counter.transform(queries.values())
    transformer = text.TfidfTransformer(sublinear_tf=True).fit(counts_NW)
    pairs = {
        controls.TF_IDF: (
            transformer.transform(queries_QW),
            transformer.transform(counts_NW),
        ),
        BM25: (queries_QW, bm25(counts_NW)),
    }
    return {
        control: _run(list(queries), list(corpus), *pair, top)
        for control, pair in pairs.items()
    }


def bm25(counts_NW):
    """Returns the BM25 weights of documents' words, as sparse as the word counts."""
    from scipy import sparse

    weights_NW = sparse.csr_array(counts_NW, dtype=np.float64, copy=True)
    count = weights_NW.shape[0]
    found_W = np.bincount(weights_NW.indices, minlength=weights_NW.shape[1])
    idf_W = np.log1p((count - found_W + 0.5) / (found_W + 0.5))
    length_N = weights_NW.sum(axis=1)
    norm_N = K1 * (1 - B + B * length_N / length_N.mean())
    of_M = np.repeat(norm_N, np.diff(weights_NW.indptr))
    tf_M = weights_NW.data
    weights_NW.data = idf_W[weights_NW.indices] * tf_M * (K1 + 1) / (tf_M + of_M)
    return weights_NW


def _run(queries, documents, queries_QW, weights_NW, top):
    """Returns {query: {document: score}} by the sparse product of queries and weights."""
    run, weights_WN = {}, weights_NW.T.tocsr()
    for start in range(0, len(queries), _BLOCK):
        scores_BN = (queries_QW[start : start + _BLOCK] @ weights_WN).tocsr()
        bounds = zip(scores_BN.indptr, scores_BN.indptr[1:])
        for query, (low, high) in zip(queries[start : start + _BLOCK], bounds):
            places = scores_BN.indices[low:high]
            # Sums of the same weights in another order differ by rounding errors.
            scores = scores_BN.data[low:high].astype(np.float32)
            order = np.lexsort((places, -scores))[:top]
            run[query] = {documents[places[i]]: float(scores[i]) for i in order}
    return run
