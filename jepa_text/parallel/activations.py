"""Sharding of a trunk's activations on the current mesh, by rows, positions or heads."""

import math

import jax
from jax.sharding import PartitionSpec

from jepa_text.parallel.sharding import CONTEXT, HEADS, ROWS, SLICES, TENSOR, as_tuple

_POSITIONS, _HEADS = (ROWS, CONTEXT, TENSOR), (ROWS, None, HEADS)  # of [B, L, H, K]


def by_rows(x):
    """Constrains `x` [B, ...] to be sharded by rows over the current mesh.

    The positions of [B, L, D] are sharded, too, if their number is divisible; all other
    axes are replicated. Applied to the activations between layers: otherwise XLA may
    propagate the sharding of a parameter instead, and keep all rows of a batch on every
    device. Does nothing without a mesh, within a shard_map, which splits the rows itself,
    and if the number of rows is not divisible.
    """
    parts = ways(CONTEXT)
    if parts > 1 and x.ndim > 2 and x.shape[1] % parts == 0:
        return _constrained(x, ROWS, CONTEXT)
    return _constrained(x, ROWS)


def by_heads(x_BLHK):
    """Reshards inputs of attention from positions to heads (Ulysses).

    A part of each row with all heads becomes whole rows with a part of the heads (Jacobs
    et al. 2023, arXiv 2309.14509). Does nothing if positions are not sharded.
    """
    if ways(CONTEXT) == 1:
        return x_BLHK
    return _constrained(_constrained(x_BLHK, *_POSITIONS), *_HEADS)


def by_positions(x_BLHK):
    """Reshards outputs of attention from heads to positions, reversing `by_heads`."""
    if ways(CONTEXT) == 1:
        return x_BLHK
    return _constrained(_constrained(x_BLHK, *_HEADS), *_POSITIONS)


def flat(x):
    """Reshapes `x` [..., D] to [N, D].

    Returns `x` unchanged if positions are sharded, as rows and positions then cannot be
    merged into one axis.
    """
    return x if ways(CONTEXT) > 1 else x.reshape(-1, x.shape[-1])


def ways(axes):
    """Returns the number of devices over which the current mesh splits along `axes`.

    Axes of an enclosing shard_map, which are split already, do not count.
    """
    mesh = jax.sharding.get_abstract_mesh()
    left = (axis for axis in as_tuple(axes) if axis not in mesh.manual_axes)
    return math.prod(mesh.shape.get(axis, 1) for axis in left)


def embedding_lookup(table_VD, ids_BL, dtype='float32'):
    """Returns the rows of a float32 table given by `ids_BL` as [B, L, D] of a dtype,
    sharded as by `by_rows`.

    They are converted after the lookup, so that the gradients of a token's occurrences
    are summed in float32: in bfloat16, those of a mask token are off by half.

    A table is sharded over its width. Each device looks up its part for the rows of all
    devices that share the width, and then they exchange. In a single step, XLA would
    gather the table, and the gradients of all rows.
    """
    rows_BLD = table_VD[_constrained(ids_BL, 'data')].astype(dtype)
    if ways(CONTEXT) > 1:
        # One axis at a time: XLA has no exchange over both at once.
        rows_BLD = _constrained(rows_BLD, 'data', None, SLICES)
        return by_rows(_constrained(rows_BLD, ROWS, None, CONTEXT))
    return by_rows(_constrained(rows_BLD, 'data', None, 'fsdp'))


def _constrained(x, *axes):
    """Constrains `x` to be sharded over these mesh axes if all of them divide it."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.size == 1 or mesh.manual_axes:
        return x
    if any(size % ways(names) for size, names in zip(x.shape, axes)):
        return x
    return jax.lax.with_sharding_constraint(x, PartitionSpec(*axes))
