"""Predictions of controls and their results, by hand-computed values."""

import math
from collections import Counter
from unittest import mock

import examined
import numpy as np
import pytest
from scipy import stats
from sklearn import linear_model, metrics, model_selection, pipeline
from sklearn.feature_extraction import text

from jepa_text.analysis import measuring
from jepa_text.evaluation import controls, representation
from jepa_text.evaluation.controls import baselines, words
from jepa_text.evaluation.controls import features as word_features
from jepa_text.evaluation.controls import ranking as word_ranking
from jepa_text.evaluation.sets.task import Examples, Task


def task(kind, train, validation=None, test=None, metric='accuracy'):
    parts = [train, validation or train, test or train]
    made = [Examples(*part) for part in parts]
    return Task('made', kind, metric, made[0], made[2], validation=made[1])


def labeled(seed):
    """Texts whose class depends on a word or, for class c, on the order of two words."""
    rng, texts, labels = np.random.default_rng(seed), [], []
    for _ in range(120):
        label = rng.choice(['a', 'a', 'b', 'c'])
        other = rng.choice(['one', 'two', 'three', 'four'], 3).tolist()
        key = {'a': 'apple pear', 'b': 'bear', 'c': 'pear apple'}[label]
        texts.append(' '.join([*other, key, *other]))
        labels.append(label)
    return texts, None, np.array(labels)


def predictions(made, model=None):
    """{control: Predictions} of a task; without a model, of the others."""
    names = (name for name in baselines.names(made) if model or name != controls.BAG)
    return {name: baselines.predict(made, name, model) for name in names}


def test_label_controls_use_words_and_bigrams():
    made = task('labels', labeled(0), labeled(1), labeled(2))
    found = predictions(made, examined.model())
    assert list(found) == [controls.LARGEST, controls.TF_IDF, controls.BAG]
    assert set(found[controls.LARGEST].test) == {'a'}
    values = {
        name: baselines.measure(made, 'test', one.test).standard['accuracy']
        for name, one in found.items()
    }
    share = Counter(made.test.target.tolist())['a'] / len(made.test)
    assert values[controls.LARGEST] == pytest.approx(share)
    # Only bigrams distinguish a from c.
    assert values[controls.TF_IDF] == 1.0 and found[controls.TF_IDF].chosen['words'] == 2
    assert share < values[controls.BAG] < 1.0


def test_hyperparameters_are_chosen_on_validation_only():
    made = task('labels', labeled(0), labeled(1), labeled(2))
    wrong = np.roll(made.test.target, 7)
    other = Examples(made.test.first, None, wrong)
    other = Task('made', 'labels', 'accuracy', made.train, other, None, made.validation)
    assert predictions(made) == predictions(other)


def test_pair_features_capture_shared_words(rng):
    nouns = ['whale', 'ship', 'sea', 'king', 'bread', 'hill', 'sun', 'rain']
    first = rng.choice(nouns, 400).tolist()
    second = [n if i % 2 else rng.choice(nouns) for i, n in enumerate(first)]
    target = np.array(['same' if a == b else 'other' for a, b in zip(first, second)])
    train, test = (first[:300], second[:300], target[:300]), slice(300, None)
    made = task('labels', train, None, (first[test], second[test], target[test]))
    counted = predictions(made)[controls.TF_IDF]
    measured = baselines.measure(made, 'test', counted.test)
    assert measured.standard['accuracy'] == 1.0


def test_pair_scores_are_cosines_and_text_scores_are_regressed():
    first, second = ['the cat', 'a dog', 'x y'], ['the cat', 'a cow', 'z']
    made = task('scores', (first, second, np.array([1.0, 0.5, 0.0])))
    tf_idf, bag = predictions(made, examined.model()).values()
    assert tf_idf.test[0] == pytest.approx(1) and tf_idf.test[2] == 0
    assert 0 < tf_idf.test[1] < 1 and bag.test[0] == pytest.approx(1)
    # The scores may be distances.
    made = task('scores', (first, second, np.array([0.0, 0.5, 1.0])))
    apart, _ = predictions(made, examined.model()).values()
    assert apart.test == [-cosine for cosine in tf_idf.test]
    assert (tf_idf.chosen, apart.chosen) == ({'sign': 1.0}, {'sign': -1.0})
    texts, _, labels = labeled(0)
    target = np.where(labels == 'b', 3.0, 1.0)
    made = task('scores', (texts, None, target), metric='spearman')
    for control, one in predictions(made, examined.model()).items():
        measured = baselines.measure(made, 'test', one.test)
        assert measured.standard['pearson'] > 0.9, control


def test_unknown_words_get_the_most_frequent_tag_of_their_ending():
    train = (
        [['The', 'dog', 'runs'], ['dog', 'runs', 'walking'], ['runs', 'talking']],
        None,
        [['DT', 'NN', 'VB'], ['NN', 'NN', 'VBG'], ['NN', 'VBG']],
    )
    asked = [['runs', 'THE', 'singing', 'qqq', 'Singing']]
    made = task('tags', train, None, (asked, None, [['x'] * 5]))
    (one,) = predictions(made).values()
    # Most frequent tag of the word, of its lower case, of -ing, of all; capitals differ.
    assert one.test == [['NN', 'DT', 'VBG', 'NN', 'NN']]
    assert [len(tags) for tags in one.validation] == [3, 3, 2]


def test_the_sentence_with_most_shared_words_answers_a_question():
    context = 'The whale sank. A ship sailed to Nantucket! Who knows?'
    questions = ['Where did a ship sail to', 'What is quantum chromodynamics']
    answers = [[(16, 'A ship sailed to Nantucket!')], []]
    made = task('spans', (questions, [context] * 2, answers))
    never, sentence = predictions(made).values()
    assert never.test == ['', '']
    assert sentence.test == ['A ship sailed to Nantucket!', '']
    assert baselines.measure(made, 'test', sentence.test).standard['f1'] == 1.0
    assert baselines.measure(made, 'test', never.test).standard['f1'] == 0.5


def test_tasks_without_controls_or_words():
    assert baselines.names(task('texts', (['a'], None, None))) == ()
    made = task('labels', (['...', '—'], None, np.array(['a', 'b'])))
    with pytest.warns(UserWarning, match='no text contains a word, .* no control TF-IDF'):
        assert {*predictions(made)} == {controls.LARGEST}
    with pytest.raises(ValueError, match='no text contains a word'):
        word_features.tf_idf(made, 1)


def test_words_of_one_text_are_kept_and_bigrams_of_one_text_are_not():
    texts = ['anna', 'berta', 'otto paul', 'karl', 'emil anna']
    made = task('labels', (texts, None, np.array(['f', 'f', 'm', 'm', 'm'])))
    (first, _), *_ = word_features.tf_idf(made, grams=2)
    assert first.shape == (5, 6)
    assert predictions(made)[controls.TF_IDF].test == ['f', 'f', 'm', 'm', 'm']


def test_tf_idf_is_that_of_scikit_learn_and_knows_the_commonest_words():
    texts = ['The whale sank the ship.', 'A ship, a sea!', 'The Sea; the whale', 'à Dax']
    theirs = text.TfidfVectorizer(analyzer=words.words, sublinear_tf=True).fit(texts)
    ours = word_features.vectorizer(texts)
    expected, found = (x.transform(texts[::-1]).toarray() for x in (theirs, ours))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    three = word_features.vectorizer(texts, max_words=3)
    # 'the', 'whale', 'ship' and 'sea' occur in two texts each; of ties, the first.
    assert three.get_feature_names_out().tolist() == ['sea', 'ship', 'the']
    assert not three.transform(['whale unknown']).toarray().any()


def test_the_tf_idf_of_all_commands_is_as_good_as_scikit_learns(monkeypatch):
    train, test = (Examples(*labeled(seed)) for seed in (0, 1))
    words_of = {'tokenizer': words.words, 'token_pattern': None}
    vectorizer = text.TfidfVectorizer(sublinear_tf=True, **words_of)
    fit = linear_model.LogisticRegression(max_iter=1000)
    made = pipeline.Pipeline([('words', vectorizer), ('fit', fit)])
    grid = {'words__ngram_range': [(1, 1), (1, 2)], 'fit__C': [1, 10, 100]}
    theirs = model_selection.GridSearchCV(made, grid, scoring='neg_log_loss', cv=3)
    with measuring.one_blas_thread():
        theirs.fit(train.first, train.target)
    theirs_N = theirs.predict(test.first)

    made = Task('made', 'labels', 'accuracy', train, test)
    analysis = measuring.Measurements(ANALYSIS, [made], None, mock.MagicMock(step=0))
    monkeypatch.setattr(measuring, '_TF_IDF_WORDS', 8)  # a fast geometry
    with measuring.one_blas_thread():
        analysis.tf_idf()
    found = {result.control: x for result, x in analysis.per_example.items()}
    of_analysis = found[controls.TF_IDF]
    count, everything = len(train), (*train.first, *test.first)
    labels_N = np.concatenate([train.target, test.target])
    numbers_N = np.arange(len(everything))
    folds = [(numbers_N[:count], numbers_N[count:])]
    probe = representation.Probe('p', everything, labels_N, numbers_N, folds, 0)
    of_study = representation.controls_of(probe)[controls.TF_IDF]['balanced']
    # Paired tests need a value for each example.
    assert set(of_analysis['probe_accuracy']) <= {0.0, 1.0}
    assert of_analysis['probe_accuracy'].shape == theirs_N.shape
    given = test.target, theirs_N
    shares = of_analysis['probe_accuracy'].mean(), of_study
    expected = [metrics.accuracy_score(*given), metrics.balanced_accuracy_score(*given)]
    assert shares == pytest.approx(expected, abs=0.005)


def test_the_tf_idf_of_scored_pairs_in_an_analysis_reads_all_words(monkeypatch, rng):
    shared_N = rng.integers(0, 7, 120)
    named = [[f'w{n}' for n in rng.choice(400, 12, replace=False)] for _ in shared_N]
    pairs = [
        (' '.join(row[:6]), ' '.join(row[6 - k : 12 - k]))
        for k, row in zip(shared_N, named)
    ]
    whole = Examples(*map(list, zip(*pairs)), shared_N.astype(float))
    train, test = (whole.take(np.arange(60) + start) for start in (0, 60))
    monkeypatch.setattr(measuring, '_TF_IDF_WORDS', 8)
    made = Task('made', 'scores', 'spearman', train, test, validation=train)
    analysis = measuring.Measurements(ANALYSIS, [made], None, mock.MagicMock(step=0))
    analysis.tf_idf()
    values = {row['metric']: row['value'] for row in analysis.rows}
    first, second = word_features.tf_idf(made, 1)[-1]
    cosine_N = word_features.cosine(first, second)
    expected = stats.spearmanr(cosine_N, test.target).statistic
    assert values['cosine_spearman'] == pytest.approx(expected)
    assert values['probe_spearman'] > 0.5
    (found,) = analysis.per_example.values()
    assert found['cosine_spearman'].mean() == pytest.approx(expected)


ANALYSIS = dict(
    seed=0, poolings=['mean'], controls=[controls.TF_IDF], half_samples=0, threads=1
)
CORPUS = {
    'd1': 'the whale sank the ship',
    'd2': 'a ship a ship',
    'd3': 'the sea',
    'd4': 'the whale and the whale of the sea the end',
}


def test_bm25_follows_its_formula():
    run = word_ranking.runs({'q': 'whale ship ship none', 'e': '?!'}, CORPUS)['BM25']
    tokens = {key: text.split() for key, text in CORPUS.items()}
    mean = sum(map(len, tokens.values())) / 4
    expected = {}
    for key, own in tokens.items():
        score = 0.0
        for word in ('whale', 'ship', 'ship'):
            n, tf = sum(word in t for t in tokens.values()), own.count(word)
            idf = math.log(1 + (4 - n + 0.5) / (n + 0.5))
            norm = 1.2 * (1 - 0.75 + 0.75 * len(own) / mean)
            score += idf * tf * 2.2 / (tf + norm)
        if score:
            expected[key] = score
    assert run['q'] == pytest.approx(expected) and run['e'] == {}
    assert list(run['q']) == sorted(expected, key=lambda key: -expected[key])


def test_tf_idf_ranks_by_cosine_and_top_limits_the_run():
    queries = {f'q{n}': 'the whale' for n in range(300)} | {'own': CORPUS['d2']}
    found = word_ranking.runs(queries, CORPUS, top=2)[controls.TF_IDF]
    assert list(found) == list(queries) and found['q0'] == found['q299']
    assert len(found['q0']) == 2 and next(iter(found['own'])) == 'd2'
    assert found['own']['d2'] == pytest.approx(1)
    tied = word_ranking.runs({'q': 'sea'}, {'a': 'sea', 'c': 'sea', 'b': 'sea'}, top=2)
    assert [list(run['q']) for run in tied.values()] == [['c', 'b']] * 2
    with pytest.raises(ValueError, match='None of 1 documents contains a word'):
        word_ranking.runs(queries, {'d': '...'})
