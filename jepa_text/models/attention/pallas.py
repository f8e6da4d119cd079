"""The Triton kernel that comes with jax: documents and causality on NVIDIA GPUs.

Keys and values are repeated for every query head, as the kernel knows no groups.
"""

import warnings

import jax.numpy as jnp

SPLITS, MULTIPLE, RUNS = False, 128, False


def why_not(request):
    """GPUs, half precision, no window, no order."""
    if request.platform != 'gpu':
        return 'it runs on NVIDIA GPUs'
    if request.dtype not in ('bfloat16', 'float16'):
        return f'tiles of {request.dtype} are too large: it takes bfloat16 or float16'
    if request.head_width > 128:
        return f'tiles of head width {request.head_width} are too large: at most 128'
    if request.window is not None:
        return 'it has no window'
    if request.order:
        return 'it has no order by row'
    return ''


def attend(
    q_BLHK,
    k_BLGK,
    v_BLGK,
    segment_ids_BL,
    order_BL,
    *,
    causal,
    window,
    interpret=False,
):
    """Pads a head width that is no power of two by itself, in registers."""
    del order_BL, window
    with warnings.catch_warnings():
        # jax 0.12 asks for Tokamax in its place: a backend of its own, tried before.
        warnings.simplefilter('ignore', DeprecationWarning)
        # Triton is not there on every platform, and takes a second to import.
        from jax.experimental.pallas.ops.gpu import attention

    repeats = q_BLHK.shape[2] // k_BLGK.shape[2]
    return attention.mha(
        q_BLHK,
        jnp.repeat(k_BLGK, repeats, axis=2),
        jnp.repeat(v_BLGK, repeats, axis=2),
        segment_ids_BL,
        sm_scale=q_BLHK.shape[3] ** -0.5,
        causal=causal,
        interpret=interpret,
    )
