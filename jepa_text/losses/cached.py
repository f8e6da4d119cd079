"""Gradients of a loss over a whole batch, with only part of it in memory at a time.

InfoNCE compares each vector of a batch with all others, so accumulating gradients over
smaller batches changes the loss. GradCache (Gao et al. 2021, arXiv 2101.06983) encodes
twice: first all parts, without storing activations for the backward pass; then part by
part, using the gradients of the loss with respect to the vectors. The parameter gradients
of the parts add up to those of the whole batch.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def cached_value_and_grad(
    encode: Callable, loss: Callable, params: Any, parts: Any
) -> tuple[Array, Any]:
    """Returns (loss, gradients with respect to `params`) of a batch given in C parts.

        encode(params, part)    maps a part to vectors: a pytree of arrays [B, ...]
        loss(vectors)           maps the same pytree with arrays [C B, ...] to a scalar
        parts                   a pytree of arrays [C, B, ...], such as tokens of queries
                                and documents, and, for dropout, one key per part [C]

    Equal to jax.value_and_grad of the loss of all vectors at once, up to rounding, at the
    cost of one more forward pass. `encode` must be pure: both calls must return the same.

    >>> def loss(x_ND):
    ...     return jnp.sum(x_ND @ x_ND.T)
    >>> parts = jnp.arange(4.0).reshape(2, 2, 1)
    >>> value, gradient = cached_value_and_grad(jnp.multiply, loss, jnp.array(2.0), parts)
    >>> print(value, gradient)
    144.0 144.0
    """
    vectors = jax.lax.map(lambda part: encode(params, part), parts)

    def loss_of_parts(vectors):
        joined = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), vectors)
        return loss(joined)

    value, d_vectors = jax.value_and_grad(loss_of_parts)(vectors)

    def add(total, inputs):
        part, d_part = inputs
        _, backward = jax.vjp(lambda params: encode(params, part), params)
        return jax.tree.map(jnp.add, total, backward(d_part)[0]), None

    # Sums in half precision would lose the parts that are small beside them.
    zeros = jax.tree.map(
        lambda x: jnp.zeros(x.shape, jnp.promote_types(x.dtype, 'float32')), params
    )
    total, _ = jax.lax.scan(add, zeros, (parts, d_vectors))
    return value, jax.tree.map(lambda x, like: x.astype(like.dtype), total, params)
