"""The parts of a pre-norm transformer: RMSNorm, rotary positions, gated feed-forward.

Matrix products are taken on `[B * L, D]`: XLA's CPU products and above all their
gradients run at half speed on three axes, and GPUs and TPUs do not mind.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from einops import rearrange
from jax.ad_checkpoint import checkpoint_name

INIT = nn.initializers.normal(0.02)


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


class Linear(nn.Module):
    """x @ kernel without bias; the kernel is float32 and cast to the input's dtype."""

    features: int

    @nn.compact
    def __call__(self, x):
        shape = (x.shape[-1], self.features)
        kernel = self.param('kernel', INIT, shape, jnp.float32).astype(x.dtype)
        flat = x.reshape(-1, x.shape[-1]) @ kernel
        return flat.reshape(*x.shape[:-1], self.features)


class GatedFFN(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x)) (Shazeer 2020)."""

    hidden: int

    @nn.compact
    def __call__(self, x_BLD):
        gate_BLF = checkpoint_name(Linear(self.hidden, name='gate')(x_BLD), 'gate')
        up_BLF = checkpoint_name(Linear(self.hidden, name='up')(x_BLD), 'up')
        return Linear(x_BLD.shape[-1], name='down')(nn.silu(gate_BLF) * up_BLF)


def rotary_angles(positions_BL, head_width, theta):
    """cos and sin of position * theta^(-2i/K), float32, each [B, L, 1, K/2] (Su 2021)."""
    exponent_K = jnp.arange(0, head_width, 2, dtype=jnp.float32) / head_width
    angle_BLK = jnp.einsum(
        'BL,K->BLK', positions_BL.astype(jnp.float32), theta**-exponent_K
    )
    angle_BL1K = rearrange(angle_BLK, 'B L K -> B L 1 K')
    return jnp.cos(angle_BL1K), jnp.sin(angle_BL1K)


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
