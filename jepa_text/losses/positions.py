"""Masked reductions, and gathering the positions of a loss."""

import jax.numpy as jnp
from jax import Array

from jepa_text.losses import shapes


def masked_sum(values: Array, where: Array) -> Array:
    """Returns the sum of `values` where the bool array `where` of the same shape is true.

    Masked-out values may be anything, including NaN: they affect neither the sum nor the
    gradients of the other values. Raises ValueError for another shape or dtype of
    `where`.

    >>> print(masked_sum(jnp.array([1.0, jnp.inf]), jnp.array([True, False])))
    1.0
    """
    shapes.check_mask('where', where, jnp.shape(values))
    return jnp.sum(jnp.where(where, values, 0.0), dtype=jnp.float32)


def masked_mean(values: Array, where: Array) -> Array:
    """Returns `masked_sum` divided by the number of true positions; 0 if there are none.

    Raises ValueError as `masked_sum` does.

    >>> float(masked_mean(jnp.array([1., 2., jnp.nan]), jnp.array([True, True, False])))
    1.5
    """
    return masked_sum(values, where) / jnp.maximum(jnp.sum(where), 1)


def select(mask_BL: Array, capacity: int) -> tuple[Array, Array]:
    """Returns the first `capacity` true positions of each row, as index_BM and where_BM.

    The shapes are fixed although the number of positions varies by row: `where_BM` is
    false in the slots that a row does not fill (their int32 index is some unselected
    position). If a row has more true positions than `capacity`, the rest are dropped; the
    sampler of the mask must not exceed the capacity.

    >>> index_BM, where_BM = select(jnp.array([[False, True, False, True]]), capacity=3)
    >>> print(index_BM, where_BM)
    [[1 3 0]] [[ True  True False]]
    """
    shapes.check_mask('mask', mask_BL, jnp.shape(mask_BL))
    index_BM = jnp.argsort(~mask_BL, axis=-1, stable=True)[..., :capacity]
    return index_BM, jnp.take_along_axis(mask_BL, index_BM, axis=-1)


def take(x_BLD: Array, index_BM: Array) -> Array:
    """Returns x_BMD, the vectors at the selected positions, in the dtype of `x_BLD`.

    >>> print(take(jnp.array([[[5.0], [6.0], [7.0]]]), jnp.array([[2, 0]]))[..., 0])
    [[7. 5.]]
    """
    return jnp.take_along_axis(x_BLD, index_BM[..., None], axis=-2)
