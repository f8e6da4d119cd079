"""A pre-norm transformer layer: self-attention, then a gated feed-forward network."""

import functools

import flax.linen as nn
import jax
from einops import rearrange

from jepa_text.models import layers
from jepa_text.models.attention import attend
from jepa_text.parallel import activations

NORMS = {
    'rms': layers.RMSNorm,
    'layer': layers.LayerNorm,
    'layer_without_bias': functools.partial(layers.LayerNorm, bias=False),
}


class Block(nn.Module):
    """hidden + attention(norm(hidden)), then hidden + ffn(norm(hidden)).

    `windows` has one entry per kind of layer (models/stack.py), and `kind` is that of
    this layer, None if there is only one kind. `positions_BL` is given for rows with
    gaps, for which windows are measured in positions. With `first`, the input of
    attention is not normed.
    """

    heads: int
    kv_heads: int
    head_width: int
    ffn_width: int
    norm_eps: float
    attention: str
    causal: bool
    keep: bool = False
    windows: tuple = (None,)
    norm: str = 'rms'
    act: str = 'silu'
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: bool = False
    ffn_bias: bool = False
    first: bool = False

    @nn.compact
    def __call__(
        self,
        hidden_BLD,
        angles,
        segment_ids_BL,
        order_BL=None,
        positions_BL=None,
        kind=None,
    ):
        norm = functools.partial(NORMS[self.norm], self.norm_eps)
        hidden_BLD = activations.by_rows(hidden_BLD)
        normed_BLD = hidden_BLD
        if not self.first:
            normed_BLD = norm(name='attention_norm')(hidden_BLD)
        hidden_BLD = hidden_BLD + SelfAttention(
            self.heads,
            self.kv_heads,
            self.head_width,
            self.attention,
            self.causal,
            windows=self.windows,
            qkv_bias=self.qkv_bias,
            o_bias=self.o_bias,
            qk_norm_eps=self.norm_eps if self.qk_norm else None,
            name='attention',
        )(normed_BLD, angles, (segment_ids_BL, order_BL, positions_BL), kind)
        normed_BLD = norm(name='ffn_norm')(hidden_BLD)
        ffn = layers.GatedFFN(self.ffn_width, self.act, self.ffn_bias, name='ffn')
        hidden_BLD = activations.by_rows(hidden_BLD + ffn(normed_BLD))
        return hidden_BLD, hidden_BLD if self.keep else None


class SelfAttention(nn.Module):
    """Grouped-query attention within the documents of a row, rotary if given angles.

    If layers are of several kinds, `angles` has an additional first axis, indexed by
    `kind`. `positions` is (segment_ids_BL, order_BL or None, positions_BL or None), as
    for attention/attend.py. With `qk_norm_eps`, queries and keys are normed per head.
    """

    heads: int
    kv_heads: int
    head_width: int
    backend: str
    causal: bool
    windows: tuple = (None,)
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm_eps: float | None = None

    @nn.compact
    def __call__(self, x_BLD, angles, positions, kind=None):
        def project(heads, name):
            linear = layers.Linear(heads * self.head_width, self.qkv_bias, name=name)
            return rearrange(linear(x_BLD), 'B L (H K) -> B L H K', H=heads)

        def turn(x_BLHK, name):
            if self.qk_norm_eps is not None:
                x_BLHK = layers.RMSNorm(self.qk_norm_eps, name=f'{name}_norm')(x_BLHK)
            return x_BLHK if angles is None else layers.rotate(x_BLHK, angles)

        if kind is not None:
            angles = jax.tree.map(lambda stacked: stacked[kind], angles)
        out_BLHK = self._attend(
            kind,
            turn(project(self.heads, 'q'), 'q'),
            turn(project(self.kv_heads, 'k'), 'k'),
            project(self.kv_heads, 'v'),
            *positions,
        )
        joined = rearrange(out_BLHK, 'B L H K -> B L (H K)')
        return layers.Linear(x_BLD.shape[-1], self.o_bias, name='o')(joined)

    def _attend(self, kind, *inputs):
        def within(window, keep=None):
            return functools.partial(
                attend.attend,
                causal=self.causal,
                window=window,
                backend=self.backend,
                keep=keep,
            )

        if len(set(self.windows)) == 1:
            return within(self.windows[0], keep='attention')(*inputs)
        # One branch per window, because backends compile for a constant window. The
        # output is named after the switch: each branch would save a buffer of its own.
        out_BLHK = jax.lax.switch(kind, [within(w) for w in self.windows], *inputs)
        return jax.ad_checkpoint.checkpoint_name(out_BLHK, 'attention')
