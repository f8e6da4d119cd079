"""Adapts a backend to rows of any length and to meshes of devices."""

import functools
import math

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from jepa_text.models.attention import blockwise
from jepa_text.parallel import activations, sharding


def adapted(backend, request, keep=None):
    """Returns `attend(q_BLHK, k_BLGK, v_BLGK, segment_ids_BL)` of a backend.

    For a request with an order or with gaps, which no kernel supports, order_BL and
    positions_BL are the last arguments. `keep` is as in attend.attend.
    """
    options = dict(causal=request.causal, window=request.window)
    attend = functools.partial(backend.attend, **options, keep=keep)
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

    def padded(q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, *places):
        # No other document has id -1: the padding attends only to itself.
        inputs = (pad(q_BLHK), pad(k_BLGK), pad(v_BLGK), pad(segment_ids_BL, -1))
        return attend(*inputs, *jax.tree.map(pad, places))[:, :length]

    return padded


def _or_blockwise(fits, attend, **options):
    """Returns `attend` if the rows fit, else `blockwise`.

    The arrays of `blockwise` are recomputed in the backward pass to save memory.
    """
    fallback = jax.checkpoint(functools.partial(blockwise.attend, **options))

    def either(*inputs):
        return jax.lax.cond(fits(inputs[3]), attend, fallback, *inputs)

    return either


def _on_mesh(attend, request):
    """Returns `attend` on each device's rows and heads.

    Rows whose number is not a multiple of the devices are not split.
    """
    axes = None if request.batch % request.rows else sharding.ROWS
    rows = PartitionSpec(axes)
    heads = PartitionSpec(axes, None, sharding.HEADS)

    inputs = (heads, heads, heads, rows)
    return jax.shard_map(attend, in_specs=inputs, out_specs=heads, check_vma=False)
