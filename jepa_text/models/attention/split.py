"""Adapts a backend to rows of any length and to meshes of devices."""

import functools
import math

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from jepa_text.models.attention import blockwise
from jepa_text.parallel import activations, sharding


def adapted(backend, request, keep=None):
    """Returns `attend(q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, order_BL)` of a backend.

    For a request with `gaps`, which no kernel supports, positions_BL is the last
    argument. `keep` is as in attend.attend.
    """
    options = dict(causal=request.causal, window=request.window)
    named = {'keep': keep} if backend.KEEPS else {}
    attend = functools.partial(backend.attend, **options, **named)
    if hasattr(backend, 'fits') and request.documents is not None:
        # The kernel is built for that many documents, so all rows fit.
        attend = functools.partial(attend, documents=request.documents)
    elif hasattr(backend, 'fits'):
        attend = _or_blockwise(backend.fits, attend, **options)
    padding = -request.length % backend.MULTIPLE
    if padding:
        attend = _padded(attend, request.length, padding)
    if not backend.SPLITS and request.rows * request.tensor > 1:
        attend = _on_mesh(attend, request)
    return attend


def repeat_groups(heads, k_BLGK, v_BLGK):
    """Returns keys and values, repeated if needed to be split over devices by heads.

    They are repeated if the number of heads is a multiple of the devices but the number
    of groups is not, and as few times as possible.
    """
    ways = activations.ways(sharding.HEADS)
    groups = k_BLGK.shape[2]
    repeated = math.lcm(groups, ways)
    if groups % ways == 0 or heads % repeated:
        return k_BLGK, v_BLGK
    return (jnp.repeat(x, repeated // groups, axis=2) for x in (k_BLGK, v_BLGK))


def _padded(attend, length, padding):
    """Returns `attend` with `padding` positions added to each row."""

    def pad(x, value=0):
        sizes = ((0, 0), (0, padding), *((0, 0),) * (x.ndim - 2))
        return jnp.pad(x, sizes, constant_values=value)

    def padded(q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, order_BL, *positions):
        # No other document has id -1: the padding attends only to itself.
        ids_BL = pad(segment_ids_BL, -1)
        order_BL = None if order_BL is None else pad(order_BL)
        inputs = (pad(q_BLHK), pad(k_BLGK), pad(v_BLGK), ids_BL, order_BL)
        out_BLHK = attend(*inputs, *map(pad, positions))
        return out_BLHK[:, :length]

    return padded


def _or_blockwise(fits, attend, **options):
    """Returns `attend` if the rows fit, else `blockwise`.

    The arrays of `blockwise` are recomputed in the backward pass to save memory.
    """
    fallback = jax.checkpoint(functools.partial(blockwise.attend, **options))

    def either(q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, order_BL):
        return jax.lax.cond(
            fits(segment_ids_BL),
            lambda *inputs: attend(*inputs, order_BL),
            lambda *inputs: fallback(*inputs, order_BL),
            *(q_BLHK, k_BLGK, v_BLGK, segment_ids_BL),
        )

    return either


def _on_mesh(attend, request):
    """Returns `attend` on each device's rows and heads.

    Rows whose number is not a multiple of the devices are not split.
    """
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
