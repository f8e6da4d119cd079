"""Ranking metrics against ir-measures, formulas, and the paper's example."""

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jepa_text.evaluation.metrics import ranking

DOCUMENTS = [f'd{number}' for number in range(14)]
RELEVANCE = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(0, 3), min_size=1)


@st.composite
def judged_runs(draw):
    qrels = {f'q{n}': draw(RELEVANCE) for n in range(draw(st.integers(1, 4)))}
    run = {}
    for query in qrels:
        found = draw(st.lists(st.sampled_from(DOCUMENTS), unique=True))
        # No ties, which libraries break differently.
        scores = draw(st.permutations(range(len(found))))
        run[query] = {d: score - 5.5 for d, score in zip(found, scores)}
    return qrels, run


def order(scores):
    return sorted(scores, key=lambda document: -scores[document])


def dcg(gains):
    return sum(gain / np.log2(rank + 2) for rank, gain in enumerate(gains))


@settings(max_examples=25, deadline=None)
@given(both=judged_runs())
def test_values_follow_the_formulas(both):
    qrels, run = both
    found = ranking.measure(qrels, run)
    expected = {name: [] for name in ('ndcg@10', 'mrr@10', 'recall@100')}
    paper = []
    for query, judged in qrels.items():
        gains = [judged.get(document, 0) for document in order(run[query])]
        ideal = dcg(sorted(judged.values(), reverse=True)[:10])
        expected['ndcg@10'].append(dcg(gains[:10]) / ideal if ideal else 0)
        first = next((rank for rank, gain in enumerate(gains[:10], 1) if gain), None)
        expected['mrr@10'].append(1 / first if first else 0)
        relevant = sum(gain > 0 for gain in judged.values())
        expected['recall@100'].append(
            sum(gain > 0 for gain in gains[:100]) / max(1, relevant)
        )
        binary = [float(gain > 0) for gain in gains[:10]]
        best = dcg(sorted(binary, reverse=True))
        paper.append(dcg(binary) / best if best else 0)
    for name, values in expected.items():
        assert found.per_instance[name].tolist() == pytest.approx(values)
        assert found.standard[name] == pytest.approx(np.mean(values))
    assert found.per_instance['paper_ndcg@10'].tolist() == pytest.approx(paper)
    assert found.paper == {'ndcg@10': pytest.approx(np.mean(paper))}


@settings(max_examples=20, deadline=None)
@given(both=judged_runs())
def test_means_equal_ir_measures(both):
    names = 'nDCG@10', 'RR@10', 'R@100'
    measures = [ir_measures.parse_measure(name) for name in names]
    theirs = ir_measures.calc_aggregate(measures, *both)
    ours = ranking.measure(*both).standard
    assert list(ours.values()) == pytest.approx([theirs[one] for one in measures])


def test_the_papers_ndcg_is_one_for_three_of_twenty_on_top():
    qrels = {'q': {f'r{number}': 1 for number in range(20)}}
    run = {'q': {f'r{n}': 10.0 - n for n in range(3)} | {f'x{n}': -n for n in range(9)}}
    found = ranking.measure(qrels, run)
    assert found.paper == {'ndcg@10': pytest.approx(1.0)}
    assert found.standard['ndcg@10'] == pytest.approx(0.469, abs=5e-4)


def test_the_papers_ndcg_averages_ties_and_is_binary():
    tied = ranking.measure({'q': {'a': 1}}, {'q': {'b': 0.5, 'a': 0.5}})
    assert tied.paper['ndcg@10'] == pytest.approx((1 + 1 / np.log2(3)) / 2)
    graded = ranking.measure({'q': {'a': 1, 'b': 3}}, {'q': {'a': 2.0, 'b': 1.0}})
    assert graded.paper['ndcg@10'] == pytest.approx(1)
    assert graded.standard['ndcg@10'] < 0.9


def test_ties_are_broken_alike_by_all_metrics_and_in_the_order_of_trec_eval():
    judged, scores = {'b': 1}, {'a': 1.0, 'b': 1.0, 'c': 1 + 1e-9}
    names = 'ndcg@10', 'mrr@10'
    for others, rank in (('a', 1), ('c', 2), ('ac', 2)):
        run = {'q': {d: scores[d] for d in (*others, 'b')}}
        found = ranking.measure({'q': judged}, run)
        expected = 1 / np.log2(rank + 1), 1 / rank
        assert [found.standard[name] for name in names] == pytest.approx(expected)
        (theirs,) = ir_measures.iter_calc([ir_measures.nDCG @ 10], {'q': judged}, run)
        assert theirs.value == found.standard['ndcg@10']
    # Of eleven equal scores, the paper's top ten lack the smallest id.
    run = {'q': {f'd{n:02d}': 1.0 for n in range(11)}}
    assert ranking.measure({'q': {'d00': 1}}, run).paper['ndcg@10'] == 0
    assert ranking.measure({'q': {'d01': 1}}, run).paper['ndcg@10'] > 0


@pytest.mark.parametrize(
    'judged', [{'b': 1}, {'b': 1, 'q': 0}, {'b': 1, 'q': 1}, {'q': 1}]
)
def test_a_query_does_not_find_itself_unless_it_is_judged_relevant(judged):
    run = {'q': {'q': 3.0, 'b': 2.0, 'c': 1.0}}
    assert ranking.measure({'q': judged}, run).standard['mrr@10'] == 1


def test_queries_without_results_count_as_zero():
    qrels = {'z': {'a': 1.0}, 'gone': {'a': 1}, 'none': {'a': 0, 'b': -1}, 'y': {'b': 1}}
    run = {'y': {'b': 1.0}, 'none': {'b': 1.0}, 'z': {'b': 2.0}}
    found = ranking.measure(qrels, run)
    for name, values_N in found.per_instance.items():
        assert values_N.tolist() == [0, 0, 0, 1], name
    assert ranking.measure(qrels, {}).standard['ndcg@10'] == 0
    assert ranking.measure(qrels, {'z': {}}).paper['ndcg@10'] == 0
