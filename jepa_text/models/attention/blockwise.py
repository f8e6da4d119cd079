"""Blockwise attention in XLA: supports all requests, with memory linear in L.

The softmax is accumulated over blocks of keys and recomputed in the backward pass, so no
array of scores outlives its block (Dao et al. 2022, arXiv 2205.14135).
"""

import functools

import jax
import jax.numpy as jnp
from einops import rearrange
from jax.ad_checkpoint import checkpoint_name

from jepa_text.models.attention import masks

SPLITS, MULTIPLE = True, 128
# Keys per block: the largest of these that divides the row length.
BLOCKS = (512, 256, 128)
_HIDDEN = -1e30
_product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)


def attend(
    q_BLHK,
    k_BLGK,
    v_BLGK,
    segment_ids_BL,
    order_BL=None,
    positions_BL=None,
    *,
    causal,
    window,
    keep=None,
):
    """Computes all queries against one block of keys after another; none is skipped."""
    groups = k_BLGK.shape[2]
    out_BGRLK = _attend(
        causal,
        window,
        keep,
        rearrange(q_BLHK, 'B L (G R) K -> B G R L K', G=groups),
        rearrange(k_BLGK, 'B M G K -> B G M K'),
        rearrange(v_BLGK, 'B M G K -> B G M K'),
        masks.positions(segment_ids_BL, order_BL, positions_BL),
    )
    return rearrange(out_BGRLK, 'B G R L K -> B L (G R) K')


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _attend(causal, window, keep, q_BGRLK, k_BGMK, v_BGMK, positions):
    return _forward(causal, window, keep, q_BGRLK, k_BGMK, v_BGMK, positions)[0]


def _forward(causal, window, keep, q_BGRLK, k_BGMK, v_BGMK, positions):
    def block(carry, part):
        out_BGRLK, sum_BGRL, top_BGRL = carry
        k_BGNK, v_BGNK, keys = part
        scores_BGRLN = _scores(q_BGRLK, k_BGNK, positions, keys, causal, window)
        new_top_BGRL = jnp.maximum(top_BGRL, jnp.max(scores_BGRLN, axis=-1))
        # A block without visible keys adds weights of 1. The factor of the first block
        # with a visible key sets them to 0; each position attends to itself, so there
        # is one.
        weights_BGRLN = jnp.exp(scores_BGRLN - new_top_BGRL[..., None])
        factor_BGRL = jnp.exp(top_BGRL - new_top_BGRL)
        sum_BGRL = sum_BGRL * factor_BGRL + jnp.sum(weights_BGRLN, axis=-1)
        out_BGRLK = out_BGRLK * factor_BGRL[..., None] + _product(
            'BGRLN,BGNK->BGRLK', weights_BGRLN.astype(v_BGNK.dtype), v_BGNK
        )
        return (out_BGRLK, sum_BGRL, new_top_BGRL), None

    fill = functools.partial(jnp.full, q_BGRLK.shape[:-1], dtype=jnp.float32)
    carry = (jnp.zeros(q_BGRLK.shape, jnp.float32), fill(0), fill(_HIDDEN))
    carry, _ = jax.lax.scan(block, carry, _blocks(k_BGMK, v_BGMK, positions))
    out_BGRLK, sum_BGRL, top_BGRL = carry
    out_BGRLK = (out_BGRLK / sum_BGRL[..., None]).astype(q_BGRLK.dtype)
    z_BGRL = top_BGRL + jnp.log(sum_BGRL)
    if keep is not None:
        out_BGRLK, z_BGRL = (checkpoint_name(x, keep) for x in (out_BGRLK, z_BGRL))
    return out_BGRLK, (q_BGRLK, k_BGMK, v_BGMK, positions, out_BGRLK, z_BGRL)


def _backward(causal, window, keep, saved, d_out_BGRLK):
    """Computes d score = p (d out . v - d out . out), with p = exp(score - z)."""
    del keep
    q_BGRLK, k_BGMK, v_BGMK, positions, out_BGRLK, z_BGRL = saved
    dtype = q_BGRLK.dtype
    own_BGRL = _product('BGRLK,BGRLK->BGRL', d_out_BGRLK, out_BGRLK)

    def block(d_q_BGRLK, part):
        k_BGNK, v_BGNK, keys = part
        scores_BGRLN = _scores(q_BGRLK, k_BGNK, positions, keys, causal, window)
        p_BGRLN = jnp.exp(scores_BGRLN - z_BGRL[..., None])
        d_v_BGNK = _product('BGRLN,BGRLK->BGNK', p_BGRLN.astype(dtype), d_out_BGRLK)
        d_p_BGRLN = _product('BGRLK,BGNK->BGRLN', d_out_BGRLK, v_BGNK)
        d_scores_BGRLN = p_BGRLN * (d_p_BGRLN - own_BGRL[..., None])
        d_scores_BGRLN = (d_scores_BGRLN * q_BGRLK.shape[-1] ** -0.5).astype(dtype)
        d_q_BGRLK += _product('BGRLN,BGNK->BGRLK', d_scores_BGRLN, k_BGNK)
        d_k_BGNK = _product('BGRLN,BGRLK->BGNK', d_scores_BGRLN, q_BGRLK)
        return d_q_BGRLK, (d_k_BGNK.astype(dtype), d_v_BGNK.astype(dtype))

    d_q_BGRLK, d_parts = jax.lax.scan(
        block, jnp.zeros(q_BGRLK.shape, jnp.float32), _blocks(k_BGMK, v_BGMK, positions)
    )
    d_k_BGMK, d_v_BGMK = (rearrange(d, 'C B G N K -> B G (C N) K') for d in d_parts)
    return d_q_BGRLK.astype(dtype), d_k_BGMK, d_v_BGMK, None


_attend.defvjp(_forward, _backward)


def _blocks(k_BGMK, v_BGMK, positions):
    """Returns keys, values and positions, stacked by block along a new first axis."""
    length = k_BGMK.shape[2]
    size = next(size for size in BLOCKS if length % size == 0)
    starts = jnp.arange(0, length, size)
    keys = jax.vmap(lambda start: positions.cut(start, size))(starts)
    split = functools.partial(rearrange, pattern='B G (C N) K -> C B G N K', N=size)
    return split(k_BGMK), split(v_BGMK), keys


def _scores(q_BGRLK, k_BGNK, positions, keys, causal, window):
    scores_BGRLN = _product('BGRLK,BGNK->BGRLN', q_BGRLK, k_BGNK)
    mask_BLN = masks.between(positions, keys, causal, window)
    width = q_BGRLK.shape[-1]
    return jnp.where(mask_BLN[:, None, None], scores_BGRLN * width**-0.5, _HIDDEN)
