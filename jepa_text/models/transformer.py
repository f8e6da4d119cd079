"""The encoder `transformer`: a pre-norm transformer of the Llama / EuroBERT family.

The same weights are a decoder (`causal=True`) and an encoder (`causal=False`): the
attention mask is an argument of the call and never part of the model. Without options it
is plain Llama. The options cover related models:

    rope_scaling          Llama 3.1: dict(factor, low, high, length) of layers.stretched
    rope_theta            for all layers or per layer; None: no positions (SmolLM3)
    window                position i attends to j only if |i - j| <= window (Mistral; and
                          Qwen2, SmolLM3 in some layers); for all layers or per layer
    qkv_bias              Qwen2; with o_bias and ffn_bias, some models like Llama
    qk_norm               Qwen3
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jepa_text.config import ranges
from jepa_text.models import layers, stack
from jepa_text.models.block import Block
from jepa_text.parallel import activations

# Keywords of `Transformer`: sizes of arXiv 2507.00994, Table 1 (mlm_vs_clm: vocabulary
# 128,256), and smaller ones, of which 'tiny' is for tests.
PRESETS = {
    'tiny': dict(width=64, depth=2, heads=4, kv_heads=2, ffn_width=128),
    'toy': dict(width=128, depth=4, heads=4, kv_heads=4, ffn_width=384),
    'small': dict(width=384, depth=6, heads=6, kv_heads=6, ffn_width=1536),
    '210m': dict(width=768, depth=12, heads=12, kv_heads=12, ffn_width=3072),
    '610m': dict(width=1152, depth=26, heads=18, kv_heads=6, ffn_width=4096),
    '1b': dict(width=1728, depth=28, heads=18, kv_heads=6, ffn_width=5120),
}


def make(preset=None, **keywords):
    """Returns a Transformer with a preset's sizes, which keywords override.

    Raises ValueError for an unknown preset, a missing size, or sizes that do not divide
    each other.
    """
    model = stack.from_preset(Transformer, PRESETS, preset, keywords)
    if model.heads % model.kv_heads:
        raise ValueError(
            f'heads={model.heads} is not a multiple of kv_heads={model.kv_heads}.'
        )
    stack.kinds(model.depth, model.rope_theta, model.window)
    if model.rope_scaling is not None:
        _check_scaling(model.rope_scaling)
    return model


def _check_scaling(scaling):
    """Raises ValueError unless a section has the keywords of `layers.stretched`."""
    known = ('factor', 'low', 'high', 'length')
    if set(scaling) != set(known):
        raise ValueError(
            f'model: rope_scaling={dict(scaling)} must have the keys {", ".join(known)}.'
        )
    for name in known:
        ranges.number(f'model: rope_scaling: {name}', scaling[name], above=0)
    if scaling['low'] >= scaling['high']:
        raise ValueError(
            f'model: rope_scaling={dict(scaling)} must have a low below its high.'
        )


class Transformer(nn.Module):
    """tokens, segment_ids, positions [B, L] -> hidden_BLD after the last norm."""

    vocab_size: int
    width: int
    depth: int
    heads: int
    kv_heads: int
    ffn_width: int
    head_width: int | None = None
    rope_theta: float | tuple | None = 10_000.0
    norm_eps: float = 1e-5
    scan: bool = True
    remat: str = 'none'
    attention: str = 'auto'
    dtype: str = 'float32'
    rope_scaling: dict | None = None
    window: int | tuple | None = None
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: bool = False
    ffn_bias: bool = False

    # None: tokens are scored by heads.LMHead, a product with a kernel.
    head = None

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

        These are the embedding and the output of each layer, before the last norm: depth
        + 1 arrays. With `gaps`, rows are cut out of others, and windows are measured in
        `positions_BL`.
        """
        shape = (self.vocab_size, self.width)
        embedding_VD = self.param('embedding', layers.INIT, shape, jnp.float32)
        embedded_BLD = activations.embedding_lookup(
            embedding_VD.astype(self.dtype), tokens_BL
        )
        head_width = self.head_width or self.width // self.heads
        ways, kinds = stack.kinds(self.depth, self.rope_theta, self.window)
        angles = stack.angles(positions_BL, head_width, ways, self.rope_scaling)
        block = dict(
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_width=head_width,
            ffn_width=self.ffn_width,
            norm_eps=self.norm_eps,
            attention=self.attention,
            causal=causal,
            keep=every_layer,
            windows=tuple(window for _, window in ways),
            qkv_bias=self.qkv_bias,
            o_bias=self.o_bias,
            qk_norm=self.qk_norm,
            ffn_bias=self.ffn_bias,
        )
        hidden_BLD, outputs = stack.run(
            Block,
            block,
            embedded_BLD,
            (angles, segment_ids_BL, order_BL, positions_BL if gaps else None),
            kinds=kinds,
            scan=self.scan,
            remat=self.remat,
        )
        hidden_BLD = layers.RMSNorm(self.norm_eps, name='norm')(hidden_BLD)
        hidden_BLD = activations.by_rows(hidden_BLD)
        if not every_layer:
            return hidden_BLD
        return hidden_BLD, jnp.concatenate([embedded_BLD[None], outputs])


def stack_layers(encoder):
    """Converts parameters of an unrolled encoder to the layout of a scanned one.

    Scalars, such as the ages of moments, are taken from the first layer.
    """
    names = sorted((n for n in encoder if n.startswith('layer_')), key=_layer_number)
    rest = {n: p for n, p in encoder.items() if n not in names}
    stacked = jax.tree.map(
        lambda *leaves: jnp.stack(leaves) if leaves[0].ndim else leaves[0],
        *(encoder[n] for n in names),
    )
    return {**rest, 'layers': stacked}


def unstack_layers(encoder, depth=None):
    """Converts parameters of a scanned encoder to the layout of an unrolled one.

    `depth` is the number of layers, needed for a tree that has only scalars; scalars are
    copied to all layers.
    """
    rest = {n: p for n, p in encoder.items() if n != 'layers'}
    stacked = [leaf for leaf in jax.tree.leaves(encoder['layers']) if leaf.ndim]
    for index in range(stacked[0].shape[0] if stacked else depth):
        rest[f'layer_{index}'] = jax.tree.map(
            lambda leaf, index=index: leaf[index] if leaf.ndim else leaf,
            encoder['layers'],
        )
    return rest


def _layer_number(name):
    return int(name.removeprefix('layer_'))
