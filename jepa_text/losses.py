"""Losses: arrays in, one value per position out, float32; someone else averages.

Needs only jax. All are pure, and safe under jit, grad and vmap: a masked mean over
nothing is 0, with zero gradients.
"""

import jax
import jax.numpy as jnp


def cross_entropy(logits_BMV, labels_BM):
    """-log softmax(logits)[label] at every position, float32.

    >>> print(cross_entropy(jnp.zeros((1, 1, 4)), jnp.array([[2]])))
    [[1.3862944]]
    """
    logits_BMV = logits_BMV.astype(jnp.float32)
    return jax.nn.logsumexp(logits_BMV, axis=-1) - _at_label(logits_BMV, labels_BM)


def z_loss(logits_BMV):
    """(log sum exp logits)^2 at every position (PaLM, section 5): keeps logits small."""
    return jax.nn.logsumexp(logits_BMV.astype(jnp.float32), axis=-1) ** 2


def correct(logits_BMV, labels_BM):
    """Is the label among the highest logits? float32 0 or 1 at every position."""
    highest_BM = jnp.max(logits_BMV, axis=-1)
    return (_at_label(logits_BMV, labels_BM) >= highest_BM).astype(jnp.float32)


def cosine_distance(prediction_BMD, target_BMD, eps=1e-8):
    """1 - cos(prediction, target) at every position, in [0, 2].

    >>> cosine_distance(jnp.array([[1., 0.]]), jnp.array([[0., 2.]])).tolist()
    [1.0]
    """
    prediction_BMD = _unit(prediction_BMD.astype(jnp.float32), eps)
    target_BMD = _unit(target_BMD.astype(jnp.float32), eps)
    return 1 - jnp.sum(prediction_BMD * target_BMD, axis=-1)


def smooth_l1(prediction_BMD, target_BMD, beta=1.0):
    """Mean over D of d^2 / 2 beta if |d| < beta else |d| - beta / 2 (data2vec, 3.3).

    >>> smooth_l1(jnp.array([[0.5, 3.0]]), jnp.zeros((1, 2))).tolist()
    [1.3125]
    """
    distance = jnp.abs(prediction_BMD.astype(jnp.float32) - target_BMD)
    near = 0.5 * distance**2 / beta
    return jnp.mean(jnp.where(distance < beta, near, distance - 0.5 * beta), axis=-1)


def layer_normalise(x_BMD, eps=1e-6):
    """(x - mean) / std over D without parameters, float32: the latent target's norm."""
    x_BMD = x_BMD.astype(jnp.float32)
    centred = x_BMD - jnp.mean(x_BMD, axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + eps)


def masked_sum(values, where):
    """Sum of `values` where the bool array of the same shape is true, float32.

    Values outside may be anything, NaN too: they reach neither sum nor gradient of
    what is inside.
    """
    return jnp.sum(jnp.where(where, values, 0.0), dtype=jnp.float32)


def masked_mean(values, where):
    """masked_sum over the count of true positions; 0 if there is none.

    >>> float(masked_mean(jnp.array([1., 2., jnp.nan]), jnp.array([True, True, False])))
    1.5
    """
    return masked_sum(values, where) / jnp.maximum(jnp.sum(where), 1)


def select(mask_BL, capacity):
    """The first `capacity` true positions of each row: index_BM, and where_BM.

    Fixed shapes for a ragged choice: `where_BM` is false at the places that a row does
    not fill (their index points to some unchosen position). A row with more true
    positions than the capacity loses the rest, so the sampler must not exceed it.
    """
    index_BM = jnp.argsort(~mask_BL, axis=-1, stable=True)[:, :capacity]
    return index_BM, jnp.take_along_axis(mask_BL, index_BM, axis=-1)


def take(x_BLD, index_BM):
    """x_BMD: the vectors at the selected positions."""
    return jnp.take_along_axis(x_BLD, index_BM[:, :, None], axis=1)


def chunked(score, hidden_BMD, labels_BM, chunk):
    """`score(hidden, labels)` over chunks of M, so that logits exist for one chunk only.

    `score` gives a pytree of [B, m] arrays; the backward pass computes each chunk's
    logits again. M is padded to a multiple of `chunk` and cut back.
    """
    length = labels_BM.shape[1]
    if length <= chunk:
        return score(hidden_BMD, labels_BM)
    count = -(-length // chunk)
    pad = count * chunk - length
    hidden = jnp.pad(hidden_BMD, ((0, 0), (0, pad), (0, 0)))
    labels = jnp.pad(labels_BM, ((0, 0), (0, pad)))

    def split(x):
        return jnp.moveaxis(x.reshape(x.shape[0], count, chunk, *x.shape[2:]), 1, 0)

    def join(x):
        return jnp.moveaxis(x, 0, 1).reshape(x.shape[1], count * chunk)[:, :length]

    one = jax.checkpoint(lambda pair: score(*pair))
    return jax.tree.map(join, jax.lax.map(one, (split(hidden), split(labels))))


def _at_label(logits_BMV, labels_BM):
    return jnp.take_along_axis(logits_BMV, labels_BM[..., None], axis=-1)[..., 0]


def _unit(x, eps):
    return x * jax.lax.rsqrt(jnp.maximum(jnp.sum(x**2, axis=-1, keepdims=True), eps**2))
