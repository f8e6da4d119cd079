"""Construction of encoders, and their layers: a stack that is scanned or unrolled.

Layers may differ in attention: in the rotary base (or none) and the window. A model has
few different combinations, called kinds; each layer has the number of its kind.

    layers      0        1        2        3
    theta       160000   10000    10000    160000
    window      None     64       64       None
    kind        0        1        1        0
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jepa_text.models import flops, layers
from jepa_text.models.attention import attend
from jepa_text.models.block import NORMS, Block, Layer
from jepa_text.parallel import activations
from jepa_text.settings import ranges, resolve

# Maximum of sizes that must be at least 1.
MAX_INT = dict(width=2**20, depth=10_000, heads=2**16, kv_heads=2**16, ffn_width=2**22)
# Bounds of a model's numbers, each for all layers or per layer.
BOUNDS = {
    **{name: dict(whole=True, minimum=1, maximum=x) for name, x in MAX_INT.items()},
    **dict.fromkeys(
        ('head_width', 'global_every', 'positions', 'types'), dict(whole=True, minimum=1)
    ),
    **dict.fromkeys(
        ('window', 'local_window', 'position_offset'), dict(whole=True, minimum=0)
    ),
    **dict.fromkeys(('rope_theta', 'local_theta', 'norm_eps'), dict(above=0)),
}
# Not float16: without loss scaling, small gradients become zero in it.
DTYPES = ('float32', 'bfloat16')
INTERNAL = ('name', 'parent')  # fields that all Linen modules have

_CHECKPOINT = jax.checkpoint_policies
# What is saved of a layer for the backward pass; everything else is recomputed.
REMAT = {
    'full': _CHECKPOINT.nothing_saveable,
    'dots': _CHECKPOINT.dots_with_no_batch_dims_saveable,
    'names': _CHECKPOINT.save_from_both_policies(
        _CHECKPOINT.save_only_these_names('attention', 'gate', 'up'),
        attend.kernel_outputs_saveable,
    ),
}


def from_preset(cls, presets, preset, keywords):
    """Returns an encoder of class `cls` with a preset's sizes, which keywords override.

    `vocab_rows`, if given, is the number of rows of the embedding, at least `vocab_size`;
    the additional rows are unused. Raises ValueError for an unknown preset or keyword, a
    missing size, sizes out of range, or sizes that do not divide each other.
    """
    if preset is not None:
        resolve.check_choice('preset', preset, presets)
    sizes = {**presets.get(preset, {}), **keywords}
    rows = sizes.pop('vocab_rows', None)
    resolve.check_keywords('model', cls, sizes, INTERNAL, also=('vocab_rows', 'preset'))
    for key, value in sizes.items():
        # For all layers, or per layer.
        for number in value if isinstance(value, list | tuple) else (value,):
            if number is not None and key in BOUNDS:
                ranges.number(f'model: {key}', number, **BOUNDS[key])
    sizes['vocab_size'] = _rows(sizes['vocab_size'], rows)
    # A saved config has lists in place of tuples.
    sizes = {k: tuple(v) if isinstance(v, list) else v for k, v in sizes.items()}
    model = cls(**sizes)
    _check_model(model)
    return model


def _check_model(model):
    """Raises ValueError for sizes that do not fit together and for unknown choices."""
    if model.head_width is None and model.width % model.heads:
        raise ValueError(
            f'width={model.width} is not a multiple of heads={model.heads}. Set '
            'head_width, or change one of them.'
        )
    head_width = model.head_width or model.width // model.heads
    if model.is_rotary and head_width % 2:
        raise ValueError(
            f'width={model.width}, heads={model.heads}, head_width={model.head_width}: '
            'the width of a head must be even, for rotary positions. Change one of them.'
        )
    choices = {
        **dict.fromkeys(('act', 'head_act'), layers.ACTIVATIONS),
        'remat': ('none', *REMAT),
        'dtype': DTYPES,
    }
    for name, known in choices.items():
        value = getattr(model, name, None)
        if value is not None:
            resolve.check_choice(f'model: {name}', value, known)
    attend.check(model.attention)


def _rows(vocab_size, vocab_rows):
    if vocab_rows is None:
        return vocab_size
    vocab_rows = ranges.whole('model: vocab_rows', vocab_rows, maximum=ranges.MAX_INT)
    if vocab_rows < vocab_size:
        raise ValueError(
            f'model.vocab_rows={vocab_rows}, but the tokenizer has {vocab_size} tokens. '
            f'Set it to {vocab_size} or more; if omitted, it is that number, or that of '
            'the model of init_from.'
        )
    return vocab_rows


def kinds(depth, thetas, windows):
    """Returns ([(theta, window) of each kind], [kind of each layer]) of an encoder.

    `thetas` and `windows` are each one value for all layers, or a tuple with one value
    per layer. Raises ValueError for a tuple of another length.
    """
    columns = []
    for name, values in (('rope_theta', thetas), ('window', windows)):
        values = tuple(values) if isinstance(values, tuple | list) else (values,) * depth
        if len(values) != depth:
            raise ValueError(
                f'{name} has {len(values)} values for {depth} layers. Give one value for '
                'all layers, or one per layer.'
            )
        columns.append(values)
    pairs = list(zip(*columns, strict=True))
    distinct = list(dict.fromkeys(pairs))
    return distinct, [distinct.index(pair) for pair in pairs]


def changed(section, changes):
    """Returns a section `model` with the changes that are not None.

    Of a list with a value per layer, a number changes all but None, which stands for no
    positions or no window.

    >>> changed({'rope_theta': [1e4, None]}, {'rope_theta': 5e5})
    {'rope_theta': [500000.0, None]}
    """
    new = {**section, **{key: x for key, x in changes.items() if x is not None}}
    for key in ('rope_theta', 'window'):
        listed, value = section.get(key), new.get(key)
        if isinstance(listed, list | tuple) and isinstance(value, int | float):
            new[key] = [each if each is None else value for each in listed]
    return new


def angles(positions_BL, head_width, kinds, scaling=None):
    """Returns the rotary angles of all kinds of layers, stacked if there are several."""
    each = [
        layers.rotary_angles(positions_BL, head_width, theta, scaling)
        for theta, _ in kinds
    ]
    if len(each) == 1:
        return each[0]
    return jax.tree.map(lambda *arrays: jnp.stack(arrays), *each)


class Encoder(nn.Module):
    """tokens, segment_ids, positions [B, L] -> hidden_BLD after the last norm.

    The base of all encoders. A subclass gives the options of its layers in `layer`, the
    rotary base and window of each in `rope_theta` and `window`, and in `head` the
    keywords of heads.DenseHead; if that is None, tokens are scored by heads.LMHead.

    width, depth     of hidden states; number of layers
    heads            of queries, of `head_width` each; None: width / heads
    ffn_width        of the hidden states of the feed-forward network
    scan             the layers are one program in a loop, which compiles faster
    remat            what the backward pass computes again: none, dots, names or full
    attention        a backend of models/attention, or auto
    dtype            of activations; parameters are float32
    """

    vocab_size: int
    width: int
    depth: int
    heads: int
    ffn_width: int
    head_width: int | None = None
    norm_eps: float = 1e-5
    scan: bool = True
    remat: str = 'none'
    attention: str = 'auto'
    dtype: str = 'float32'

    is_rotary = True
    rope_scaling = None
    # With an embedding that is already normed, the first layer lacks a norm, and so it is
    # not part of the stack.
    embeds_normed = False
    head = None

    def kinds(self):
        """Returns the kinds of the layers, as the function `kinds`."""
        return kinds(self.depth, self.rope_theta, self.window)

    def table(self, name, rows):
        """Returns the embedding table of this name, [rows, D]."""
        return self.param(name, layers.INIT, (rows, self.width), jnp.float32)

    def embed(self, tokens_BL, positions_BL):
        """Returns embedded_BLD, the input of the first layer."""
        embedding_VD = self.table('embedding', self.vocab_size)
        return activations.embedding_lookup(embedding_VD, tokens_BL, self.dtype)

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
        embedded_BLD = self.embed(tokens_BL, positions_BL)
        ways, kinds = self.kinds()
        layer = Layer(
            heads=self.heads,
            head_width=self.head_width or self.width // self.heads,
            ffn_width=self.ffn_width,
            norm_eps=self.norm_eps,
            attention=self.attention,
            causal=causal,
            keep=every_layer,
            windows=tuple(window for _, window in ways),
            **self.layer,
        )
        rotation = None
        if self.is_rotary:
            rotation = angles(positions_BL, layer.head_width, ways, self.rope_scaling)
        inputs = (rotation, segment_ids_BL, order_BL, positions_BL if gaps else None)
        hidden_BLD, early = embedded_BLD, [embedded_BLD]
        if self.embeds_normed:
            kind = None if len(ways) == 1 else jnp.int32(0)
            first = Block(layer, first=True, name='first')
            hidden_BLD, _ = first(hidden_BLD, *inputs, kind)
            early.append(hidden_BLD)
        hidden_BLD, outputs = run(
            layer,
            hidden_BLD,
            inputs,
            kinds[len(early) - 1 :],
            scan=self.scan,
            remat=self.remat,
        )
        if not layer.post_norm:
            hidden_BLD = NORMS[layer.norm](self.norm_eps, name='norm')(hidden_BLD)
            hidden_BLD = activations.by_rows(hidden_BLD)
        if not every_layer:
            return hidden_BLD
        return hidden_BLD, jnp.concatenate([jnp.stack(early), outputs])


def run(layer, hidden_BLD, inputs, kinds, *, scan, remat):
    """Returns hidden_BLD after a Block for each of `kinds`, and all outputs.

    Called inside an encoder's `__call__`, so that the layers belong to the encoder: one
    stack `layers`, or `layer_0`, `layer_1`... `layer` is a Layer, `inputs` are those of
    the module besides `hidden_BLD`. The outputs [N, B, L, D] are None unless
    `layer.keep`.
    """
    if not kinds:
        return hidden_BLD, hidden_BLD[None][:0] if layer.keep else None
    # The kind of each layer, unless there is only kind 0.
    indices = jnp.array(kinds, jnp.int32) if any(kinds) else None
    cls = Block
    if remat != 'none':
        # Under scan prevent_cse is unnecessary and prevents fusions.
        cls = nn.remat(Block, policy=REMAT[remat], prevent_cse=not scan)
    if not scan:
        traced_once = nn.jit(_call)  # layers of the same shapes share their trace
        outputs = []
        for index in range(len(kinds)):
            module = cls(layer, name=f'layer_{index}')
            kind = None if indices is None else indices[index]
            # At initialization, jit would change the random keys.
            call = _call if module.is_initializing() else traced_once
            with flops.layer_kinds(kinds):
                hidden_BLD, _ = call(module, hidden_BLD, *inputs, kind)
            outputs.append(hidden_BLD)
        return hidden_BLD, jnp.stack(outputs) if layer.keep else None
    stack = nn.scan(
        cls,
        variable_axes={'params': 0},
        split_rngs={'params': True},
        in_axes=(*(nn.broadcast,) * len(inputs), nn.broadcast if indices is None else 0),
        length=len(kinds),
        # The check traces the layer a second time.
        check_constancy_invariants=False,
    )
    with flops.layer_kinds(kinds):
        return stack(layer, name='layers')(hidden_BLD, *inputs, indices)


def _call(module, *inputs):
    return module(*inputs)
