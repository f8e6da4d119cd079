"""Who sees whom, as a mask.

Two things decide it: `segment_ids` (a position sees its own document and no other;
padding is segment 0 and sees padding, so no row of the softmax is ever empty), and either
`causal`, the same for all, or `order_BL`: a position sees those of its own or a lower
order. So rows of one batch may differ:

    order    0 0 0 0 0     bidirectional (MLM)
             0 1 2 3 4     causal (CLM)
             0 0 0 1 2     a prefix bidirectionally, then causally (prefix-LM)

A window narrows this to positions that are near: |i - j| <= window. Of a whole row i and
j are places in it, as a document's positions are consecutive there; of a row that was cut
out of another, with gaps, they are the positions that are given.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Positions(NamedTuple):
    """What decides about positions: their index in the row, document, and order; and
    where windows are measured, None for the index."""

    index_L: jax.Array
    segment_ids_BL: jax.Array
    order_BL: jax.Array | None
    positions_BL: jax.Array | None

    def cut(self, start, size):
        """`size` of the positions, from `start` on."""
        return jax.tree.map(
            lambda x: jax.lax.dynamic_slice_in_dim(x, start, size, axis=x.ndim - 1), self
        )


def positions(segment_ids_BL, order_BL=None, positions_BL=None):
    """The Places of all of a row."""
    index_L = jnp.arange(segment_ids_BL.shape[1])
    return Positions(index_L, segment_ids_BL, order_BL, positions_BL)


def between(queries, keys, causal, window=None):
    """mask_BLM: may the position L of `queries` look at M of `keys`? [B, L, M] bool."""
    mask_BLM = queries.segment_ids_BL[:, :, None] == keys.segment_ids_BL[:, None, :]
    back_1LM = (queries.index_L[:, None] - keys.index_L[None, :])[None]
    if causal:
        mask_BLM = mask_BLM & (back_1LM >= 0)
    if window is not None:
        if queries.positions_BL is not None:
            back_1LM = queries.positions_BL[:, :, None] - keys.positions_BL[:, None, :]
        mask_BLM = mask_BLM & (jnp.abs(back_1LM) <= window)
    if queries.order_BL is not None:
        mask_BLM &= keys.order_BL[:, None, :] <= queries.order_BL[:, :, None]
    return mask_BLM


def visible(segment_ids_BL, causal, order_BL=None, window=None, positions_BL=None):
    """mask_BLM over whole rows: may position L look at position M? [B, L, L] bool."""
    whole = positions(segment_ids_BL, order_BL, positions_BL)
    return between(whole, whole, causal, window)
