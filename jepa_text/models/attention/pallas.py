"""The Triton attention kernel of jax for NVIDIA GPUs, with documents and causality.

Keys and values are repeated for each query head, because the kernel does not support
groups.
"""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

SPLITS, MULTIPLE = False, 128
# Tiles of float32 are too large.
PLATFORM, CAPABILITY, DTYPES = 'gpu', (8, 0), ('bfloat16', 'float16')


def why_not(request):
    """Requires narrow heads and no window."""
    if request.head_width > 128:
        return f'tiles of head width {request.head_width} are too large: at most 128'
    if request.window is not None:
        return 'it does not support windows'
    return ''


def attend(
    q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, *, causal, window, interpret=False, keep=None
):
    """A head width that is not a power of two is padded by the kernel, in registers."""
    del window
    repeats = q_BLHK.shape[2] // k_BLGK.shape[2]
    return _attend(
        causal,
        interpret,
        keep,
        q_BLHK,
        jnp.repeat(k_BLGK, repeats, axis=2),
        jnp.repeat(v_BLGK, repeats, axis=2),
        segment_ids_BL,
    )


# The kernel's own rule, with names for the residuals.
@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _attend(causal, interpret, keep, *inputs):
    return _forward(causal, interpret, keep, *inputs)[0]


def _forward(causal, interpret, keep, *inputs):
    settings = _settings(causal, interpret, inputs[0].shape[3])
    out_BLHK, saved = _kernels().mha.fwd(*inputs, *settings)
    *rest, saved_BLHK, z_BHL = saved
    if keep is not None:
        saved_BLHK, z_BHL = (checkpoint_name(x, keep) for x in (saved_BLHK, z_BHL))
        out_BLHK = saved_BLHK
    return out_BLHK, (*rest, saved_BLHK, z_BHL)


def _backward(causal, interpret, keep, saved, d_out_BLHK):
    del keep
    settings = _settings(causal, interpret, saved[0].shape[3])
    return _kernels().mha.bwd(*settings, saved, d_out_BLHK)


_attend.defvjp(_forward, _backward)


def _settings(causal, interpret, head_width):
    """Returns the arguments of `mha` in order: its defaults except for the given."""
    kernels = _kernels()
    blocks = kernels.BlockSizes.get_default()
    return (
        head_width**-0.5,
        causal,
        blocks,
        'triton',  # its backward pass
        None,  # warps, by the head width
        2,  # stages
        None,  # grid, by the blocks
        interpret,
        False,  # debug
        False,  # no log-sum-exp in addition to the result
    )


def _kernels():
    with warnings.catch_warnings():
        # jax 0.12 recommends Tokamax instead, which is a backend here and preferred.
        warnings.simplefilter('ignore', DeprecationWarning)
        # Triton is not available on all platforms, and takes a second to import.
        from jax.experimental.pallas.ops.gpu import attention
    return attention
