"""cuDNN flash attention over packed documents, for Hopper GPUs and later.

jax supports this only in its internal interface, so what it offers is checked. The kernel
takes a length and an offset for each document of a row, up to a fixed number.
"""

import importlib.util
import inspect

import jax.numpy as jnp

SPLITS, MULTIPLE = False, 128
# Packed documents need Hopper.
PLATFORM, CAPABILITY, DTYPES = 'gpu', (9, 0), ('bfloat16', 'float16')
# The primitive that returns the result and the log-sum-exp, for jax.checkpoint policies.
FORWARD = ('dot_product_attention_fwd_wrapper',)
_INNER = 'jax._src.cudnn.fused_attention_stablehlo'
_NEEDED = {'q_seqlen', 'kv_seqlen', 'q_offsets', 'kv_offsets', 'mask_type'}


def why_not(request):
    """Requires narrow heads, no two-sided window and a new cuDNN."""
    if request.head_width > 128 or request.head_width % 8:
        return f'head width {request.head_width} is not a multiple of 8 up to 128'
    if request.window is not None and not request.causal:
        return 'its windows are to the left only'
    return _missing()


def _missing():
    if importlib.util.find_spec(_INNER) is None:
        return f'this version of jax has no {_INNER}'
    from jax._src.cudnn import fused_attention_stablehlo as inner

    parameters = set(inspect.signature(inner.dot_product_attention).parameters)
    if not parameters >= _NEEDED:
        return f'{_INNER} of this jax does not take {", ".join(_NEEDED - parameters)}'
    try:
        version = inner.check_cudnn_version()
    except RuntimeError as error:
        return f'cuDNN: {error}'
    if version < 90600:
        return f'packed documents need cuDNN 9.6, but this is {version}'
    return ''


def max_documents(length, documents=None):
    """Returns the number of documents per row for which the kernel is built.

    That is the known maximum `documents` plus one for padding and one for what fills a
    row up to MULTIPLE; if it is unknown, one per 64 tokens. Memory grows with it:
    [documents, H, L].
    """
    return max(8, length // 64) if documents is None else documents + 2


def fits(segment_ids_BL):
    """Returns whether all rows have at most `max_documents`, padding included."""
    maximum = max_documents(segment_ids_BL.shape[1])
    return jnp.all(_number(segment_ids_BL)[:, -1] < maximum)


def attend(
    q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, *, causal, window, keep=None, documents=None
):
    """Padding counts as a document: outputs are computed for all positions.

    What gradients need is identified by FORWARD, not by the name `keep`. `documents` is
    the maximum number of documents per row, without padding, or None.
    """
    del keep
    from jax._src.cudnn import fused_attention_stablehlo as inner

    maximum = max_documents(segment_ids_BL.shape[1], documents)
    lengths_BN, offsets_BN = ranges(segment_ids_BL, maximum)
    # Groups are repeated to one key head per query head: before jax 0.11, offsets of keys
    # are in units of query heads, wrong for groups (jax-ml/jax pull request 39521).
    repeats = q_BLHK.shape[2] // k_BLGK.shape[2]
    masks = inner.MaskType
    return inner.dot_product_attention(
        q_BLHK,
        jnp.repeat(k_BLGK, repeats, axis=2),
        jnp.repeat(v_BLGK, repeats, axis=2),
        q_seqlen=lengths_BN,
        kv_seqlen=lengths_BN,
        q_offsets=offsets_BN,
        kv_offsets=offsets_BN,
        scale=q_BLHK.shape[3] ** -0.5,
        mask_type=masks.PADDING_CAUSAL if causal else masks.NO_MASK,
        # cuDNN's window includes the position itself.
        sliding_window_length=None if window is None else window + 1,
    )


def ranges(segment_ids_BL, maximum):
    """Returns (lengths_BN, offsets_BN) of the documents of each row.

    N is `maximum` for the lengths and `maximum` + 1 for the offsets. Entries are -1 if a
    row has fewer documents; thus there is at least one offset of -1, which cuDNN takes
    for the end.
    """
    number_BL = _number(segment_ids_BL)
    is_in_BLN = number_BL[:, :, None] == jnp.arange(maximum)[None, None]
    lengths_BN = jnp.sum(is_in_BLN, axis=1, dtype=jnp.int32)
    offsets_BN = jnp.cumsum(lengths_BN, axis=1) - lengths_BN
    none_BN = lengths_BN == 0
    lengths_BN = jnp.where(none_BN, -1, lengths_BN)
    offsets_BN = jnp.where(none_BN, -1, offsets_BN)
    return lengths_BN, jnp.pad(offsets_BN, ((0, 0), (0, 1)), constant_values=-1)


def _number(segment_ids_BL):
    """Returns the index of each position's document in its row, from 0."""
    new_BL = segment_ids_BL[:, 1:] != segment_ids_BL[:, :-1]
    return jnp.cumsum(jnp.pad(new_BL, ((0, 0), (1, 0))), axis=1, dtype=jnp.int32)
