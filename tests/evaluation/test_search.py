"""Exact search against sorting."""

import json

import children
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from jepa_text.evaluation import search
from jepa_text.evaluation.sets import retrieval


class Encoder:
    """Encodes texts as letter counts."""

    def encode(self, texts):
        counts = [[text.count(letter) for letter in 'abcdefgh'] for text in texts]
        return np.array(counts, np.float32)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Small blocks."""
    monkeypatch.setattr(search, 'BLOCK', 5)
    monkeypatch.setattr(search, 'QUERIES', 3)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([1, 7]),
    st.sampled_from([1, 12, 23]),
    st.sampled_from([1, 9]),
    st.integers(0, 99),
)
def test_top_k_equals_sorting(queries, documents, k, seed):
    """With small integers, whose products often tie: the smaller index comes first."""
    rng = np.random.default_rng(seed)
    queries_QD = rng.integers(-2, 3, (queries, 3)).astype(np.float32)
    corpus_ND = rng.integers(-2, 3, (documents, 3)).astype(np.float16)
    scores_QK, index_QK = search.top_k(queries_QD, corpus_ND, k)
    scores_QN = queries_QD @ corpus_ND.astype(np.float32).T
    expected_QK = np.argsort(-scores_QN, axis=1, kind='stable')[:, :k]
    assert_array_equal(index_QK, expected_QK)
    assert_array_equal(scores_QK, np.take_along_axis(scores_QN, expected_QK, 1))
    assert scores_QK.dtype == np.float32 and index_QK.dtype == np.int64


@pytest.mark.parametrize(
    'queries_QD, documents, k, words',
    [
        (np.ones((2, 2)), 9, 3, 'vector of document 7 or of query 0 is not finite'),
        (np.array([[1, 1], [1, np.inf]]), 7, 3, 'or of query 1 is not finite'),
        (np.ones((1, 2)), 9, 0, 'k=0 of 9 documents'),
        (np.ones((1, 2)), 0, 1, 'k=1 of 0 documents'),
        (np.ones((0, 2)), 9, 1, 'for 0 queries'),
    ],
)
def test_bad_input_raises(queries_QD, documents, k, words):
    corpus_ND = np.ones((9, 2), np.float32)
    corpus_ND[7, 1] = np.nan
    with pytest.raises(ValueError, match=words):
        search.top_k(queries_QD, corpus_ND[:documents], k)


def test_a_corpus_of_several_arrays_is_refused():
    with pytest.raises(ValueError, match='is a list of 2 items, .* one array'):
        search.top_k(np.ones((1, 2)), [np.ones((9, 2))] * 2, 3)


TEXTS = ['ab', 'bc', 'cd', 'de', 'ef', 'fg', 'gh', 'abc', 'bcd', 'cde']


def test_qrels_of_unknown_queries_raise():
    corpus = {f'd{number}': text for number, text in enumerate(TEXTS)}
    with pytest.raises(ValueError, match="1 queries that do not exist, the first 'q9'"):
        retrieval.Retrieval('letters', {}, corpus, {'q9': {'d0': 1}})


def test_ties_go_to_the_larger_id_and_a_query_does_not_find_itself():
    corpus = {'d1': 'ab', 'q': 'a', 'd3': 'ab', 'd2': 'ab', 'r': 'a'}
    qrels = {'q': {'d1': 1}, 'r': {'r': 1}}
    task = retrieval.Retrieval('letters', {'q': 'a', 'r': 'a'}, corpus, qrels)
    run = search.rank(Encoder(), task, k=3)
    assert [list(run[query]) for query in 'qr'] == [['r', 'd3', 'd2'], ['r', 'q', 'd3']]


PROGRAM = """
import json, resource, sys
import numpy as np
from jepa_text.evaluation import search
corpus_ND = np.load(sys.argv[1], mmap_mode='r')
queries_QD = np.ones((300, corpus_ND.shape[1]), np.float32)
search.top_k(queries_QD[:1], corpus_ND[:10_000], 10)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
search.top_k(queries_QD, corpus_ND, 100)
print(json.dumps((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024))
"""


@pytest.mark.slow
def test_memory_is_limited_to_a_block(tmp_path):
    """400,000 x 16: the 480 MB of products for 300 queries are never stored at once."""
    corpus_ND = np.random.default_rng(0).standard_normal((400_000, 16), np.float32)
    np.save(tmp_path / 'corpus.npy', corpus_ND)
    done = children.run('-c', PROGRAM, tmp_path / 'corpus.npy')
    assert json.loads(done.stdout.splitlines()[-1]) < 250
