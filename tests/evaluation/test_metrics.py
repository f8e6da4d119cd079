"""Metrics against other libraries, formulas and papers, and their input checks."""

import json
import sys
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from seqeval import metrics as seqeval_metrics
from seqeval.scheme import IOB2
from sklearn import metrics

from jepa_text.evaluation.metrics import answers, ranking, spans, tags
from jepa_text.measures import statistics

LABELS = ('contradiction', 'entailment', 'neutral')
PAIRS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30)


@settings(max_examples=25, deadline=None)
@given(pairs=PAIRS)
def test_classes_equal_scikit_learn(pairs):
    gold, said = zip(*[(LABELS[g], LABELS[p]) for g, p in pairs])
    found = answers.classes(gold, said, LABELS)
    accuracy = metrics.accuracy_score(gold, said)
    expected = {
        'accuracy': accuracy,
        'macro_f1': metrics.f1_score(gold, said, average='macro', zero_division=0),
        'mcc': metrics.matthews_corrcoef(gold, said),
    }
    assert found.standard == pytest.approx(expected)
    assert found.paper == {'accuracy': pytest.approx(accuracy)}
    right_N = found.per_instance['accuracy']
    assert right_N.tolist() == [float(g == p) for g, p in zip(gold, said)]


@settings(max_examples=25, deadline=None)
@given(pairs=PAIRS)
def test_binary_f1_is_that_of_the_second_class(pairs):
    gold_N, said_N = np.array(pairs).T > 0
    found = answers.classes(gold_N.astype(str), said_N.astype(str), ['False', 'True'])
    expected = metrics.f1_score(gold_N, said_N, zero_division=0)
    assert found.standard['f1'] == pytest.approx(expected)
    swapped = answers.classes(gold_N, said_N, [True, False]).standard['f1']
    expected = metrics.f1_score(~gold_N, ~said_N, zero_division=0)
    assert swapped == pytest.approx(expected)
    # Values of instances, of which intervals over texts are made.
    for name, values_N in found.per_instance.items():
        assert values_N.mean() == pytest.approx(found.standard[name])


# Few numbers, so that there are ties.
NUMBERS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(-3, 3)), min_size=2, max_size=30
).filter(lambda pairs: all(len(set(side)) > 1 for side in zip(*pairs)))


@settings(max_examples=25, deadline=None)
@given(pairs=NUMBERS)
def test_scores_equal_scipy_and_the_means_of_instances(pairs):
    gold_N, said_N = np.array(pairs, float).T
    found = answers.scores(gold_N, said_N)
    both = {'spearman': stats.spearmanr, 'pearson': stats.pearsonr}
    expected = {name: of(gold_N, said_N).statistic for name, of in both.items()}
    assert found.standard == pytest.approx(expected, abs=1e-9)
    assert found.paper == {'spearman': found.standard['spearman']}
    means = {name: values_N.mean() for name, values_N in found.per_instance.items()}
    assert means == pytest.approx(expected, abs=1e-9)


def test_constant_scores_are_zero():
    found = answers.scores([1.0, 2.0, 3.0], [0.5, 0.5, 0.5])
    assert found.standard == {'spearman': 0, 'pearson': 0}
    assert found.per_instance['spearman'].tolist() == [0, 0, 0]


TYPES = ('PER', 'LOC', 'per-son', 'a b')
ANY = ('O', *(f'{begin}-{kind}' for begin in 'BI' for kind in TYPES))


def in_iob2(words):
    """The tags, with B- for an I- that starts an entity."""
    pairs = zip(['O', *words], words)
    return [f'B{t[1:]}' if t[0] == 'I' and b[2:] != t[2:] else t for b, t in pairs]


@st.composite
def sentences(draw):
    lengths = draw(st.lists(st.integers(1, 7), min_size=1, max_size=5))
    sides = [
        [draw(st.lists(st.sampled_from(ANY), min_size=n, max_size=n)) for n in lengths]
        for _ in range(2)
    ]
    return [in_iob2(words) for words in sides[0]], sides[1]


@settings(max_examples=25, deadline=None)
@given(both=sentences())
def test_entity_scores_equal_seqeval(both):
    found = tags.measure(*both).standard
    for name in ('f1', 'precision', 'recall'):
        score = getattr(seqeval_metrics, f'{name}_score')
        strict = score(*both, mode='strict', scheme=IOB2, zero_division=0)
        assert found[f'entity_{name}'] == pytest.approx(strict)
    influence_N = tags.measure(*both).per_instance['entity_f1']
    assert influence_N.mean() == pytest.approx(found['entity_f1'])


@settings(max_examples=25, deadline=None)
@given(both=sentences())
def test_word_and_sentence_scores_equal_scikit_learn(both):
    found = tags.measure(*both)
    flat = [sum(side, []) for side in both]
    accuracy = metrics.accuracy_score(*flat)
    assert found.standard['token_accuracy'] == pytest.approx(accuracy)
    macro = [
        metrics.f1_score(gold, said, average='macro', zero_division=0)
        for gold, said in zip(*both)
    ]
    sentence_N = found.per_instance['paper_sentence_macro_f1']
    np.testing.assert_allclose(sentence_N, macro)
    assert found.paper == {'sentence_macro_f1': pytest.approx(np.mean(macro))}
    assert np.mean(found.per_instance['token_accuracy']) == pytest.approx(accuracy)


def test_intervals_of_sentences_are_those_of_the_accuracy_per_word(rng):
    gold = [['NOUN'] * length for length in rng.choice([2, 40], 300)]
    said = [
        rng.choice(['NOUN', 'VERB'], len(words), p=[p, 1 - p]).tolist()
        for words in gold
        for p in [0.6 if len(words) == 40 else 0.95]
    ]
    found = tags.measure(gold, said)
    right_N = np.array([words.count('NOUN') for words in said])
    sizes = right_N, np.array(list(map(len, gold)))
    whole = stats.bootstrap(
        sizes, lambda a, b: a.sum() / b.sum(), paired=True, vectorized=False, rng=0
    ).confidence_interval
    one = statistics.mean_interval(found.per_instance['token_accuracy'], 'share')
    assert one[1:] == pytest.approx(whole, abs=0.005)
    # Parts of speech have no entities.
    assert found.standard == {'token_accuracy': pytest.approx(one.value)}


def test_a_split_without_a_tag_of_a_task_whose_tags_are_no_entities():
    found = tags.measure([['O', 'O']], [['O', 'TERM']], ['O', 'TERM'])
    assert found.standard == {'token_accuracy': 0.5}


# Answers drawn from awkward words, and what the script of SQuAD 2.0 says of them, in the
# version of transformers 4.57 (squad_metrics.squad_evaluate).
SQUAD = json.loads(Path(__file__).with_name('squad_cases.json').read_text())
NAMES = dict(exact='em', f1='f1', NoAns_exact='no_answer_em', NoAns_f1='no_answer_f1')
POSITIONS = st.sets(st.integers(0, 9), max_size=6)


@pytest.mark.parametrize('case', SQUAD, ids=range(len(SQUAD)))
def test_spans_equal_squads_script(case):
    references = [[(0, text) for text in texts] for texts in case['references']]
    made, said = spans.measure(references, case['predicted']), case['said']
    found = made.standard
    means = {name: made.per_instance[name].mean() for name in ('em', 'f1')}
    assert means == pytest.approx({name: found[name] for name in means})
    assert made.paper == {}
    expected = {ours: said[name] / 100 for name, ours in NAMES.items() if name in said}
    if 'NoAns_f1' in said and 'HasAns_f1' in said:
        expected['has_answer_em'] = said['HasAns_exact'] / 100
        expected['has_answer_f1'] = said['HasAns_f1'] / 100
    assert found == pytest.approx(expected)


@settings(max_examples=25, deadline=None)
@given(gold=POSITIONS, said=POSITIONS)
def test_the_papers_f1_equals_that_of_token_labels(gold, said):
    found = spans.measure([[(0, 'x')]], ['x'], positions=([gold], [said]))
    marked = np.zeros((2, 10), int)
    marked[0, list(gold) or [0]] = marked[1, list(said) or [0]] = 1
    expected = metrics.f1_score(*marked, zero_division=0)
    assert found.paper == {'token_f1': pytest.approx(expected)}
    assert found.per_instance['paper_token_f1'].tolist() == [found.paper['token_f1']]


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
def test_rankings_follow_the_formulas(both):
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


def test_the_papers_ndcg_averages_ties():
    tied = ranking.measure({'q': {'a': 1}}, {'q': {'b': 0.5, 'a': 0.5}})
    assert tied.paper['ndcg@10'] == pytest.approx((1 + 1 / np.log2(3)) / 2)


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


@pytest.mark.parametrize('judged', [{'b': 1}, {'b': 1, 'q': 0}, {'q': 1}])
def test_a_query_does_not_find_itself_unless_it_is_judged_relevant(judged):
    run = {'q': {'q': 3.0, 'b': 2.0, 'c': 1.0}}
    assert ranking.measure({'q': judged}, run).standard['mrr@10'] == 1


def test_queries_without_results_count_as_zero():
    qrels = {'z': {'a': 1}, 'gone': {'a': 1}, 'none': {'a': 0, 'b': -1}, 'y': {'b': 1}}
    run = {'y': {'b': 1.0}, 'none': {'b': 1.0}, 'z': {'b': 2.0}}
    found = ranking.measure(qrels, run)
    for name, values_N in found.per_instance.items():
        assert values_N.tolist() == [0, 0, 0, 1], name
    assert ranking.measure(qrels, {}).standard['ndcg@10'] == 0
    assert ranking.measure(qrels, {'z': {}}).paper['ndcg@10'] == 0


NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    'kind, arguments, message',
    [
        ('scores', ([1.0, 2.0, 3.0], [1.0, NAN, INF]), '2 of 3 .* is nan at instance 1'),
        ('scores', ([1.0, NAN, 3.0], [1.0, 1.0, 1.0]), 'gold scores: 1 of 3 values are'),
        ('retrieval', ({'q': {'a': 0.5}}, {}), "relevance of 'a' is 0.5, but must be"),
        ('tags', ([['O'], []], [['O'], []]), 'Sentence 1 has no words'),
        ('scores', ([2.0, 2.0], [1.0, 2.0]), 'scores that are not all equal'),
        ('scores', ([2.0], [1.0]), 'scores that are not all equal'),
        ('tags', ([['I-X', 'O']], [['O', 'O']]), "'I-X' after 'O'.*B-X. Convert"),
        ('tags', ([['B-Y', 'I-X']], [['O', 'O']]), "'I-X' after 'B-Y'"),
        (
            'tags',
            ([['O'], ['B-X', '0']], [['O'], ['O', 'O']]),
            "1: word 2 has the tag '0'",
        ),
    ],
)
def test_invalid_input_raises(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        answers.measure(kind, *arguments)


def test_relevance_may_be_of_any_type_of_number():
    qrels, run = {'q': {'a': 2, 'b': 1}}, {'q': {'b': 1.0, 'a': 0.5}}
    expected = answers.measure('retrieval', qrels, run).standard
    assert 0 < expected['ndcg@10'] < 1
    for kind in (float, np.int64, np.float32):
        judged = {'q': {key: kind(value) for key, value in qrels['q'].items()}}
        assert answers.measure('retrieval', judged, run).standard == expected


@pytest.mark.parametrize(
    'module, kind, arguments',
    [
        ('sklearn.metrics', 'labels', (['0'], ['0'], '01')),
        ('seqeval.scheme', 'tags', ([['B-X']], [['O']])),
        ('ir_measures', 'retrieval', ({'q': {'a': 1}}, {})),
    ],
)
def test_a_missing_package_is_named_with_its_extra(module, kind, arguments, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'{module}.*jepa-text\[eval\]'):
        answers.measure(kind, *arguments)


def test_the_figures_of_the_guide():
    """What the paper's definitions give."""
    guide = Path(__file__).parents[2] / 'docs' / 'guides' / 'paper_finetuning.md'
    said = guide.read_text(encoding='utf-8')
    qrels = {'q': {f'r{n}': 1 for n in range(20)}}
    run = {'q': {f'r{n}': 10.0 - n for n in range(3)} | {f'x{n}': -n for n in range(9)}}
    found = ranking.measure(qrels, run)
    figures = found.paper['ndcg@10'], found.standard['ndcg@10']
    assert 'score {:.2f}; by the standard definition {:.3f} |'.format(*figures) in said
    gold = [[]] * 5945 + [[(7, 'whale')]] * 5928
    places = [{7} if one else set() for one in gold], [set()] * len(gold)
    found = spans.measure(gold, [''] * len(gold), positions=places)
    paper, ours = 100 * found.paper['token_f1'], 100 * found.standard['f1']
    assert f'never answers has {paper:.2f} on SQuAD' in said
    assert ours == pytest.approx(paper)
