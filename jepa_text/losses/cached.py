"""Gradients of a loss over a whole batch, of which only a part is in memory at a time.

InfoNCE compares every vector of a batch with all others, so that accumulating over
smaller batches is another loss. GradCache (Gao et al. 2021, arXiv 2101.06983) encodes
twice: first all parts without keeping what gradients need; then, with the gradients of
the loss in the vectors, part by part, whose gradients add up to the same.
"""

import jax
import jax.numpy as jnp


def cached_value_and_grad(encode, loss, params, parts):
    """(loss, its gradients in `params`) of a batch in C parts.

    encode(params, part)    vectors of a part: a tree of arrays [B, ...]
    loss(vectors)           a scalar of the same tree of arrays [C B, ...]
    parts                   a tree of arrays [C, B, ...], as tokens of queries and of
                            documents; a key for dropout too, one for each part [C]

    Equal to jax.value_and_grad of the loss of all vectors at once, but for rounding; it
    takes one more forward pass. `encode` must be pure: it must give the same again.

    >>> def loss(x_ND):
    ...     return jnp.sum(x_ND @ x_ND.T)
    >>> parts = jnp.arange(4.0).reshape(2, 2, 1)
    >>> value, gradient = cached_value_and_grad(jnp.multiply, loss, jnp.array(2.0), parts)
    >>> print(value, gradient)
    144.0 144.0
    """
    vectors = jax.lax.map(lambda part: encode(params, part), parts)

    def whole(vectors):
        joined = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), vectors)
        return loss(joined)

    value, d_vectors = jax.value_and_grad(whole)(vectors)

    def add(total, given):
        part, d_part = given
        _, backward = jax.vjp(lambda params: encode(params, part), params)
        return jax.tree.map(jnp.add, total, backward(d_part)[0]), None

    nothing = jax.tree.map(jnp.zeros_like, params)
    gradient, _ = jax.lax.scan(add, nothing, (parts, d_vectors))
    return value, gradient
