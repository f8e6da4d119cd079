"""One pre-norm transformer layer: self-attention, then a gated feed-forward."""

import flax.linen as nn
import jax
from einops import rearrange

from jepa_text.models import attention, layers


class Block(nn.Module):
    """hidden + attention(norm(hidden)), then hidden + ffn(norm(hidden))."""

    heads: int
    kv_heads: int
    head_width: int
    ffn_width: int
    norm_eps: float
    attention: str
    causal: bool
    keep: bool = False

    @nn.compact
    def __call__(self, hidden_BLD, angles, segment_ids_BL, order_BL=None):
        normed_BLD = layers.RMSNorm(self.norm_eps, name='attention_norm')(hidden_BLD)
        hidden_BLD = hidden_BLD + SelfAttention(
            self.heads,
            self.kv_heads,
            self.head_width,
            self.attention,
            self.causal,
            name='attention',
        )(normed_BLD, angles, segment_ids_BL, order_BL)
        normed_BLD = layers.RMSNorm(self.norm_eps, name='ffn_norm')(hidden_BLD)
        ffn_BLD = layers.GatedFFN(self.ffn_width, name='ffn')(normed_BLD)
        hidden_BLD = hidden_BLD + ffn_BLD
        return hidden_BLD, hidden_BLD if self.keep else None


class SelfAttention(nn.Module):
    """Rotary grouped-query attention over the documents of a row."""

    heads: int
    kv_heads: int
    head_width: int
    backend: str
    causal: bool

    @nn.compact
    def __call__(self, x_BLD, angles, segment_ids_BL, order_BL=None):
        def project(heads, name):
            flat = layers.Linear(heads * self.head_width, name=name)(x_BLD)
            return rearrange(flat, 'B L (H K) -> B L H K', H=heads)

        out_BLHK = attention.attend(
            layers.rotate(project(self.heads, 'q'), angles),
            layers.rotate(project(self.kv_heads, 'k'), angles),
            project(self.kv_heads, 'v'),
            segment_ids_BL,
            order_BL,
            causal=self.causal,
            backend=self.backend,
        )
        out_BLHK = jax.ad_checkpoint.checkpoint_name(out_BLHK, 'attention')
        joined = rearrange(out_BLHK, 'B L H K -> B L (H K)')
        return layers.Linear(x_BLD.shape[-1], name='o')(joined)
