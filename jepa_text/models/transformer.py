"""The trunk: a pre-norm transformer of the Llama / EuroBERT family, without biases.

The same weights are a decoder (`causal=True`) and an encoder (`causal=False`): the
attention mask is an argument of the call and never part of the model.
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from jepa_text import resolve
from jepa_text.models import attention, layers
from jepa_text.models.block import Block

# Sizes of arXiv 2507.00994, Table 1 (mlm_vs_clm: vocabulary 128,256), and a tiny one
# for tests. Each is a set of keywords of `Transformer`.
PRESETS = {
    'tiny': dict(width=64, depth=2, heads=4, kv_heads=2, ffn_width=128),
    'desk': dict(width=128, depth=4, heads=4, kv_heads=4, ffn_width=384),
    '210m': dict(width=768, depth=12, heads=12, kv_heads=12, ffn_width=3072),
    '610m': dict(width=1152, depth=26, heads=18, kv_heads=6, ffn_width=4096),
    '1b': dict(width=1728, depth=28, heads=18, kv_heads=6, ffn_width=5120),
}

HIDDEN = ('name', 'parent')  # of every Linen module, not of this one

_CHECKPOINT = jax.checkpoint_policies
# What the backward pass keeps of a layer; everything else is computed again.
REMAT = {
    'full': _CHECKPOINT.nothing_saveable,
    'dots': _CHECKPOINT.dots_with_no_batch_dims_saveable,
    'names': _CHECKPOINT.save_only_these_names('attention', 'gate', 'up'),
}


def make(preset=None, **keywords):
    """A Transformer from a preset's sizes, any of them overridden by keywords.

    Raises ValueError for an unknown preset, a missing size, or sizes that do not
    divide each other.
    """
    if preset is not None and preset not in PRESETS:
        raise ValueError(f'preset {preset!r} does not exist: {", ".join(PRESETS)}.')
    fields = [f.name for f in dataclasses.fields(Transformer) if f.name not in HIDDEN]
    for key in set(keywords) - set(fields):
        raise ValueError(f'model does not take {key!r}.{resolve.nearest(key, fields)}')
    sizes = {**PRESETS.get(preset, {}), **keywords}
    missing = {'vocab_size', *PRESETS['tiny']} - set(sizes)
    if missing:
        raise ValueError(f'model needs {", ".join(sorted(missing))}, or a preset.')
    model = Transformer(**sizes)
    if model.heads % model.kv_heads:
        raise ValueError(
            f'heads={model.heads} is not a multiple of kv_heads={model.kv_heads}.'
        )
    if model.head_width is None and model.width % model.heads:
        raise ValueError(
            f'width={model.width} is not a multiple of heads={model.heads}; give '
            'head_width, or change one of them.'
        )
    if model.remat != 'none' and model.remat not in REMAT:
        raise ValueError(f'remat={model.remat!r}: none, {", ".join(REMAT)}.')
    attention.choose(model.attention)
    return model


class Transformer(nn.Module):
    """tokens, segment_ids, positions [B, L] -> hidden_BLD after the last norm."""

    vocab_size: int
    width: int
    depth: int
    heads: int
    kv_heads: int
    ffn_width: int
    head_width: int | None = None
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5
    scan: bool = True
    remat: str = 'none'
    attention: str = 'auto'
    dtype: str = 'float32'

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
    ):
        """hidden_BLD; with `every_layer`, also layers_NBLD: the embedding and then the
        output of each layer, before the last norm (depth + 1 of them)."""
        dtype = jnp.dtype(self.dtype)
        shape = (self.vocab_size, self.width)
        embedding_VD = self.param('embedding', layers.INIT, shape, jnp.float32)
        embedded_BLD = embedding_VD.astype(dtype)[tokens_BL]
        head_width = self.head_width or self.width // self.heads
        angles = layers.rotary_angles(positions_BL, head_width, self.rope_theta)
        run = self._scanned if self.scan else self._unrolled
        block = dict(
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_width=head_width,
            ffn_width=self.ffn_width,
            norm_eps=self.norm_eps,
            attention=self.attention,
            causal=causal,
            keep=every_layer,
        )
        given = (angles, segment_ids_BL, order_BL)
        hidden_BLD, outputs = run(block, embedded_BLD, given)
        hidden_BLD = layers.RMSNorm(self.norm_eps, name='norm')(hidden_BLD)
        if not every_layer:
            return hidden_BLD
        return hidden_BLD, jnp.concatenate([embedded_BLD[None], outputs])

    def _block_class(self, **options):
        if self.remat == 'none':
            return Block
        return nn.remat(Block, policy=REMAT[self.remat], **options)

    def _scanned(self, block, hidden_BLD, given):
        # prevent_cse is needless under scan, and costs fusions.
        stack = nn.scan(
            self._block_class(prevent_cse=False),
            variable_axes={'params': 0},
            split_rngs={'params': True},
            in_axes=(nn.broadcast,) * len(given),
            length=self.depth,
        )
        return stack(**block, name='layers')(hidden_BLD, *given)

    def _unrolled(self, block, hidden_BLD, given):
        outputs = []
        for index in range(self.depth):
            layer = self._block_class()(**block, name=f'layer_{index}')
            hidden_BLD, _ = layer(hidden_BLD, *given)
            outputs.append(hidden_BLD)
        return hidden_BLD, jnp.stack(outputs) if block['keep'] else None


def stack_layers(encoder):
    """Parameters of an unrolled encoder in the layout of a scanned one."""
    names = sorted((n for n in encoder if n.startswith('layer_')), key=_layer_number)
    rest = {n: p for n, p in encoder.items() if n not in names}
    stacked = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *(encoder[n] for n in names)
    )
    return {**rest, 'layers': stacked}


def unstack_layers(encoder):
    """Parameters of a scanned encoder in the layout of an unrolled one."""
    rest = {n: p for n, p in encoder.items() if n != 'layers'}
    depth = jax.tree.leaves(encoder['layers'])[0].shape[0]
    for index in range(depth):
        rest[f'layer_{index}'] = jax.tree.map(
            lambda leaf, index=index: leaf[index], encoder['layers']
        )
    return rest


def _layer_number(name):
    return int(name.removeprefix('layer_'))
