"""One attention function over several backends.

Who sees whom is decided by two things only: `segment_ids` (a position sees its own
document and no other; padding is segment 0 and sees padding, so no row of the softmax
is ever empty), and either `causal`, the same for all, or `order_BL`: a position sees
those of its own or a lower order. So rows of one batch may differ:

    order    0 0 0 0 0     both ways (MLM)
             0 1 2 3 4     to the left (CLM)
             0 0 0 1 2     a prefix both ways, then to the left (prefix-LM)
"""

import jax
import jax.numpy as jnp
from einops import rearrange


def attend(
    q_BLHK, k_BLGK, v_BLGK, segment_ids_BL, order_BL=None, *, causal, backend='auto'
):
    """softmax(q k^T / sqrt(K)) v inside each document; heads share keys in groups.

    Head h reads key/value head h // (H / G) (Ainslie et al. 2023). The softmax is
    float32; the result has the dtype of `q_BLHK`. Raises ValueError for a backend
    that does not exist: a named backend is never replaced by another.
    """
    mask_BLM = visible(segment_ids_BL, causal, order_BL)
    return BACKENDS[choose(backend)](q_BLHK, k_BLGK, v_BLGK, mask_BLM)


def choose(backend):
    """The name of the backend that 'auto' or an explicit name stands for."""
    if backend == 'auto':
        return 'xla'
    if backend not in BACKENDS:
        raise ValueError(
            f'attention backend {backend!r} does not exist; there are: auto, '
            f'{", ".join(sorted(BACKENDS))}.'
        )
    return backend


def visible(segment_ids_BL, causal, order_BL=None):
    """mask_BLM: may position L look at position M? [B, L, L] bool."""
    mask_BLM = segment_ids_BL[:, :, None] == segment_ids_BL[:, None, :]
    if causal:
        length = segment_ids_BL.shape[1]
        earlier_1LM = jnp.tril(jnp.ones((1, length, length), bool))
        mask_BLM = mask_BLM & earlier_1LM
    if order_BL is not None:
        mask_BLM = mask_BLM & (order_BL[:, None, :] <= order_BL[:, :, None])
    return mask_BLM


def _xla(q_BLHK, k_BLGK, v_BLGK, mask_BLM):
    groups, width = k_BLGK.shape[2], q_BLHK.shape[3]
    # Heads before length: the products become plain batched matrices, a fifth faster
    # on CPUs than contracting in place.
    q_BGRLK = rearrange(q_BLHK, 'B L (G R) K -> B G R L K', G=groups)
    k_BGMK = rearrange(k_BLGK, 'B M G K -> B G M K')
    v_BGMK = rearrange(v_BLGK, 'B M G K -> B G M K')
    scores_BGRLM = jnp.einsum(
        'BGRLK,BGMK->BGRLM', q_BGRLK, k_BGMK, preferred_element_type=jnp.float32
    )
    scores_BGRLM = jnp.where(mask_BLM[:, None, None], scores_BGRLM * width**-0.5, -1e30)
    # Divided by its sum after the product with v: [L, K] rather than [L, L] divisions.
    highest = jax.lax.stop_gradient(jnp.max(scores_BGRLM, axis=-1, keepdims=True))
    weights_BGRLM = jnp.exp(scores_BGRLM - highest)
    sums_BGRL1 = jnp.sum(weights_BGRLM, axis=-1, keepdims=True)
    out_BGRLK = jnp.einsum(
        'BGRLM,BGMK->BGRLK',
        weights_BGRLM.astype(v_BLGK.dtype),
        v_BGMK,
        preferred_element_type=jnp.float32,
    )
    out_BGRLK = (out_BGRLK / sums_BGRL1).astype(v_BLGK.dtype)
    return rearrange(out_BGRLK, 'B G R L K -> B L (G R) K')


BACKENDS = {'xla': _xla}
