"""ModernBERT: rotary, pre-norm, gated; most layers have local attention.

Warner et al. 2024 (arXiv 2412.13663). Every `global_every`-th layer, starting with the
first, attends to its whole document with `rope_theta`; the others attend to
`local_window` positions on either side with `local_theta`. Called like the encoder in
transformer.py. No dropout.
"""

import flax.linen as nn
import jax.numpy as jnp

from jepa_text.models import layers, stack
from jepa_text.models.block import NORMS, Block
from jepa_text.parallel import activations

PRESETS = {
    'tiny': dict(width=64, depth=4, heads=4, ffn_width=96),
    'base': dict(width=768, depth=22, heads=12, ffn_width=1152),
    'large': dict(width=1024, depth=28, heads=16, ffn_width=2624),
}


def make(preset=None, **keywords):
    """Returns a ModernBert with a preset's sizes, which keywords override.

    Raises ValueError for an unknown preset, a missing size, or sizes that do not divide
    each other.
    """
    return stack.from_preset(ModernBert, PRESETS, preset, keywords)


class ModernBert(nn.Module):
    """tokens, segment_ids, positions [B, L] -> hidden_BLD after the last norm."""

    vocab_size: int
    width: int
    depth: int
    heads: int
    ffn_width: int
    head_width: int | None = None
    global_every: int = 3
    rope_theta: float = 160_000.0
    local_theta: float = 10_000.0
    local_window: int = 64
    act: str = 'gelu'
    norm_eps: float = 1e-5
    norm_bias: bool = False
    attention_bias: bool = False
    ffn_bias: bool = False
    head_act: str = 'gelu'
    head_bias: bool = False
    lm_head_bias: bool = True
    scan: bool = True
    remat: str = 'none'
    attention: str = 'auto'
    dtype: str = 'float32'

    @property
    def window(self):
        """The window of each layer, None if it attends to its whole document."""
        return tuple(
            self.local_window if i % self.global_every else None
            for i in range(self.depth)
        )

    @property
    def head(self):
        """The keywords of heads.DenseHead that score tokens as ModernBERT does."""
        return dict(
            act=self.head_act,
            norm_eps=self.norm_eps,
            dense_bias=self.head_bias,
            norm_bias=self.norm_bias,
            lm_head_bias=self.lm_head_bias,
        )

    @nn.compact
    def __call__(
        self,
        tokens_BL,
        segment_ids_BL,
        positions_BL,
        order_BL=None,
        *,
        causal,
        every_layer=False,
        gaps=False,
    ):
        """Returns hidden_BLD; with `every_layer`, also layers_NBLD.

        These are the normed embedding and the output of each layer, before the last norm.
        With `gaps`, rows are cut out of others, and windows are measured in
        `positions_BL`.
        """
        norm = 'layer' if self.norm_bias else 'layer_without_bias'
        shape = (self.vocab_size, self.width)
        embedding_VD = self.param('embedding', layers.INIT, shape, jnp.float32)
        embedded_BLD = NORMS[norm](self.norm_eps, name='embedding_norm')(
            activations.embedding_lookup(embedding_VD.astype(self.dtype), tokens_BL)
        )
        head_width = self.head_width or self.width // self.heads
        thetas = [self.local_theta if w else self.rope_theta for w in self.window]
        ways, kinds = stack.kinds(self.depth, thetas, self.window)
        block = self._block(norm, head_width, ways, causal, every_layer)
        angles = stack.angles(positions_BL, head_width, ways)
        inputs = (angles, segment_ids_BL, order_BL, positions_BL if gaps else None)
        # The embedding is already normed: the first layer lacks a norm, and so it is not
        # part of the stack.
        kind = None if len(ways) == 1 else jnp.int32(0)
        first = Block(**block, first=True, name='first')
        first_BLD, _ = first(embedded_BLD, *inputs, kind)
        hidden_BLD, outputs = stack.run(
            Block,
            block,
            first_BLD,
            inputs,
            kinds=kinds[1:],
            scan=self.scan,
            remat=self.remat,
        )
        hidden_BLD = NORMS[norm](self.norm_eps, name='norm')(hidden_BLD)
        hidden_BLD = activations.by_rows(hidden_BLD)
        if not every_layer:
            return hidden_BLD
        early = jnp.stack([embedded_BLD, first_BLD])
        return hidden_BLD, jnp.concatenate([early, outputs])

    def _block(self, norm, head_width, ways, causal, every_layer):
        return dict(
            heads=self.heads,
            kv_heads=self.heads,
            head_width=head_width,
            ffn_width=self.ffn_width,
            norm_eps=self.norm_eps,
            attention=self.attention,
            causal=causal,
            keep=every_layer,
            windows=tuple(window for _, window in ways),
            norm=norm,
            act=self.act,
            qkv_bias=self.attention_bias,
            o_bias=self.attention_bias,
            ffn_bias=self.ffn_bias,
        )
