"""A transformer layer: self-attention, then a feed-forward network."""

import dataclasses
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layer:
    """The sizes and options of a layer.

    `kv_heads` is `heads` if None. `windows` has one entry per kind of layer
    (models/stack.py). `norm` is one of NORMS. With `post_norm`, sums are normed, and not
    the inputs of attention and feed-forward network. With `keep`, the layer's output is
    also returned for the stack of all outputs.
    """

    heads: int
    head_width: int
    ffn_width: int
    norm_eps: float
    attention: str
    causal: bool
    kv_heads: int | None = None
    keep: bool = False
    windows: tuple = (None,)
    norm: str = 'rms'
    post_norm: bool = False
    act: str = 'silu'
    gated: bool = True
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: bool = False
    ffn_bias: bool = False


class Block(nn.Module):
    """hidden + attention(norm(hidden)), then hidden + ffn(norm(hidden)).

    With `post_norm`, norm(hidden + attention(hidden)), then norm(hidden + ffn(hidden)).
    `kind` is that of this layer, None if there is only one kind. `positions_BL` is given
    for rows with gaps, for which windows are measured in positions. With `first`, the
    input of attention is not normed.
    """

    layer: Layer
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
        layer = self.layer

        def norm(x_BLD, name):
            return NORMS[layer.norm](layer.norm_eps, name=f'{name}_norm')(x_BLD)

        def attention(x_BLD):
            places = segment_ids_BL, order_BL, positions_BL
            return SelfAttention(layer, name='attention')(x_BLD, angles, places, kind)

        ffn = layers.FFN(
            layer.ffn_width, layer.act, layer.gated, layer.ffn_bias, name='ffn'
        )
        hidden_BLD = activations.by_rows(hidden_BLD)
        if layer.post_norm:
            hidden_BLD = norm(hidden_BLD + attention(hidden_BLD), 'attention')
            hidden_BLD = norm(hidden_BLD + ffn(hidden_BLD), 'ffn')
        else:
            x_BLD = hidden_BLD if self.first else norm(hidden_BLD, 'attention')
            hidden_BLD = hidden_BLD + attention(x_BLD)
            hidden_BLD = hidden_BLD + ffn(norm(hidden_BLD, 'ffn'))
        hidden_BLD = activations.by_rows(hidden_BLD)
        return hidden_BLD, hidden_BLD if layer.keep else None


class SelfAttention(nn.Module):
    """Grouped-query attention within the documents of a row, rotary if given angles.

    If layers are of several kinds, `angles` has an additional first axis, indexed by
    `kind`. `places` is (segment_ids_BL, order_BL or None, positions_BL or None), as for
    attention/attend.py. With `qk_norm`, queries and keys are normed per head.
    """

    layer: Layer

    @nn.compact
    def __call__(self, x_BLD, angles, places, kind=None):
        layer = self.layer

        def project(name, heads):
            linear = layers.Linear(heads * layer.head_width, layer.qkv_bias, name=name)
            return rearrange(linear(x_BLD), 'B L (H K) -> B L H K', H=heads)

        def turned(name, heads):
            x_BLHK = project(name, heads)
            if layer.qk_norm:
                x_BLHK = layers.RMSNorm(layer.norm_eps, name=f'{name}_norm')(x_BLHK)
            return x_BLHK if angles is None else layers.rotate(x_BLHK, angles)

        if kind is not None:
            angles = jax.tree.map(lambda stacked: stacked[kind], angles)
        kv_heads = layer.kv_heads or layer.heads
        q_BLHK, k_BLGK = turned('q', layer.heads), turned('k', kv_heads)
        out_BLHK = self._attend(kind, q_BLHK, k_BLGK, project('v', kv_heads), *places)
        joined = rearrange(out_BLHK, 'B L H K -> B L (H K)')
        return layers.Linear(x_BLD.shape[-1], layer.o_bias, name='o')(joined)

    def _attend(self, kind, *inputs):
        layer = self.layer
        within = functools.partial(
            attend.attend, causal=layer.causal, backend=layer.attention
        )
        if len(set(layer.windows)) == 1:
            return within(*inputs, window=layer.windows[0], keep='attention')
        # One branch per window, because backends compile for a constant window. The
        # output is named after the switch: each branch would save a buffer of its own.
        branches = [functools.partial(within, window=window) for window in layer.windows]
        out_BLHK = jax.lax.switch(kind, branches, *inputs)
        return jax.ad_checkpoint.checkpoint_name(out_BLHK, 'attention')
