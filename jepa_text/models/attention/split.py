"""A backend, made to take rows of any length, on one device or many."""

import functools
import math

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from jepa_text.models.attention import blockwise
from jepa_text.parallel import sharding


def fitted(backend, request, keep=None):
    """`attend(q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, order_BL)` of a backend; of a
    request with `gaps`, which no kernel takes, with positions_BL at the end. `keep`: as
    attend.attend has it."""
    options = dict(causal=request.causal, window=request.window)
    named = {'keep': keep} if backend.KEEPS else {}
    attend = functools.partial(backend.attend, **options, **named)
    if hasattr(backend, 'fits') and request.documents is not None:
        # All rows fit, as the kernel is made for so many: nothing is left to ask.
        attend = functools.partial(attend, documents=request.documents)
    elif hasattr(backend, 'fits'):
        attend = _where_it_fits(backend.fits, attend, **options)
    more = -request.length % backend.MULTIPLE
    if more:
        attend = _padded(attend, request.length, more)
    if not backend.SPLITS and request.rows * request.tensor > 1:
        attend = _on_mesh(attend, request)
    return attend


def divided(heads, k_BLGK, v_BLGK):
    """Keys and values, repeated where the heads divide over the devices that share them,
    but their groups do not: as seldom as will do."""
    mesh = jax.sharding.get_abstract_mesh()
    sizes = {a: n for a, n in mesh.shape.items() if a not in mesh.manual_axes}
    ways = math.prod(sizes.get(axis, 1) for axis in sharding.HEADS)
    groups = k_BLGK.shape[2]
    enough = math.lcm(groups, ways)
    if groups % ways == 0 or heads % enough:
        return k_BLGK, v_BLGK
    return (jnp.repeat(x, enough // groups, axis=2) for x in (k_BLGK, v_BLGK))


def _padded(attend, length, more):
    """`attend` with that many positions added to each row."""

    def pad(x, value=0):
        sizes = ((0, 0), (0, more), *((0, 0),) * (x.ndim - 2))
        return jnp.pad(x, sizes, constant_values=value)

    def padded(q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, order_BL, *placed):
        # Document -1 is no other's number: what is added sees itself only.
        ids_BL = pad(segment_ids_BL, -1)
        order_BL = None if order_BL is None else pad(order_BL)
        given = (pad(q_BLHK), pad(k_BLGK), pad(v_BLGK), ids_BL, order_BL)
        out_BLHK = attend(*given, *map(pad, placed))
        return out_BLHK[:, :length]

    return padded


def _where_it_fits(fits, attend, **options):
    """`attend` if the rows fit; else `blockwise`, whose arrays are then computed again in
    the backward pass, so that they take no room meanwhile."""
    other = jax.checkpoint(functools.partial(blockwise.attend, **options))

    def either(q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, order_BL):
        return jax.lax.cond(
            fits(segment_ids_BL),
            lambda *inputs: attend(*inputs, order_BL),
            lambda *inputs: other(*inputs, order_BL),
            *(q_BLHK, k_BLGK, v_BLGK, segment_ids_BL),
        )

    return either


def _on_mesh(attend, request):
    """`attend` on each device's rows and heads; rows that do not divide stay whole."""
    axes = None if request.batch % request.rows else sharding.ROWS
    rows = PartitionSpec(axes)
    heads = PartitionSpec(axes, None, sharding.HEADS)

    def split(q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, order_BL):
        return jax.shard_map(
            lambda *inputs: attend(*inputs, order_BL),
            in_specs=(heads, heads, heads, rows),
            out_specs=heads,
            check_vma=False,
        )(q_BLHK, k_BLGK, v_BLGK, segment_ids_BL)

    return split
