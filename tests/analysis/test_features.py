"""Cached vectors equal those of `encode`; damaged ones are computed again."""

import dataclasses

import draws
import examined
import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jepa_text.analysis import features, measuring
from jepa_text.evaluation import controls

TEXTS = ['Call me Ishmael.', 'The whale', 'My fellow Americans, the union is strong now.']


@pytest.fixture(scope='module')
def model():
    return examined.model(length=32)


POOLINGS = ('mean', 'max', 'cls', 'last4', 'mean-specials')


@pytest.fixture(scope='module')
def found(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp('features')
    return features.extract(model, TEXTS, folder, POOLINGS), folder


@pytest.mark.parametrize(
    'layer, pool',
    draws.in_stages(
        *((2, 'mean'), (0, 'cls'), (2, 'mean-specials')),
        *((2, 'max'), (2, 'cls'), (0, 'mean'), (0, 'max'), (0, 'mean-specials')),
        fast=3,
        slow=5,
    ),
)
def test_vectors_equal_encode(found, model, layer, pool):
    expected = model.encode(TEXTS, layer=layer, pool=pool)
    got = found[0].vectors(layer, pool)
    assert_allclose(got, expected, atol=1e-5 * np.abs(expected).max())
    assert got.dtype == np.float32


def test_special_tokens_and_last4_change_vectors(found):
    vectors = found[0].vectors
    assert np.abs(vectors(2, 'mean') - vectors(2, 'mean-specials')).max() > 1e-2
    assert np.abs(vectors(2, 'mean') - vectors(2, 'last4')).max() > 1e-2
    assert_array_equal(vectors(0, 'cls')[0], vectors(0, 'cls')[1])
    assert found[0].tokens_N.tolist()[1] < found[0].tokens_N.tolist()[2]


@pytest.mark.slow
def test_cache_keys_depend_on_parameters_and_texts(found, model, tmp_path):
    names = found[0].names
    fresh = controls.untrained(model, seed=1)
    for other in (
        features.extract(fresh, TEXTS, tmp_path).names,
        features.extract(model, TEXTS[::-1], tmp_path).names,
        features.extract(dataclasses.replace(model, causal=True), TEXTS, tmp_path).names,
    ):
        assert not set(other.values()) & set(names.values())


def test_non_finite_vectors_are_rejected_and_not_cached(model, tmp_path):
    broken = jax.tree.map(lambda x: x * np.nan, model.params)
    broken = dataclasses.replace(model, params=broken)
    with pytest.raises(
        ValueError, match='2/mean contain NaN .* did its training diverge'
    ):
        features.extract(broken, TEXTS, tmp_path, layers=[-1])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('place', [-3, 200, 400])
def test_damaged_vectors_are_computed_again(model, tmp_path, place):
    made = features.extract(model, TEXTS, tmp_path)
    first_ND, path = made.vectors(1, 'mean'), tmp_path / made.names[1, 'mean']
    damaged = bytearray(path.read_bytes())
    damaged[place] ^= 1
    path.write_bytes(damaged)
    again = features.extract(model, TEXTS, tmp_path)
    assert_array_equal(again.vectors(1, 'mean'), first_ND)
    assert path.read_bytes() != bytes(damaged)


@pytest.mark.parametrize('place', [65, 66, 67, 80, 120])
def test_a_damaged_header_of_a_large_array_is_found(tmp_path, place):
    """numpy alone reads no further than the header says, so that no checksum fails."""
    path = tmp_path / 'a.npz'
    np.savez(path, rows=np.arange(20_000.0).reshape(400, 50))
    whole = path.read_bytes()
    assert features._load(path).shape == (400, 50)
    for bit in range(8):
        path.write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :]
        )
        assert features._load(path) is None


def test_objects_are_never_unpickled(tmp_path):
    np.savez(tmp_path / 'a.npz', rows=np.array([{}], object))
    assert features._load(tmp_path / 'a.npz') is None


def test_cls_is_skipped_if_unavailable(model):
    """Unless it is the first pooling."""
    bare = dataclasses.replace(model, begin=())
    for wanted, expected in (
        (['mean', 'cls'], ['mean']),
        (['cls', 'mean'], ['cls', 'mean']),
    ):
        assert measuring._poolings(dict(poolings=wanted), bare) == expected
        assert measuring._poolings(dict(poolings=wanted), model) == wanted


@pytest.mark.parametrize(
    'call, words',
    [
        (dict(poolings=('maen',)), "no pooling 'maen'. Did you mean 'mean'"),
        (dict(poolings=('cls-specials',)), "'cls-specials': .* excludes that token"),
        (dict(texts=['']), 'no tokens'),
        (dict(layers=[9]), r'no layer 9; layers are 0 \(embedding\) to 2, or -1'),
        (dict(layers=[-4]), 'no layer -4'),
        (dict(layers=[1], poolings=('mean', 'last4')), r'layers=\[1\] lacks .* 2, which'),
    ],
)
def test_invalid_poolings_and_layers_are_rejected(model, call, words, tmp_path):
    call = dict(texts=TEXTS, folder=tmp_path) | call
    with pytest.raises(ValueError, match=words):
        features.extract(model, **call)


def test_controls_are_independent_of_training(model):
    # The model is initialized with seed 0 and not trained.
    same = controls.untrained(controls.untrained(model, seed=1), seed=0)
    jax.tree.map(assert_array_equal, same.params, model.params)
    bag_ND = controls.bag_of_embeddings(model, TEXTS)
    assert_allclose(bag_ND, model.encode(TEXTS, layer=0), atol=1e-5)
    # A bag of embeddings ignores the order of words.
    one, two = controls.bag_of_embeddings(model, ['of the a', 'of a the'])
    assert_allclose(one, two, atol=1e-5)
    assert controls.word_lengths(['two words', '?']).tolist() == [[2, 9], [1, 1]]
