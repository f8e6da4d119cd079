"""CKA against its definitions over all pairs, and its invariances."""

import numpy as np
import pytest

from jepa_text.measures import similarity

RNG = np.random.default_rng(0)
FIRST_ND = RNG.normal(size=(60, 7)) + 3
SECOND_ND = FIRST_ND[:, :5] + RNG.normal(size=(60, 5))


def test_rotation_scale_offset_and_order_change_nothing():
    measure = similarity.unbiased_cka
    expected = measure(FIRST_ND, SECOND_ND)
    rotation_DD = np.linalg.qr(RNG.normal(size=(7, 7)))[0]
    order_N = RNG.permutation(60)
    moved_ND = (0.01 * FIRST_ND @ rotation_DD + 9)[order_N]
    assert measure(moved_ND, SECOND_ND[order_N]) == pytest.approx(expected, rel=1e-9)
    assert measure(SECOND_ND, FIRST_ND) == pytest.approx(expected)
    assert measure(moved_ND, FIRST_ND[order_N]) == pytest.approx(1)


def test_fewer_texts_than_dimensions():
    wide_ND = np.pad(FIRST_ND, ((0, 0), (0, 90)))
    expected = similarity.unbiased_cka(FIRST_ND, SECOND_ND)
    assert similarity.unbiased_cka(wide_ND, SECOND_ND) == pytest.approx(expected)


def unbiased_hsic(one_NN, two_NN):
    """Song et al. 2012, equation 5, with matrices of all pairs and no centering."""
    count, ones_N = len(one_NN), np.ones(len(one_NN))
    one_NN = one_NN - np.diag(np.diag(one_NN))
    two_NN = two_NN - np.diag(np.diag(two_NN))
    middle = (ones_N @ one_NN @ ones_N) * (ones_N @ two_NN @ ones_N)
    middle /= (count - 1) * (count - 2)
    last = 2 * ones_N @ one_NN @ two_NN @ ones_N / (count - 2)
    return np.trace(one_NN @ two_NN) + middle - last


def test_unbiased_cka_as_defined():
    one_NN, two_NN = FIRST_ND @ FIRST_ND.T, SECOND_ND @ SECOND_ND.T
    expected = unbiased_hsic(one_NN, two_NN) / np.sqrt(
        unbiased_hsic(one_NN, one_NN) * unbiased_hsic(two_NN, two_NN)
    )
    assert similarity.unbiased_cka(FIRST_ND, SECOND_ND) == pytest.approx(expected)


def test_the_map_has_all_pairs():
    layers = [FIRST_ND, SECOND_ND, np.tanh(FIRST_ND)]
    found_RC = similarity.similarity_map(layers, layers[:2])
    assert found_RC.shape == (3, 2)
    assert found_RC[2, 1] == similarity.unbiased_cka(layers[2], SECOND_ND)
    np.testing.assert_allclose(np.diag(found_RC), 1)


def test_no_variance_gives_zero():
    flat_ND = np.ones((60, 3))
    pairs = (FIRST_ND, flat_ND), (flat_ND, FIRST_ND)
    assert [similarity.unbiased_cka(*pair) for pair in pairs] == [0, 0]


def test_different_or_few_texts_cannot_be_compared():
    measure = similarity.unbiased_cka
    with pytest.raises(ValueError, match=r'\(60, 7\) and \(59, 5\)'):
        measure(FIRST_ND, SECOND_ND[1:])
    with pytest.raises(ValueError, match='row 2'):
        measure(FIRST_ND, np.where(np.arange(60)[:, None] == 2, np.nan, SECOND_ND))
    with pytest.raises(ValueError, match=r'at least four, .* \(3, 7\)'):
        measure(FIRST_ND[:3], SECOND_ND[:3])
