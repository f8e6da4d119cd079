"""Who sees whom, as a mask.

Two things decide it: `segment_ids` (a position sees its own document and no other;
padding is segment 0 and sees padding, so no row of the softmax is ever empty), and either
`causal`, the same for all, or `order_BL`: a position sees those of its own or a lower
order. So rows of one batch may differ:

    order    0 0 0 0 0     both ways (MLM)
             0 1 2 3 4     to the left (CLM)
             0 0 0 1 2     a prefix both ways, then to the left (prefix-LM)

A window narrows this to positions that are near: |i - j| <= window. A document's
positions are consecutive in its row, so that is also the distance in the document.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Places(NamedTuple):
    """What decides about positions: their index in the row, document, and order."""

    index_L: jax.Array
    segment_ids_BL: jax.Array
    order_BL: jax.Array | None

    def cut(self, start, size):
        """`size` of the positions, from `start` on."""
        return jax.tree.map(
            lambda x: jax.lax.dynamic_slice_in_dim(x, start, size, axis=x.ndim - 1), self
        )


def places(segment_ids_BL, order_BL=None):
    """The Places of whole rows."""
    return Places(jnp.arange(segment_ids_BL.shape[1]), segment_ids_BL, order_BL)


def between(queries, keys, causal, window=None):
    """mask_BLM: may the position L of `queries` look at M of `keys`? [B, L, M] bool."""
    mask_BLM = queries.segment_ids_BL[:, :, None] == keys.segment_ids_BL[:, None, :]
    if causal or window is not None:
        back_LM = queries.index_L[:, None] - keys.index_L[None, :]
    if causal:
        mask_BLM = mask_BLM & (back_LM >= 0)[None]
    if window is not None:
        mask_BLM = mask_BLM & (jnp.abs(back_LM) <= window)[None]
    if queries.order_BL is not None:
        mask_BLM &= keys.order_BL[:, None, :] <= queries.order_BL[:, :, None]
    return mask_BLM


def visible(segment_ids_BL, causal, order_BL=None, window=None):
    """mask_BLM over whole rows: may position L look at position M? [B, L, L] bool."""
    whole = places(segment_ids_BL, order_BL)
    return between(whole, whole, causal, window)
