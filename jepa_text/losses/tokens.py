"""Losses of token predictions: logits [B, M, V] -> float32 [B, M]."""

import jax
import jax.numpy as jnp
from jax import Array

from jepa_text.losses import shapes


def cross_entropy(logits_BMV: Array, labels_BM: Array) -> Array:
    """Returns -log softmax(logits)[label] at each position, computed in float32.

    A label outside [0, V) gives NaN. Masking such positions out, for example with
    `masked_mean`, also keeps the gradients finite.

    >>> print(cross_entropy(jnp.zeros((1, 1, 4)), jnp.array([[2]])))
    [[1.3862944]]
    """
    logits_BMV = logits_BMV.astype(jnp.float32)
    return jax.nn.logsumexp(logits_BMV, axis=-1) - _at_label(logits_BMV, labels_BM)


def z_loss(logits_BMV: Array) -> Array:
    """Returns (log sum exp logits)^2 at each position, a penalty that keeps logits small.

    PaLM (arXiv 2204.02311, section 5) adds it to the loss with weight 1e-4.

    >>> print(z_loss(jnp.array([[3.0], [-2.0]])))
    [9. 4.]
    """
    return jax.nn.logsumexp(logits_BMV.astype(jnp.float32), axis=-1) ** 2


def correct(logits_BMV: Array, labels_BM: Array) -> Array:
    """Returns 1 where no logit exceeds the label's, else 0; the mean is the accuracy.

    >>> print(correct(jnp.array([[3.0, 5.0], [3.0, 5.0]]), jnp.array([0, 1])))
    [0. 1.]
    """
    highest_BM = jnp.max(logits_BMV, axis=-1)
    return (_at_label(logits_BMV, labels_BM) >= highest_BM).astype(jnp.float32)


def _at_label(logits_BMV, labels_BM):
    shapes.check('labels', labels_BM, jnp.shape(logits_BMV)[:-1])
    # A negative index would count from the end; an index that is too large gives NaN.
    labels_BM = shapes.labels(labels_BM)
    index_BM = jnp.where(labels_BM < 0, logits_BMV.shape[-1], labels_BM)
    return jnp.take_along_axis(logits_BMV, index_BM[..., None], axis=-1)[..., 0]
