"""Losses against independent formulas, and the properties they promise."""

import doctest

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jepa_text import losses


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_docstrings():
    assert doctest.testmod(losses).failed == 0


def test_cross_entropy_is_optax(rng):
    logits, labels = rng.normal(size=(2, 5, 7)) * 10, rng.integers(0, 7, (2, 5))
    expected = optax.softmax_cross_entropy_with_integer_labels(
        jnp.float32(logits), jnp.int32(labels)
    )
    assert_allclose(
        losses.cross_entropy(jnp.float32(logits), labels), expected, atol=1e-5
    )


def test_losses_are_float32_for_bfloat16(rng):
    x = jnp.bfloat16(rng.normal(size=(2, 3, 8)))
    for value in (
        losses.cross_entropy(x, jnp.zeros((2, 3), int)),
        losses.cosine_distance(x, x),
        losses.smooth_l1(x, x),
    ):
        assert value.dtype == jnp.float32 and value.shape == (2, 3)


def test_correct_counts_the_highest():
    logits = jnp.array([[[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]]])
    assert_array_equal(losses.correct(logits, jnp.array([[1, 2]])), [[1.0, 0.0]])


def test_cosine_distance_against_optax(rng):
    x, y = (
        jnp.float32(rng.normal(size=(2, 4, 6))),
        jnp.float32(rng.normal(size=(2, 4, 6))),
    )
    assert_allclose(losses.cosine_distance(x, y), optax.cosine_distance(x, y), atol=1e-6)


def test_smooth_l1_is_huber_over_beta(rng):
    x, y = (
        jnp.float32(rng.normal(size=(2, 4, 6))),
        jnp.float32(rng.normal(size=(2, 4, 6))),
    )
    for beta in (0.3, 1.0, 4.0):
        expected = optax.huber_loss(x, y, delta=beta).mean(-1) / beta
        assert_allclose(losses.smooth_l1(x, y, beta), expected, atol=1e-6)


def test_masked_is_sliced(rng):
    values, where = rng.normal(size=(3, 9)), rng.random((3, 9)) < 0.4
    assert_allclose(
        losses.masked_mean(jnp.float32(values), where), values[where].mean(), rtol=1e-5
    )


def test_masked_mean_of_nothing_is_zero_with_zero_gradient():
    value, gradient = jax.value_and_grad(losses.masked_mean)(
        jnp.ones((2, 3)), jnp.zeros((2, 3), bool)
    )
    assert value == 0
    assert_array_equal(gradient, np.zeros((2, 3)))


def test_gradients_are_finite_where_vectors_vanish():
    for loss in (losses.cosine_distance, losses.smooth_l1):
        gradient = jax.grad(lambda x, loss=loss: loss(x, jnp.zeros((1, 2, 4))).sum())(
            jnp.zeros((1, 2, 4))
        )
        assert np.isfinite(gradient).all()
    gradient = jax.grad(lambda x: losses.layer_normalise(x).sum())(jnp.ones((1, 4)))
    assert np.isfinite(gradient).all()


def test_layer_normalise(rng):
    x = losses.layer_normalise(jnp.float32(rng.normal(3, 5, size=(2, 3, 64))))
    assert_allclose(x.mean(-1), 0, atol=1e-5)
    assert_allclose(x.std(-1), 1, atol=1e-4)


def test_select_takes_the_true_positions_in_order(rng):
    mask = rng.random((20, 33)) < 0.2
    index, where = losses.select(jnp.asarray(mask), 20)
    for row in range(20):
        assert_array_equal(np.asarray(index)[row][where[row]], np.flatnonzero(mask[row]))


@pytest.mark.parametrize('chunk', [1, 3, 4, 7, 100])
def test_chunked_is_whole_forward_and_backward(rng, chunk):
    hidden = jnp.float32(rng.normal(size=(2, 7, 4)))
    kernel = jnp.float32(rng.normal(size=(4, 11)))
    labels = jnp.asarray(rng.integers(0, 11, (2, 7)))

    def total(hidden, kernel, split):
        def score(h, y):
            return losses.cross_entropy(h @ kernel, y)

        if split:
            return (losses.chunked(score, hidden, labels, chunk) ** 2).sum()
        return (score(hidden, labels) ** 2).sum()

    for argument in (0, 1):
        whole = jax.grad(total, argument)(hidden, kernel, False)
        parts = jax.jit(jax.grad(total, argument), static_argnums=2)(hidden, kernel, True)
        assert_allclose(parts, whole, rtol=1e-5, atol=1e-5)
