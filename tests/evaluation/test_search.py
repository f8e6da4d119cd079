"""Exact search against sorting, and run files."""

import json
import subprocess
import sys
from pathlib import Path

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
    for name, size in dict(BLOCK=5, FIRST=2, QUERIES=3, DEVICE_BLOCK=5).items():
        monkeypatch.setattr(search, name, size)


def sorted_whole(queries_QD, corpus_ND, k):
    scores_QN = queries_QD @ corpus_ND.T
    index_QK = np.argsort(-scores_QN, axis=1, kind='stable')[:, :k]
    return np.take_along_axis(scores_QN, index_QK, 1), index_QK


@pytest.mark.slow
@pytest.mark.parametrize('platform', ['cpu', 'gpu'])
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([1, 7]),
    st.sampled_from([1, 12, 23]),
    st.sampled_from([1, 9]),
    st.integers(0, 99),
)
def test_top_k_equals_sorting(platform, queries, documents, k, seed):
    """With small integers, whose products often tie: the smaller index comes first."""
    rng = np.random.default_rng(seed)
    queries_QD = rng.integers(-2, 3, (queries, 3)).astype(np.float32)
    corpus_ND = rng.integers(-2, 3, (documents, 3)).astype(np.float16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search.jax, 'default_backend', lambda: platform)
        for corpus in (corpus_ND, np.array_split(corpus_ND, 3)):
            scores_QK, index_QK = search.top_k(queries_QD, corpus, k)
            expected = sorted_whole(queries_QD, corpus_ND.astype(np.float32), k)
            assert_array_equal(scores_QK, expected[0])
            assert_array_equal(index_QK, expected[1])
            assert scores_QK.dtype == np.float32 and index_QK.dtype == np.int64


@pytest.mark.parametrize('platform', ['cpu', 'gpu'])
def test_values_that_are_not_finite_raise(monkeypatch, platform):
    monkeypatch.setattr(search.jax, 'default_backend', lambda: platform)
    corpus_ND = np.ones((9, 2), np.float32)
    corpus_ND[7, 1] = np.nan
    with pytest.raises(ValueError, match='vector of document 7 is not finite'):
        search.top_k(np.ones((2, 2)), corpus_ND, 3)
    for queries_QD, corpus, k, words in (
        (np.full((2, 2), np.inf), corpus_ND, 3, 'Query vectors must be finite'),
        (np.ones((1, 3)), corpus_ND, 3, r'shape \(1, 3\), but documents have width'),
        (np.ones((1, 2)), corpus_ND, 0, 'k=0 of 9 documents'),
        (np.ones((1, 2)), [], 1, 'k=1 of 0 documents'),
        (np.ones((0, 2)), corpus_ND, 1, 'There are no queries'),
    ):
        with pytest.raises(ValueError, match=words):
            search.top_k(queries_QD, corpus, k)


TEXTS = ['ab', 'bc', 'cd', 'de', 'ef', 'fg', 'gh', 'abc', 'bcd', 'cde']


def test_run_files_are_read_by_ir_measures(tmp_path):
    ir_measures = pytest.importorskip('ir_measures')
    corpus = {f'd{number}': text for number, text in enumerate(TEXTS)}
    task = retrieval.Retrieval(
        'letters',
        {'q1': 'ab', 'q2': 'gh', 'left out': 'x'},
        corpus,
        {'q1': {'d0': 1}, 'q2': {'d6': 1}},
    )
    run = search.rank(Encoder(), task, k=3)
    assert list(run) == ['q1', 'q2'] and list(run['q1'])[:2] == ['d0', 'd7']
    search.write_run(tmp_path / 'letters.run', run, 'toy')
    lines = (tmp_path / 'letters.run').read_text().splitlines()
    assert lines[0].split()[:4] == ['q1', 'Q0', 'd0', '1'] and lines[0].endswith(' toy')
    found = {}
    for one in ir_measures.read_trec_run(str(tmp_path / 'letters.run')):
        found.setdefault(one.query_id, {})[one.doc_id] = one.score
    assert found == run
    measured = ir_measures.calc_aggregate([ir_measures.RR @ 10], task.qrels, found)
    assert measured[ir_measures.RR @ 10] == 1.0
    with pytest.raises(ValueError, match="'a b' cannot be written to a run file"):
        search.write_run(tmp_path / 'x.run', {'q': {'a b': 1.0}}, 'toy')
    strange = retrieval.Retrieval('letters', {}, corpus, {'q9': {'d0': 1}})
    with pytest.raises(ValueError, match="1 queries without a text, such as 'q9'"):
        search.rank(Encoder(), strange)


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
    done = subprocess.run(
        [sys.executable, '-c', PROGRAM, str(tmp_path / 'corpus.npy')],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) < 250
