"""How the activations of a trunk lie on the mesh that is set: rows, positions, heads."""

import math

import jax
from jax.sharding import PartitionSpec

from jepa_text.parallel.sharding import CONTEXT, HEADS, ROWS, SLICES, TENSOR, several

_POSITIONS, _HEADS = (ROWS, CONTEXT, TENSOR), (ROWS, None, HEADS)  # of [B, L, H, K]


def by_rows(x):
    """`x` [B, ...] with its rows split over the mesh that is set, the positions of
    [B, L, D] if they divide, and all else whole.

    What a trunk hands from layer to layer is held to this: XLA, left to itself, may take
    on the split of a parameter instead, and keep all rows of a batch on every device.
    Nothing happens without a mesh, within a shard_map that splits rows itself, and to
    rows that do not divide.
    """
    ways = context_ways()
    if ways > 1 and x.ndim > 2 and x.shape[1] % ways == 0:
        return _held(x, ROWS, CONTEXT)
    return _held(x, ROWS)


def by_heads(x_BLHK):
    """What attention reads, of a part of each row and all heads, as whole rows of a part
    of the heads (Jacobs et al. 2023, arXiv 2309.14509). Nothing happens where positions
    are not split."""
    if context_ways() == 1:
        return x_BLHK
    return _held(_held(x_BLHK, *_POSITIONS), *_HEADS)


def by_positions(x_BLHK):
    """What attention gives, the way back."""
    if context_ways() == 1:
        return x_BLHK
    return _held(_held(x_BLHK, *_HEADS), *_POSITIONS)


def flat(x):
    """`x` [..., D] as [N, D]; where positions are split as it is, for rows and positions
    in one axis could not be."""
    return x if context_ways() > 1 else x.reshape(-1, x.shape[-1])


def context_ways():
    """Over how many devices the mesh that is set splits the positions of a row."""
    mesh = jax.sharding.get_abstract_mesh()
    return 1 if CONTEXT in mesh.manual_axes else mesh.shape.get(CONTEXT, 1)


def look_up(table_VD, ids_BL):
    """The rows of a table that `ids_BL` name, [B, L, D], split as by `by_rows`.

    A table is split over its width: each device looks its part up for the rows of all
    that share the width, and then they exchange. In one step, XLA gathers the table, and
    the gradients of all rows.
    """
    found_BLD = table_VD[_held(ids_BL, 'data')]
    if context_ways() > 1:
        # One axis after the other, as XLA knows no exchange over both at once.
        found_BLD = _held(_held(found_BLD, 'data', None, SLICES), ROWS, None, CONTEXT)
        return by_rows(found_BLD)
    return by_rows(_held(found_BLD, 'data', None, 'fsdp'))


def _held(x, *axes):
    """`x` split over these axes of the mesh that is set, if all of them divide it."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.size == 1 or mesh.manual_axes:
        return x
    ways = [math.prod(mesh.shape[a] for a in several(names)) for names in axes]
    if any(size % n for size, n in zip(x.shape, ways)):
        return x
    return jax.lax.with_sharding_constraint(x, PartitionSpec(*axes))
