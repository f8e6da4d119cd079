"""cached_value_and_grad: InfoNCE of pairs in a batch, and its gradients part by part."""

import draws
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from jepa_text import losses

ROWS, LENGTH, VOCAB, WIDTH = 16, 12, 50, 32


@pytest.fixture
def batch():
    """Tokens of queries and documents [N, L], and a dropout key per row."""
    tokens = np.random.default_rng(0).integers(0, VOCAB, (2, ROWS, LENGTH))
    keys_N = jax.random.split(jax.random.key(1), ROWS)
    return {'query': tokens[0], 'document': tokens[1], 'key': keys_N}


@pytest.fixture
def params():
    rng = np.random.default_rng(0)
    sizes = {'embedding': (VOCAB, WIDTH), 'kernel': (WIDTH, WIDTH)}
    drawn = {name: np.float32(rng.normal(size=size)) for name, size in sizes.items()}
    return {**drawn, 'kernel': drawn['kernel'] / np.float32(WIDTH**0.5)}


def encode(params, part):
    """Embeds the tokens, applies a layer with dropout, and averages."""

    def vectors(tokens_BL):
        hidden_BLD = jnp.tanh(params['embedding'][tokens_BL] @ params['kernel'])
        kept = jax.vmap(lambda key: jax.random.bernoulli(key, 0.9, (LENGTH, WIDTH)))
        return jnp.mean(hidden_BLD * kept(part['key']), axis=1)

    return {side: vectors(part[side]) for side in ('query', 'document')}


def info_nce(vectors):
    """Cosine x 20; the documents of other queries are the negatives."""
    rows_N = jnp.ones(len(vectors['query']), bool)
    loss_N = losses.info_nce(vectors['query'], vectors['document'], rows_N, 1 / 20)
    return jnp.mean(loss_N)


@jax.jit
@jax.value_and_grad
def whole(params, batch):
    """Loss and gradients of a batch that is not split."""
    return info_nce(encode(params, batch))


def split(batch, count):
    return jax.tree.map(lambda x: x.reshape(count, -1, *x.shape[1:]), batch)


@pytest.mark.parametrize('count', draws.in_stages(4, 16, 1, fast=1, slow=2))
def test_gradients_of_parts_equal_those_of_the_whole_batch(params, batch, count):
    value, slope = whole(params, batch)
    cached = jax.jit(losses.cached_value_and_grad, static_argnums=(0, 1))
    value_again, slope_again = cached(encode, info_nce, params, split(batch, count))
    assert_allclose(value_again, value, rtol=1e-6)
    for name in params:
        assert np.abs(slope[name]).max() > 0.05
        assert_allclose(slope_again[name], slope[name], atol=1e-6)


def test_sums_of_bfloat16_are_rounded_once():
    """256 parts of 1 + 1/64 are 260; each sum above 256 would round to 256."""
    parts = jnp.full((256, 1, 1), 1 + 1 / 64, jnp.bfloat16)
    one = jnp.ones((), jnp.bfloat16)
    _, slope = losses.cached_value_and_grad(jnp.multiply, jnp.sum, one, parts)
    assert slope.dtype == jnp.bfloat16 and slope == 260


def test_memory_is_that_of_a_part(params):
    tokens = jnp.ones((1024, LENGTH), jnp.int32)
    keys_N = jax.random.split(jax.random.key(0), 1024)
    batch = {'query': tokens, 'document': tokens, 'key': keys_N}
    parts = split(batch, 32)

    def needed(function):
        compiled = jax.jit(function).lower(params).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    def total(vectors):
        # The scores of all pairs are in memory either way; only the encoder is measured.
        return jnp.sum(vectors['query'] * vectors['document'])

    at_once = needed(jax.grad(lambda params: total(encode(params, batch))))
    cached = needed(lambda p: losses.cached_value_and_grad(encode, total, p, parts))
    assert cached < at_once / 4
