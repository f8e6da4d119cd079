"""What every trunk shares: its layers in a row, scanned or unrolled, and its making.

Layers may differ in what they attend by, in kinds: a rotary base (or none) and a window.
The kinds of a model are few; a layer knows the number of its own.

    layers      0        1        2        3
    theta       160000   10000    10000    160000
    window      None     64       64       None
    kind        0        1        1        0
"""

import dataclasses
import inspect

import flax.linen as nn
import jax
import jax.numpy as jnp

from jepa_text.config import ranges, resolve
from jepa_text.cost import flops
from jepa_text.models import layers
from jepa_text.models.attention import attend

ABOVE_0 = ('rope_theta', 'local_theta', 'norm_eps')
SIZES = ('head_width', 'window', 'local_window', 'global_every', 'vocab_rows')
# Sizes that are at least 1, and what they are at most.
MAX_INT = dict(width=2**20, depth=10_000, heads=2**16, kv_heads=2**16, ffn_width=2**22)
DTYPES = ('float32', 'bfloat16', 'float16')
HIDDEN = ('name', 'parent')  # of every Linen module, not of this one

_CHECKPOINT = jax.checkpoint_policies
# What the backward pass keeps of a layer; everything else is computed again.
REMAT = {
    'full': _CHECKPOINT.nothing_saveable,
    'dots': _CHECKPOINT.dots_with_no_batch_dims_saveable,
    'names': _CHECKPOINT.save_from_both_policies(
        _CHECKPOINT.save_only_these_names('attention', 'gate', 'up'), attend.is_kept
    ),
}


def sized(cls, presets, preset, keywords):
    """A trunk of class `cls` from a preset's sizes, any of them overridden by keywords.

    `vocab_rows`, where given, is how many rows the embedding has: at least `vocab_size`,
    the rest being room. Raises ValueError for an unknown preset or keyword, a missing
    size, or sizes that do not divide each other.
    """
    model = cls(**_sizes(cls, presets, preset, keywords))
    _check_model(model)
    return model


def _sizes(cls, presets, preset, keywords):
    """The keywords of `cls`, each within its range."""
    if preset is not None and preset not in presets:
        raise ValueError(f'preset {preset!r} does not exist: {", ".join(presets)}.')
    fields = [f for f in dataclasses.fields(cls) if f.name not in HIDDEN]
    names = [f.name for f in fields] + ['vocab_rows', 'preset']
    for key in set(keywords) - set(names):
        raise ValueError(f'model does not take {key!r}.{resolve.nearest(key, names)}')
    sizes = {**presets.get(preset, {}), **keywords}
    missing = {f.name for f in fields if f.default is dataclasses.MISSING} - set(sizes)
    if missing:
        raise ValueError(f'model needs {", ".join(sorted(missing))}, or a preset.')
    sizes['vocab_size'] = _rows(sizes['vocab_size'], sizes.pop('vocab_rows', None))
    for key, parameter in inspect.signature(cls).parameters.items():
        if key in sizes:
            ranges.keyword('model', parameter, sizes[key])
            _check_size(key, sizes[key])
    # A config that was saved has lists where it had tuples.
    return {k: tuple(v) if isinstance(v, list) else v for k, v in sizes.items()}


def _check_model(model):
    """Raises ValueError for what does not fit together, or does not exist."""
    if model.head_width is None and model.width % model.heads:
        raise ValueError(
            f'width={model.width} is not a multiple of heads={model.heads}; give '
            'head_width, or change one of them.'
        )
    if model.remat != 'none' and model.remat not in REMAT:
        raise ValueError(f'remat={model.remat!r}: none, {", ".join(REMAT)}.')
    if model.dtype not in DTYPES:
        raise ValueError(f'model: dtype={model.dtype!r}; there are: {", ".join(DTYPES)}.')
    attend.check(model.attention)


def _check_size(key, value):
    """Raises ValueError for numbers, of all layers or of each, out of range."""
    if key in MAX_INT:
        ranges.number(f'model: {key}', value, whole=True, minimum=1, maximum=MAX_INT[key])
    minimum = 0 if 'window' in key else 1
    asked = dict(above=0) if key in ABOVE_0 else dict(whole=True, minimum=minimum)
    if key in (*ABOVE_0, *SIZES):
        for one in value if isinstance(value, list | tuple) else (value,):
            if one is not None:
                ranges.number(f'model: {key}', one, **asked)


def _rows(vocab_size, vocab_rows):
    if vocab_rows is not None and vocab_rows < vocab_size:
        raise ValueError(
            f'vocab_rows={vocab_rows}, but the tokenizer has {vocab_size} tokens: give '
            'at least as many, or leave vocab_rows out.'
        )
    return vocab_rows or vocab_size


def kinds(depth, thetas, windows):
    """([(theta, window) of each kind], [kind of each layer]) of a trunk's layers.

    Each of the two is one value for all layers, or a tuple of one a layer. Raises
    ValueError for a tuple of another length.
    """
    columns = []
    for name, values in (('rope_theta', thetas), ('window', windows)):
        values = tuple(values) if isinstance(values, tuple | list) else (values,) * depth
        if len(values) != depth:
            raise ValueError(
                f'{name} has {len(values)} values for {depth} layers: give one for all, '
                'or one for each.'
            )
        columns.append(values)
    pairs = list(zip(*columns, strict=True))
    different = list(dict.fromkeys(pairs))
    return different, [different.index(pair) for pair in pairs]


def with_theta(section, theta):
    """A section `model` with another `rope_theta`, if it is not None. Of layers that each
    have their own, those without positions stay without.

    >>> with_theta({'rope_theta': [1e4, None]}, 5e5)
    {'rope_theta': [500000.0, None]}
    """
    if theta is None:
        return section
    now = section.get('rope_theta')
    if isinstance(now, list | tuple):
        return {**section, 'rope_theta': [one and theta for one in now]}
    return {**section, 'rope_theta': theta}


def angles(positions_BL, head_width, ways, scaling=None):
    """The rotary angles of every kind of layer, stacked if there is more than one."""
    each = [
        layers.rotary_angles(positions_BL, head_width, theta, scaling)
        for theta, _ in ways
    ]
    if len(each) == 1:
        return each[0]
    return jax.tree.map(lambda *arrays: jnp.stack(arrays), *each)


def run(cls, block, hidden_BLD, given, *, kinds, scan, remat):
    """hidden_BLD after a layer of class `cls` for each of `kinds`, and all outputs.

    Called inside a trunk's `__call__`, to which the layers then belong: one stack
    `layers`, or `layer_0`, `layer_1`... `block` holds the keywords of a layer, `given`
    what it reads beside `hidden_BLD`. The outputs [N, B, L, D] are None unless
    `block['keep']`.
    """
    if not kinds:
        return hidden_BLD, hidden_BLD[None][:0] if block['keep'] else None
    numbers = number(kinds)
    if not scan:
        cls = cls if remat == 'none' else nn.remat(cls, policy=REMAT[remat])
        outputs = []
        for index in range(len(kinds)):
            layer = cls(**block, name=f'layer_{index}')
            kind = None if numbers is None else numbers[index]
            with flops.of_kinds(kinds):
                hidden_BLD, _ = layer(hidden_BLD, *given, kind)
            outputs.append(hidden_BLD)
        return hidden_BLD, jnp.stack(outputs) if block['keep'] else None
    if remat != 'none':
        # prevent_cse is needless under scan, and costs fusions.
        cls = nn.remat(cls, policy=REMAT[remat], prevent_cse=False)
    stack = nn.scan(
        cls,
        variable_axes={'params': 0},
        split_rngs={'params': True},
        in_axes=(*(nn.broadcast,) * len(given), nn.broadcast if numbers is None else 0),
        length=len(kinds),
    )
    with flops.of_kinds(kinds):
        return stack(**block, name='layers')(hidden_BLD, *given, numbers)


def number(kinds):
    """The kind of each layer as an array, or None where all layers are of one kind."""
    return None if set(kinds) <= {0} else jnp.array(kinds, jnp.int32)
