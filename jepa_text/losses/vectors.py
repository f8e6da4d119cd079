"""Losses between predicted and target vectors, and the normalization of targets."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from jepa_text.losses import shapes


def cosine_distance(prediction_BMD: Array, target_BMD: Array, eps: float = 1e-8) -> Array:
    """Returns 1 - cos(prediction, target) at each position, in [0, 2].

    It is 1 if either vector is 0. `eps` is the smallest length that a vector is divided
    by. This is the loss of arXiv 2606.05173.

    >>> cosine_distance(jnp.array([[1., 0.]]), jnp.array([[0., 2.]])).tolist()
    [1.0]
    """
    shapes.check('target', target_BMD, jnp.shape(prediction_BMD))
    return 1 - jnp.sum(unit(prediction_BMD, eps) * unit(target_BMD, eps), axis=-1)


def smooth_l1(prediction_BMD: Array, target_BMD: Array, beta: float = 1.0) -> Array:
    """Returns the mean over D of d^2 / (2 beta) if |d| < beta, else |d| - beta / 2.

    d is prediction - target; beta must be above 0. This is the loss of data2vec (arXiv
    2202.03555), which uses beta = 4 for text.

    >>> smooth_l1(jnp.array([[0.5, 3.0]]), jnp.zeros((1, 2))).tolist()
    [1.3125]
    """
    shapes.check('target', target_BMD, jnp.shape(prediction_BMD))
    distance = jnp.abs(prediction_BMD.astype(jnp.float32) - target_BMD)
    near = 0.5 * distance**2 / beta
    return jnp.mean(jnp.where(distance < beta, near, distance - 0.5 * beta), axis=-1)


def mse(prediction_BMD: Array, target_BMD: Array) -> Array:
    """Returns the mean over D of (prediction - target)^2 at each position.

    This is the loss of data2vec 2.0 (arXiv 2212.07525).

    >>> mse(jnp.array([[1.0, 3.0]]), jnp.zeros((1, 2))).tolist()
    [5.0]
    """
    shapes.check('target', target_BMD, jnp.shape(prediction_BMD))
    difference = prediction_BMD.astype(jnp.float32) - target_BMD
    return jnp.mean(difference**2, axis=-1)


def info_nce(
    prediction_ND: Array,
    target_ND: Array,
    where_N: Array,
    temperature: float | Array,
    negatives_S: Array | None = None,
) -> Array:
    """Returns -log softmax_j(cos(prediction_i, target_j) / temperature)[i] for each i.

    This is one direction of SimCLR's loss (arXiv 2002.05709, equation 1), after CPC
    (arXiv 1807.03748). Each position where `where_N` is true is an anchor. Its negatives
    are the targets of all other true positions or, if `negatives_S` is given, of those at
    these indices, of which those outside 0 to N - 1 are left out. False positions are
    neither anchors nor negatives: their loss is 0, and
    their values affect neither results nor gradients. Memory grows with N^2, or N S.

    >>> x_ND, where_N = jnp.eye(3), jnp.array([True, True, False])
    >>> print(info_nce(x_ND, x_ND, where_N, 0.5).round(4))
    [0.1269 0.1269 0.    ]
    """
    shapes.check('target', target_ND, jnp.shape(prediction_ND))
    shapes.check_mask('where', where_N, jnp.shape(prediction_ND)[:1])
    keep_N1 = where_N[:, None]
    prediction_ND = unit(jnp.where(keep_N1, prediction_ND, 0))
    target_ND = unit(jnp.where(keep_N1, target_ND, 0))
    if negatives_S is None:
        negatives_S = jnp.arange(len(where_N))
    own_N1 = jnp.sum(prediction_ND * target_ND, axis=-1, keepdims=True) / temperature
    scores_NS = prediction_ND @ target_ND[negatives_S].T / temperature
    is_self_NS = jnp.arange(len(where_N))[:, None] == negatives_S[None, :]
    is_one_S = (negatives_S >= 0) & (negatives_S < len(where_N)) & where_N[negatives_S]
    scores_NS = jnp.where(is_one_S[None] & ~is_self_NS, scores_NS, -jnp.inf)
    # The positive score is always finite, so the logsumexp of a false row is, too.
    all_NS = jnp.concatenate([own_N1, scores_NS], axis=1)
    loss_N = jax.nn.logsumexp(all_NS, axis=-1) - own_N1[:, 0]
    return jnp.where(where_N, loss_N, 0.0)


def layer_normalize(x_BMD: Array, eps: float = 1e-6) -> Array:
    """Returns (x - mean) / sqrt(Var + eps) over D, without parameters.

    Layer normalization (arXiv 1607.06450) as data2vec applies it to targets; Var divides
    by D.

    >>> print(layer_normalize(jnp.array([[1.0, 3.0]])).round(3))
    [[-1.  1.]]
    """
    x_BMD = x_BMD.astype(jnp.float32)
    centered = x_BMD - jnp.mean(x_BMD, axis=-1, keepdims=True)
    return centered * jax.lax.rsqrt(jnp.mean(centered**2, axis=-1, keepdims=True) + eps)


def instance_normalize(x_BLD: Array, segment_ids_BL: Array, eps: float = 1e-5) -> Array:
    """Returns (x - mean) / sqrt(Var + eps) over each document, separately per coordinate.

    The normalization of data2vec 2.0's targets (arXiv 2212.07525). Documents are given by
    `segment_ids_BL`, with ids from 1 to L in each row; id 0 marks padding, where the
    result is 0. A bool mask means one document per row.

    >>> x_BLD = jnp.array([[[1.0], [3.0], [7.0], [7.0], [9.0]]])
    >>> ids_BL = jnp.array([[1, 1, 2, 2, 0]])
    >>> instance_normalize(x_BLD, ids_BL).round(3)[0, :, 0].tolist()
    [-1.0, 1.0, 0.0, 0.0, 0.0]
    """
    shapes.check('segment_ids', segment_ids_BL, jnp.shape(x_BLD)[:-1])
    ids_BL = segment_ids_BL.astype(jnp.int32)
    keep_BL1 = segment_ids_BL[:, :, None] > 0

    @jax.vmap
    def sums(x_LD, ids_L):
        return jax.ops.segment_sum(x_LD, ids_L, len(ids_L) + 1)[ids_L]

    count_BL1 = sums(jnp.ones(keep_BL1.shape, jnp.float32), ids_BL)
    x_BLD = jnp.where(keep_BL1, x_BLD, 0).astype(jnp.float32)
    centered_BLD = jnp.where(keep_BL1, x_BLD - sums(x_BLD, ids_BL) / count_BL1, 0)
    variance_BLD = sums(centered_BLD**2, ids_BL) / count_BL1
    return centered_BLD * jax.lax.rsqrt(variance_BLD + eps)


def average_layers(layers_NBLD: Array, k: int, normalize: Callable) -> Array:
    """Returns the mean of the last k of N layers, each passed through `normalize` first.

    The target of data2vec (arXiv 2202.03555, section 3.3), where a layer is the output of
    its feed-forward network; here the caller decides what a layer is. `normalize` maps
    [B, L, D] to the same shape: `layer_normalize`, `instance_normalize` with its
    documents bound, or `lambda x: x`. Raises ValueError unless 1 <= k <= N.

    >>> layers_NBLD = jnp.array([9.0, 1.0, 2.0]).reshape(3, 1, 1, 1)
    >>> average_layers(layers_NBLD, 2, lambda x: x).tolist()
    [[[1.5]]]
    """
    if not 1 <= k <= len(layers_NBLD):
        raise ValueError(
            f'average_layers: k={k}, but there are {len(layers_NBLD)} layers. Set k to '
            f'a number from 1 to {len(layers_NBLD)}.'
        )
    return sum(normalize(x).astype(jnp.float32) for x in layers_NBLD[-k:]) / k


def unit(x: Array, eps: float = 1e-8) -> Array:
    """Returns x / max(|x|, eps) along the last axis; 0 stays 0, with finite gradients.

    >>> print(unit(jnp.array([[3.0, 4.0], [0.0, 0.0]])))
    [[0.6 0.8]
     [0.  0. ]]
    """
    x = x.astype(jnp.float32)
    return x * jax.lax.rsqrt(jnp.maximum(jnp.sum(x**2, axis=-1, keepdims=True), eps**2))
