"""ModernBERT: rotary, pre-norm, gated; most layers have local attention.

Warner et al. 2024 (arXiv 2412.13663). Every `global_every`-th layer, starting with the
first, attends to its whole document with `rope_theta`; the others attend to
`local_window` positions on either side with `local_theta`. Called like the encoder in
transformer.py. No dropout.
"""

from jepa_text.models import layers, stack

PRESETS = {
    'tiny': dict(width=64, depth=4, heads=4, ffn_width=96),
    'base': dict(width=768, depth=22, heads=12, ffn_width=1152),
    'large': dict(width=1024, depth=28, heads=16, ffn_width=2624),
}


def make(preset: str | None = None, **keywords):
    """Returns a ModernBert with a preset's sizes, which keywords override.

    Raises ValueError for an unknown preset, a missing size, or sizes that do not divide
    each other.
    """
    return stack.from_preset(ModernBert, PRESETS, preset, keywords)


class ModernBert(stack.Encoder):
    """tokens, segment_ids, positions [B, L] -> hidden_BLD after the last norm."""

    global_every: int = 3
    rope_theta: float = 160_000.0
    local_theta: float = 10_000.0
    local_window: int = 64
    act: str = 'gelu'
    norm_bias: bool = False
    attention_bias: bool = False
    ffn_bias: bool = False
    head_act: str = 'gelu'
    head_bias: bool = False
    lm_head_bias: bool = True

    embeds_normed = True

    @property
    def layer(self):
        """The options of block.Layer."""
        return dict(
            norm='layer' if self.norm_bias else 'layer_without_bias',
            act=self.act,
            qkv_bias=self.attention_bias,
            o_bias=self.attention_bias,
            ffn_bias=self.ffn_bias,
        )

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

    def kinds(self):
        """Returns the kinds of the layers, as stack.kinds."""
        thetas = [self.local_theta if w else self.rope_theta for w in self.window]
        return stack.kinds(self.depth, thetas, self.window)

    def embed(self, tokens_BL, positions_BL):
        """Returns the normed embedding."""
        norm = layers.LayerNorm(self.norm_eps, self.norm_bias, name='embedding_norm')
        return norm(super().embed(tokens_BL, positions_BL))
