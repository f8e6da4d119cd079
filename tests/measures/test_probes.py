"""Linear probes learn linear labels and choose nothing on the test set."""

import sys
import warnings

import numpy as np
import pytest
from sklearn import metrics

from jepa_text.measures import probes


def cloud(examples, width, classes, noise, seed=0):
    """Embeddings with noise, labeled by the largest of `classes` linear functions."""
    rng = np.random.default_rng(seed)
    weights_DC = np.random.default_rng(99).normal(size=(width, classes))
    rows_ND = rng.normal(size=(examples, width))
    scores_NC = rows_ND @ weights_DC + noise * rng.normal(size=(examples, classes))
    return rows_ND, scores_NC.argmax(axis=1)


def probe(train, test, **keywords):
    return probes.linear_probe(*train, *test, **keywords)


def test_random_labels_are_not_learned():
    rng = np.random.default_rng(3)
    labels_N = rng.integers(0, 2, 2000)
    rows_ND = rng.normal(size=(2000, 64))
    result = probe((rows_ND[:1000], labels_N[:1000]), (rows_ND[1000:], labels_N[1000:]))
    assert abs(result['accuracy'] - 0.5) < 0.06


def test_noisy_labels_choose_a_stronger_penalty_than_clean_ones():
    noisy = probe(cloud(300, 64, 2, 30.0), cloud(50, 64, 2, 30.0, seed=1))
    clean = probe(cloud(300, 64, 2, 0.0), cloud(50, 64, 2, 0.0, seed=1))
    assert noisy['inverse_penalty'] < clean['inverse_penalty']


def test_a_penalty_with_probability_0_for_the_true_class_is_not_chosen():
    """A validation row far on the wrong side has probability 0 for the true class."""
    labels_N = np.arange(200) % 2
    train_ND = np.random.default_rng(0).normal(labels_N[:, None] * 2.0 - 1, 0.5)
    train_ND[0] = 400.0
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        chosen = probes._choose(train_ND, labels_N, np.arange(200) < 40)
    assert chosen == min(probes.INVERSE_PENALTIES)


def test_scale_and_offset_of_a_coordinate_do_not_matter():
    train_ND, train_N = cloud(300, 8, 3, 1.0)
    test_ND, test_N = cloud(99, 8, 3, 1.0, 1)
    scale_D, offset_D = np.geomspace(1e-4, 1e4, 8), np.linspace(-50, 50, 8)
    plain = probes.linear_probe(train_ND, train_N, test_ND, test_N)
    moved = probes.linear_probe(
        train_ND * scale_D + offset_D, train_N, test_ND * scale_D + offset_D, test_N
    )
    assert moved == plain


@pytest.mark.slow
def test_the_test_set_changes_only_its_own_score():
    train, (test_ND, test_N) = cloud(300, 8, 3, 1.0), cloud(99, 8, 3, 1.0, 1)
    alone = [probe(train, (test_ND[i : i + 1], test_N[i : i + 1])) for i in range(20)]
    together = probe(train, (test_ND[:20], test_N[:20]))
    assert np.mean([one['accuracy'] for one in alone]) == together['accuracy']
    assert {one['inverse_penalty'] for one in alone} == {together['inverse_penalty']}


def test_the_interval_is_wilsons_and_has_a_width_at_accuracy_1():
    sets = [cloud(count, 4, 2, 0.0, count) for count in (100, 30)]
    result = probe(*sets)
    assert (result['accuracy'], result['high']) == (1, 1)
    assert result['low'] == pytest.approx(30 / (30 + 1.96**2), abs=1e-4)


def test_strings_are_labels_and_unseen_ones_count_as_wrong():
    names = np.array(['Austen', 'Melville', 'Biden'])
    train, (test_ND, test_N) = cloud(500, 8, 2, 0.0), cloud(100, 8, 2, 0.0, 1)
    labels_N = names[test_N].tolist()
    seen = probes.linear_probe(train[0], names[train[1]].tolist(), test_ND, labels_N)
    labels_N[:25] = ['Biden'] * 25
    some = probes.linear_probe(train[0], names[train[1]].tolist(), test_ND, labels_N)
    assert seen['accuracy'] - 0.25 <= some['accuracy'] <= 0.75


def test_balanced_accuracy_matches_scikit_learn_and_constants_are_at_chance():
    truth_N, predicted_N = np.random.default_rng(0).choice(list('aaabbc'), (2, 200))
    found = probes.balanced_accuracy(truth_N == predicted_N, truth_N)
    expected = metrics.balanced_accuracy_score(truth_N, predicted_N)
    assert found['balanced'] == pytest.approx(expected)
    assert found['low'] < expected < found['high']
    for answer in 'abc':
        one = probes.balanced_accuracy(truth_N == answer, truth_N)
        assert one['balanced'] == pytest.approx(1 / 3)
    # One document a right or wrong block: the interval is wider by the shared keys.
    blocks_N = np.repeat([True, True, False, True, False], 40)
    found, wider = (
        probes.balanced_accuracy(blocks_N, np.arange(200) % 2, keys)
        for keys in ((), [np.repeat(np.arange(5), 40)])
    )
    assert wider['high'] - wider['low'] > 5 * (found['high'] - found['low'])
    # All right: still an interval, wider for the rarer class.
    all_right = probes.balanced_accuracy([True] * 110, [0] * 100 + [1] * 10)
    assert 0.8 < all_right['low'] < 0.9 and all_right['high'] == 1
    with pytest.raises(ValueError, match=r'\(3,\) and \(2,\)'):
        probes.balanced_accuracy([True] * 3, ['a', 'b'])


def test_tiny_classes_and_constant_coordinates_are_allowed():
    rows_ND = np.eye(4)[:, :3]  # one example per class: no validation set
    rows_ND[:, 0] = 7.0
    result = probes.linear_probe(rows_ND, list('abcd'), rows_ND, list('abcd'))
    assert np.isfinite(result['accuracy'])
    # The deviation of a constant may be a rounding error, which is no scale.
    train_ND = np.c_[np.tile([1.0, -1.0], 51)[:101], np.full(101, 0.1)]
    assert train_ND[:, 1].std() > 0
    test_ND, right_N = np.array([[1.0, 0.101], [-1.0, 0.099]]), [True, False]
    labels_N = train_ND[:, 0] > 0
    assert probes.linear_probe(train_ND, labels_N, test_ND, right_N)['accuracy'] == 1


ROWS_ND, LABELS_N = np.ones((4, 2)), [0, 1, 0, 1]
VALID = ROWS_ND, LABELS_N, ROWS_ND, LABELS_N


@pytest.mark.parametrize(
    'changes, message',
    [
        ({1: [2] * 4}, 'at least two classes'),
        ({1: np.array(['a'] * 4, object)}, "labels are 'a', but"),
        ({1: list('abab')}, 'strings, test labels numbers'),
        ({1: LABELS_N[:3]}, r'training set needs .*\(4, 2\) and'),
        ({3: LABELS_N[:3]}, r'test set needs .*\(4, 2\) and \(3,'),
        ({0: ROWS_ND * np.nan}, 'training embeddings contain NaN'),
        ({2: ROWS_ND * np.inf}, 'test embeddings contain NaN'),
        ({2: np.ones((4, 3))}, 'width 2 and test embeddings 3'),
        ({2: ROWS_ND[:0], 3: []}, 'test set is empty'),
    ],
)
def test_errors_name_what_is_wrong(changes, message):
    """By the place of the argument that is not as it should be."""
    with pytest.raises(ValueError, match=message):
        probes.linear_probe(*(changes.get(n, one) for n, one in enumerate(VALID)))


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, 'sklearn.linear_model', None)
    rows_ND = np.random.default_rng(0).normal(size=(4, 2))
    with pytest.raises(ImportError, match=r'jepa-text\[eval\]'):
        probes.linear_probe(rows_ND, LABELS_N, rows_ND, LABELS_N)
