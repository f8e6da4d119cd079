"""Documents ranked for queries by their words alone: the controls of retrieval."""

import numpy as np

from jepa_text.evaluation import controls
from jepa_text.evaluation.controls import words
from jepa_text.evaluation.metrics import base

BM25 = 'BM25'
K1, B = 1.2, 0.75
_BLOCK = 256  # queries at once


def runs(queries, corpus, top=100):
    """{control: run}, run {query: {document: score}} of at most `top` documents that
    share a word with the query, best first.

    queries, corpus    {id: text}

    TF-IDF    cosine of the vectors (1 + log tf) idf, idf = log((1 + N) / (1 + n)) + 1
    BM25      sum over the query's words of idf tf (k1 + 1) / (tf + k1 (1 - b + b |d| /
              mean |d|)), idf = log(1 + (N - n + 0.5) / (n + 0.5)), k1 = 1.2, b = 0.75
              (Robertson & Zaragoza 2009; idf as Lucene has it, never below 0)

    N documents, n of them with the word. Raises ValueError for a corpus without words.
    """
    text = base.extra('sklearn.feature_extraction.text')
    counter = text.CountVectorizer(analyzer=words.words, dtype=np.float64)
    try:
        counts_NW = counter.fit_transform(corpus.values())
    except ValueError as error:
        raise ValueError(
            f'None of {len(corpus)} documents has a word to be found by.'
        ) from error
    asked_QW = counter.transform(queries.values())
    weighted = text.TfidfTransformer(sublinear_tf=True).fit(counts_NW)
    pairs = {
        controls.TF_IDF: (weighted.transform(asked_QW), weighted.transform(counts_NW)),
        BM25: (asked_QW, bm25(counts_NW)),
    }
    return {
        control: _run(list(queries), list(corpus), *pair, top)
        for control, pair in pairs.items()
    }


def bm25(counts_NW):
    """Weights of the words of documents, sparse as their counts are."""
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


def _run(queries, documents, asked_QW, weights_NW, top):
    found, weights_WN = {}, weights_NW.T.tocsr()
    for start in range(0, len(queries), _BLOCK):
        scores_BN = (asked_QW[start : start + _BLOCK] @ weights_WN).tocsr()
        bounds = zip(scores_BN.indptr, scores_BN.indptr[1:])
        for query, (low, high) in zip(queries[start : start + _BLOCK], bounds):
            places, scores = scores_BN.indices[low:high], scores_BN.data[low:high]
            # Of equals the first document.
            order = np.lexsort((places, -scores))[:top]
            found[query] = {documents[places[i]]: float(scores[i]) for i in order}
    return found
