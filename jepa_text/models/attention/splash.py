"""Splash attention, the attention kernel for TPUs that comes with jax.

Blocks of scores that causality or the window mask out are not computed.
"""

import jax
from einops import rearrange

SPLITS, MULTIPLE = False, 128
PLATFORM, CAPABILITY, DTYPES = 'tpu', (0, 0), ('bfloat16', 'float32')


def attend(
    q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, *, causal, window, interpret=False, keep=None
):
    """Computes row by row; query heads share keys in groups, which are not repeated."""
    from jax.experimental.pallas.ops.tpu.splash_attention import (
        splash_attention_kernel as kernels,
    )

    _, length, heads, width = q_BLHK.shape
    kernel = kernels.make_splash_mha_single_device(
        _mask(length, heads, causal, window),
        block_sizes=_block_sizes(kernels, length, window),
        interpret=interpret,
        residual_checkpoint_name=keep,
    )

    def row(q_HLK, k_GLK, v_GLK, segment_ids_L):
        ids = kernels.SegmentIds(segment_ids_L, segment_ids_L)
        return kernel(q_HLK, k_GLK, v_GLK, ids)

    heads_first = 'B L H K -> B H L K'
    out_BHLK = jax.vmap(row)(
        rearrange(q_BLHK * width**-0.5, heads_first),
        rearrange(k_BLGK, heads_first),
        rearrange(v_BLGK, heads_first),
        segment_ids_BL,
    )
    return rearrange(out_BHLK, 'B H L K -> B L H K')


def _mask(length, heads, causal, window):
    from jax.experimental.pallas.ops.tpu.splash_attention import (
        splash_attention_mask as masks,
    )

    shape = (length, length)
    if window is not None:
        mask = masks.LocalMask(shape, (window, 0 if causal else window), 0)
    else:
        mask = masks.CausalMask(shape) if causal else masks.FullMask(shape)
    return masks.MultiHeadMask([mask] * heads)


def _block_sizes(kernels, length, window):
    """Returns the largest blocks that divide the row.

    With a window they are smaller, because smaller blocks skip more scores.
    """
    largest = 512 if window is None else 256
    size = next(s for s in (512, 256, 128) if s <= largest and length % s == 0)
    names = ('q', 'kv', 'kv_compute', 'q_dkv', 'kv_dkv', 'kv_dkv_compute', 'q_dq')
    return kernels.BlockSizes(**{f'block_{name}': size for name in (*names, 'kv_dq')})
