"""Building blocks of transformers: norms, linear layers, rotary positions, feed-forward.

Matrix products are computed on `[B * L, D]`: on three axes, XLA's CPU products and above
all their gradients run at half the speed. On GPUs and TPUs it makes no difference.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
from einops import rearrange
from jax.ad_checkpoint import checkpoint_name

from jepa_text.parallel import activations

INIT = nn.initializers.normal(0.02)

ACTIVATIONS = {
    'silu': nn.silu,
    'gelu': functools.partial(nn.gelu, approximate=False),
    'gelu_tanh': functools.partial(nn.gelu, approximate=True),
    'relu': nn.relu,
}


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * scale, in float32 (Zhang & Sennrich 2019)."""

    eps: float = 1e-5

    @nn.compact
    def __call__(self, x_BLD):
        scale_D = self.param('scale', nn.initializers.ones, x_BLD.shape[-1:], jnp.float32)
        x32_BLD = x_BLD.astype(jnp.float32)
        square_BL1 = jnp.mean(x32_BLD**2, axis=-1, keepdims=True)
        normed_BLD = x32_BLD * jax.lax.rsqrt(square_BL1 + self.eps)
        return (normed_BLD * scale_D.reshape((1,) * (x_BLD.ndim - 1) + (-1,))).astype(
            x_BLD.dtype
        )


class LayerNorm(nn.Module):
    """(x - mean(x)) / sqrt(var(x) + eps) * scale + bias, in float32 (Ba et al. 2016)."""

    eps: float = 1e-5
    bias: bool = True

    @nn.compact
    def __call__(self, x_BLD):
        width = x_BLD.shape[-1:]
        flat_ND = x_BLD.reshape(-1, *width).astype(jnp.float32)
        flat_ND = flat_ND - jnp.mean(flat_ND, axis=-1, keepdims=True)
        square_N1 = jnp.mean(flat_ND**2, axis=-1, keepdims=True)
        scale_D = self.param('scale', nn.initializers.ones, width, jnp.float32)
        normed_ND = flat_ND * jax.lax.rsqrt(square_N1 + self.eps) * scale_D[None]
        if self.bias:
            bias_D = self.param('bias', nn.initializers.zeros, width, jnp.float32)
            normed_ND = normed_ND + bias_D[None]
        return normed_ND.reshape(x_BLD.shape).astype(x_BLD.dtype)


class Linear(nn.Module):
    """x @ kernel, optionally + bias; both are float32 and cast to the input's dtype."""

    features: int
    bias: bool = False

    @nn.compact
    def __call__(self, x):
        shape = (x.shape[-1], self.features)
        kernel = self.param('kernel', INIT, shape, jnp.float32).astype(x.dtype)
        flat = activations.flat(x) @ kernel
        if self.bias:
            zeros = nn.initializers.zeros
            bias = self.param('bias', zeros, (self.features,), jnp.float32)
            # A product, so that the bias's gradient is one, too: XLA on CPUs would fuse
            # the sum over rows with its input, and recompute a gelu's derivative there.
            one_N1 = jnp.ones((*flat.shape[:-1], 1), x.dtype)
            flat = flat + one_N1 @ bias.astype(x.dtype)[None]
        return flat.reshape(*x.shape[:-1], self.features)


class FFN(nn.Module):
    """down(act(up(x))) (Vaswani et al. 2017); if gated, down(act(gate(x)) * up(x)).

    Gated, it is SwiGLU with silu and GeGLU with gelu (Shazeer 2020).
    """

    hidden: int
    act: str = 'silu'
    gated: bool = True
    bias: bool = False

    @nn.compact
    def __call__(self, x_BLD):
        def widened(name):
            linear = Linear(self.hidden, self.bias, name=name)
            return checkpoint_name(linear(x_BLD), name)

        act = ACTIVATIONS[self.act]
        if self.gated:
            wide_BLF = act(widened('gate')) * widened('up')
        else:
            wide_BLF = act(widened('up'))
        return Linear(x_BLD.shape[-1], self.bias, name='down')(wide_BLF)


def rotary_angles(positions_BL, head_width, theta, scaling=None):
    """Returns cos and sin of position * theta^(-2i/K), float32, each [B, L, 1, K/2].

    Rotary position embedding (Su 2021). With `theta` None nothing is rotated: a layer
    without positions. `scaling` has the keywords of `stretched`.
    """
    exponent_K = jnp.arange(0, head_width, 2, dtype=jnp.float32) / head_width
    frequency_K = 0.0 * exponent_K if theta is None else float(theta) ** -exponent_K
    if scaling is not None:
        frequency_K = stretched(frequency_K, **scaling)
    angle_BLK = jnp.einsum('BL,K->BLK', positions_BL.astype(jnp.float32), frequency_K)
    angle_BL1K = rearrange(angle_BLK, 'B L K -> B L 1 K')
    cos_BL1K, sin_BL1K = jnp.cos(angle_BL1K), jnp.sin(angle_BL1K)
    # XLA considers cosines cheap, and on CPUs recomputes them for each head wherever
    # they are used, 3 to 5 % of a step. It does not recompute quotients; optimization
    # barriers do not prevent it.
    one_BL1K = jnp.sqrt(cos_BL1K**2 + sin_BL1K**2)
    return cos_BL1K / one_BL1K, sin_BL1K / one_BL1K


def stretched(frequency_K, factor, low, high, length):
    """Returns rotary frequencies for longer texts, as in Llama 3.1 (arXiv 2407.21783).

    Frequencies with less than `low` rotations in `length` positions, the original
    training length, are divided by `factor`; those with more than `high` rotations stay
    unchanged; in between, the change is linear in the number of rotations.
    """
    rotations_K = length * frequency_K / (2 * jnp.pi)
    weight_K = jnp.clip((rotations_K - low) / (high - low), 0, 1)
    return frequency_K * (weight_K + (1 - weight_K) / factor)


def rotate(x_BLHK, angles):
    """Rotates the pairs (i, i + K/2), the half-split layout of Llama."""
    cos_BL1K, sin_BL1K = angles
    left, right = jnp.split(x_BLHK.astype(jnp.float32), 2, axis=-1)
    rotated = jnp.concatenate(
        [left * cos_BL1K - right * sin_BL1K, right * cos_BL1K + left * sin_BL1K], axis=-1
    )
    return rotated.astype(x_BLHK.dtype)
