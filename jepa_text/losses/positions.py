"""The positions of a loss: means where a mask is true, and gathering them."""

import jax.numpy as jnp


def masked_sum(values, where):
    """Sum of `values` where the bool array of the same shape is true.

    Values outside may be anything, NaN too: they reach neither sum nor gradient of
    what is inside.

    >>> print(masked_sum(jnp.array([1.0, jnp.inf]), jnp.array([True, False])))
    1.0
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
    not fill (their index, int32, is some unchosen position). A row with more true
    positions than the capacity loses the rest, so the sampler must not exceed it.

    >>> index_BM, where_BM = select(jnp.array([[False, True, False, True]]), capacity=3)
    >>> print(index_BM, where_BM)
    [[1 3 0]] [[ True  True False]]
    """
    index_BM = jnp.argsort(~mask_BL, axis=-1, stable=True)[:, :capacity]
    return index_BM, jnp.take_along_axis(mask_BL, index_BM, axis=-1)


def take(x_BLD, index_BM):
    """x_BMD of the dtype of x: the vectors at the selected positions.

    >>> print(take(jnp.array([[[5.0], [6.0], [7.0]]]), jnp.array([[2, 0]]))[..., 0])
    [[7. 5.]]
    """
    return jnp.take_along_axis(x_BLD, index_BM[:, :, None], axis=1)
