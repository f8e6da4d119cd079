"""The attention mask: which positions attend to which.

It depends on two things. First, `segment_ids`: a position attends only to its own
document (padding is segment 0 and attends to padding, so no row of the softmax is empty).
Second, either `causal`, for all rows, or `order_BL`: a position attends to those with the
same or a lower order. Thus rows of one batch may differ:

    order    0 0 0 0 0     bidirectional (MLM)
             0 1 2 3 4     causal (CLM)
             0 0 0 1 2     bidirectional prefix, then causal (prefix-LM)

A window restricts attention to nearby positions: |i - j| <= window. In a whole row, i and
j are indices in the row, because the positions of a document are consecutive. In a row
that was cut out of another, with gaps, they are the given positions.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Positions(NamedTuple):
    """Properties of positions that define the mask.

    Their index in the row, document and order, and the positions in which windows are
    measured, None for the index.
    """

    index_L: jax.Array
    segment_ids_BL: jax.Array
    order_BL: jax.Array | None
    positions_BL: jax.Array | None

    def cut(self, start, size):
        """Returns `size` of the positions, from `start` on."""
        return jax.tree.map(
            lambda x: jax.lax.dynamic_slice_in_dim(x, start, size, axis=x.ndim - 1), self
        )


def positions(segment_ids_BL, order_BL=None, positions_BL=None):
    """Returns the Positions of whole rows."""
    index_L = jnp.arange(segment_ids_BL.shape[1])
    return Positions(index_L, segment_ids_BL, order_BL, positions_BL)


def between(queries, keys, causal, window=None):
    """Returns mask_BLM, [B, L, M] bool: whether query L may attend to key M."""
    mask_BLM = queries.segment_ids_BL[:, :, None] == keys.segment_ids_BL[:, None, :]
    offset_1LM = (queries.index_L[:, None] - keys.index_L[None, :])[None]
    if causal:
        mask_BLM = mask_BLM & (offset_1LM >= 0)
    if window is not None:
        if queries.positions_BL is not None:
            offset_1LM = queries.positions_BL[:, :, None] - keys.positions_BL[:, None, :]
        mask_BLM = mask_BLM & (jnp.abs(offset_1LM) <= window)
    if queries.order_BL is not None:
        mask_BLM &= keys.order_BL[:, None, :] <= queries.order_BL[:, :, None]
    return mask_BLM


def visible(segment_ids_BL, causal, order_BL=None, window=None, positions_BL=None):
    """Returns mask_BLM of whole rows, [B, L, L] bool: whether L may attend to M."""
    whole = positions(segment_ids_BL, order_BL, positions_BL)
    return between(whole, whole, causal, window)
