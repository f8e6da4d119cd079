"""The parts of a transformer: norms, rotary positions, feed-forward layers.

Matrix products are taken on `[B * L, D]`: XLA's CPU products and above all their
gradients run at half speed on three axes, and GPUs and TPUs do not mind.
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
    """x @ kernel, plus bias if asked; both are float32 and cast to the input's dtype."""

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
            # As a product, so that the bias's gradient is one, too: XLA's CPU sums down
            # the rows of what it fuses into the sum, a gelu's slope made anew included.
            one_N1 = jnp.ones((*flat.shape[:-1], 1), x.dtype)
            flat = flat + one_N1 @ bias.astype(x.dtype)[None]
        return flat.reshape(*x.shape[:-1], self.features)


class GatedFFN(nn.Module):
    """down(act(gate(x)) * up(x)): SwiGLU with silu, GeGLU with gelu (Shazeer 2020)."""

    hidden: int
    act: str = 'silu'
    bias: bool = False

    @nn.compact
    def __call__(self, x_BLD):
        def linear(features, name):
            return Linear(features, self.bias, name=name)

        gate_BLF = checkpoint_name(linear(self.hidden, 'gate')(x_BLD), 'gate')
        up_BLF = checkpoint_name(linear(self.hidden, 'up')(x_BLD), 'up')
        wide_BLF = ACTIVATIONS[self.act](gate_BLF) * up_BLF
        return linear(x_BLD.shape[-1], 'down')(wide_BLF)


class FFN(nn.Module):
    """down(act(up(x))), both with biases (Vaswani et al. 2017)."""

    hidden: int
    act: str = 'gelu'

    @nn.compact
    def __call__(self, x_BLD):
        up_BLF = checkpoint_name(Linear(self.hidden, True, name='up')(x_BLD), 'up')
        wide_BLF = ACTIVATIONS[self.act](up_BLF)
        return Linear(x_BLD.shape[-1], True, name='down')(wide_BLF)


def rotary_angles(positions_BL, head_width, theta, scaling=None):
    """cos and sin of position * theta^(-2i/K), float32, each [B, L, 1, K/2] (Su 2021).

    `theta` None turns nothing: a layer without positions. `scaling` is that of
    `stretched`.
    """
    exponent_K = jnp.arange(0, head_width, 2, dtype=jnp.float32) / head_width
    frequency_K = 0.0 * exponent_K if theta is None else float(theta) ** -exponent_K
    if scaling is not None:
        frequency_K = stretched(frequency_K, **scaling)
    angle_BLK = jnp.einsum('BL,K->BLK', positions_BL.astype(jnp.float32), frequency_K)
    angle_BL1K = rearrange(angle_BLK, 'B L K -> B L 1 K')
    cos_BL1K, sin_BL1K = jnp.cos(angle_BL1K), jnp.sin(angle_BL1K)
    # XLA takes cosines for cheap, and on CPUs makes them anew for every head wherever
    # they are read: 3 to 5 % of a step. Quotients it keeps; barriers it does not.
    one_BL1K = jnp.sqrt(cos_BL1K**2 + sin_BL1K**2)
    return cos_BL1K / one_BL1K, sin_BL1K / one_BL1K


def stretched(frequency_K, factor, low, high, length):
    """Frequencies for longer texts, as Llama 3.1 (arXiv 2407.21783) has them.

    What turns less than `low` times in `length` positions, its first training length,
    is slowed by `factor`; what turns more than `high` times stays; between the two the
    change is linear in the number of turns.
    """
    turns_K = length * frequency_K / (2 * jnp.pi)
    kept_K = jnp.clip((turns_K - low) / (high - low), 0, 1)
    return frequency_K * (kept_K + (1 - kept_K) / factor)


def rotate(x_BLHK, angles):
    """Rotates the pairs (i, i + K/2), the half-split layout of Llama."""
    cos_BL1K, sin_BL1K = angles
    left, right = jnp.split(x_BLHK.astype(jnp.float32), 2, axis=-1)
    rotated = jnp.concatenate(
        [
            left * cos_BL1K - right * sin_BL1K,
            right * cos_BL1K + left * sin_BL1K,
        ],
        axis=-1,
    )
    return rotated.astype(x_BLHK.dtype)
