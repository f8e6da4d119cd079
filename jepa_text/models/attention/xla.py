"""Reference attention in XLA: supports all requests, with memory quadratic in L."""

import functools

import jax
import jax.numpy as jnp
from einops import rearrange
from jax.ad_checkpoint import checkpoint_name

from jepa_text.models.attention import masks

SPLITS, MULTIPLE = True, 1


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
    """Computes two matrix products with a softmax in between; keeps only the result."""
    mask_BLM = masks.visible(segment_ids_BL, causal, order_BL, window, positions_BL)
    groups, width = k_BLGK.shape[2], q_BLHK.shape[3]
    # Heads before length: the products become plain batched matrix products, which are
    # a fifth faster on CPUs than contractions in the original layout.
    q_BGRLK = rearrange(q_BLHK, 'B L (G R) K -> B G R L K', G=groups)
    k_BGMK = rearrange(k_BLGK, 'B M G K -> B G M K')
    v_BGMK = rearrange(v_BLGK, 'B M G K -> B G M K')
    # In float32, autodiff needs no rounding.
    product = _einsum if q_BLHK.dtype == jnp.float32 else _product
    scores_BGRLM = product('BGRLK', 'BGMK', 'BGRLM', q_BGRLK, k_BGMK)
    scores_BGRLM = jnp.where(mask_BLM[:, None, None], scores_BGRLM * width**-0.5, -1e30)
    # Normalized after the product with v: [L, K] instead of [L, L] divisions.
    highest = jax.lax.stop_gradient(jnp.max(scores_BGRLM, axis=-1, keepdims=True))
    weights_BGRLM = jnp.exp(scores_BGRLM - highest)
    sums_BGRL1 = jnp.sum(weights_BGRLM, axis=-1, keepdims=True)
    weights_BGRLM = weights_BGRLM.astype(v_BLGK.dtype)
    out_BGRLK = product('BGRLM', 'BGMK', 'BGRLK', weights_BGRLM, v_BGMK)
    out_BGRLK = (out_BGRLK / sums_BGRL1).astype(v_BLGK.dtype)
    out_BLHK = rearrange(out_BGRLK, 'B G R L K -> B L (G R) K')
    return out_BLHK if keep is None else checkpoint_name(out_BLHK, keep)


def _einsum(left_axes, right_axes, axes, left, right):
    return jnp.einsum(
        f'{left_axes},{right_axes}->{axes}',
        left,
        right,
        preferred_element_type=jnp.float32,
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _product(left_axes, right_axes, axes, left, right):
    """The same einsum, with a backward pass that rounds the gradient to the dtype of the
    inputs, as kernels do. Products of float32 gradients with bfloat16 inputs are float32
    products, which are several times slower on accelerators."""
    return _einsum(left_axes, right_axes, axes, left, right)


def _product_forward(left_axes, right_axes, axes, left, right):
    return _einsum(left_axes, right_axes, axes, left, right), (left, right)


def _product_backward(left_axes, right_axes, axes, inputs, gradient):
    left, right = inputs
    gradient = gradient.astype(left.dtype)
    d_left = _einsum(axes, right_axes, left_axes, gradient, right)
    d_right = _einsum(axes, left_axes, right_axes, gradient, left)
    return d_left.astype(left.dtype), d_right.astype(right.dtype)


_product.defvjp(_product_forward, _product_backward)
