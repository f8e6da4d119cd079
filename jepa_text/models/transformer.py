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

import operator

import jax
import jax.numpy as jnp

from jepa_text.models import layers, stack
from jepa_text.settings import ranges, resolve

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


def make(preset: str | None = None, **keywords):
    """Returns a Transformer with a preset's sizes, which keywords override.

    Raises ValueError for an unknown preset, a missing size, or sizes that do not divide
    each other.
    """
    model = stack.from_preset(Transformer, PRESETS, preset, keywords)
    if model.heads % model.kv_heads:
        raise ValueError(
            f'heads={model.heads} is not a multiple of kv_heads={model.kv_heads}.'
        )
    model.kinds()
    if (scaling := model.rope_scaling) is not None:
        what = 'model: rope_scaling'
        resolve.check_keywords(what, layers.stretched, scaling, given=('frequency_K',))
        for name, value in scaling.items():
            ranges.number(f'{what}: {name}', value, above=0)
        if scaling['low'] >= scaling['high']:
            raise ValueError(f'{what}={dict(scaling)} must have a low below its high.')
    return model


class Transformer(stack.Encoder, kw_only=True):
    """tokens, segment_ids, positions [B, L] -> hidden_BLD after the last norm."""

    kv_heads: int
    rope_theta: float | tuple | None = 10_000.0
    rope_scaling: dict | None = None
    window: int | tuple | None = None
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: bool = False
    ffn_bias: bool = False

    @property
    def layer(self):
        """The options of block.Layer."""
        names = ('kv_heads', 'qkv_bias', 'o_bias', 'qk_norm', 'ffn_bias')
        return {name: getattr(self, name) for name in names}


def stack_layers(encoder):
    """Converts parameters of an unrolled encoder to the layout of a scanned one."""
    rest = {n: p for n, p in encoder.items() if not n.startswith('layer_')}
    layers = (encoder[f'layer_{i}'] for i in range(len(encoder) - len(rest)))
    return {**rest, 'layers': jax.tree.map(lambda *x: jnp.stack(x), *layers)}


def unstack_layers(encoder):
    """Converts parameters of a scanned encoder to the layout of an unrolled one."""
    rest = {n: p for n, p in encoder.items() if n != 'layers'}
    for index in range(len(jax.tree.leaves(encoder['layers'])[0])):
        rest[f'layer_{index}'] = jax.tree.map(
            operator.itemgetter(index), encoder['layers']
        )
    return rest
