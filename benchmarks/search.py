"""Exact search of random vectors: `search.top_k` beside faiss.

python benchmarks/search.py DOCUMENTS WIDTH QUERIES [--rounds=7]    as 1000000 384 100
"""

import harness
import numpy as np

K = 100


def vectors(documents, width, queries):
    """(corpus_ND, queries_QD), float32."""
    rng = np.random.default_rng(0)
    sizes = (int(documents), int(width)), (int(queries), int(width))
    return [rng.standard_normal(size, np.float32) for size in sizes]


def ours(*sizes):
    """Searches by the package."""
    from jepa_text.evaluation import search

    corpus_ND, queries_QD = vectors(*sizes)
    return lambda: search.top_k(queries_QD, corpus_ND, K)[0].ravel().tolist()


def theirs(*sizes):
    """Searches by faiss."""
    import faiss

    corpus_ND, queries_QD = vectors(*sizes)
    index = faiss.IndexFlatIP(corpus_ND.shape[1])
    index.add(corpus_ND)
    return lambda: index.search(queries_QD, K)[0].ravel().tolist()


if __name__ == '__main__':
    harness.main(__doc__, {'ours': ours, 'faiss': theirs})
