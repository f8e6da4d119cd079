"""Converts parameters between models that differ in tokenizer, depth or head.

    tokens   rows of the embedding and columns of the head follow the text of the token;
             a token that the old tokenizer lacks starts at the mean of all (Hewitt 2021)
    layers   copied by number:            old 0 1 2    new
             stack        the sequence repeated        0 1 2 0 1 2
             interleave   each layer repeated          0 0 1 1 2 2
             identity     the same, but copies add 0   0 . 1 . 2 .
             first, spread   fewer layers              0 1      0 2
    head     a kernel that was tied, and now is not, starts as the embedding

Stacking follows Gong et al. 2019. With `identity` the model computes the same function
as before (Wu et al. 2024, arXiv 2401.02415). It is not available for BERT, whose norms
follow each residual sum, so that a copy that adds 0 would still normalize once more.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.models import transformer
from jepa_text.optim.leaves import path_name
from jepa_text.training import state as states
from jepa_text.training.config import LAYERS

# Parameters of the projections whose output a layer adds to the hidden states.
OUTPUTS = re.compile(r'(attention/o|ffn/down)/(kernel|bias)$')


def transferred(params, head='keep'):
    """Returns the modules that are taken from another model."""
    names = ('encoder', 'lm_head') if head == 'keep' else ('encoder',)
    return {name: params[name] for name in names}


def fit(params, old, shapes, new, *, head, how):
    """Returns (function from params of another model to ours, lines that describe it).

    `old` and `new` are tokenizers; `shapes` are those of our encoder and head; `head` is
    'keep' or 'new'; `how` is as in `layer_rows`. Raises ValueError if a trained head
    would be lost, and as `layer_rows`.
    """
    have, want = (len(tree['encoder']['embedding']) for tree in (params, shapes))
    same = old.fingerprint == new.fingerprint and have == want
    rows_V = np.arange(want) if same else token_rows(old, new, have, want)
    old_depth, depth = (_depth(tree['encoder']) for tree in (params, shapes))
    _check_layers(params['encoder'], old_depth, depth, how)
    rows_N, is_copy_N = layer_rows(old_depth, depth, how)
    was_untied, is_untied = (
        'output' in tree.get('lm_head', {}) for tree in (params, shapes)
    )
    if head == 'keep' and was_untied and not is_untied:
        raise ValueError(
            'init_from: the head of the start has a kernel of its own, which tied=True '
            "would discard. Set tied=False in the objectives, or init_from.head='new'."
        )

    def make(params):
        params = with_token_rows(
            transferred(params, head), rows_V, min(old.vocab_size, have)
        )
        params['encoder'] = with_layers(
            params['encoder'],
            rows_N,
            is_copy_N,
            silent=how == 'identity',
            scan='layers' in shapes['encoder'],
        )
        return states.with_head(params, shapes) if head == 'keep' else params

    scores = 'the head of the start'
    if head == 'new':
        kernel = 'with a kernel of its own' if is_untied else 'tied to the embedding'
        scores = f'a new head, {kernel}'
    elif is_untied and not was_untied:
        scores = 'a kernel of its own, which starts as the embedding'
    layers = 'unchanged' if depth == old_depth else f'{how} of {old_depth}'
    return make, [
        f'tokens    {want:,} rows, {int((rows_V < 0).sum()):,} of them new, at the mean '
        'of all',
        f'layers    {depth}, {layers}',
        f'head      {scores}',
    ]


def _check_layers(encoder, old_depth, depth, how):
    """Raises ValueError if an encoder of `old_depth` layers cannot get `depth` layers."""
    if depth != old_depth and 'first' in encoder:
        raise ValueError(
            f'init_from: a modernbert of {old_depth + 1} layers cannot become one of '
            f'{depth + 1} layers, as its global layers come at regular intervals. Remove '
            'depth from the model section.'
        )
    # With a final norm, the other norms precede the layers.
    if depth > old_depth and how == 'identity' and 'norm' not in encoder:
        raise ValueError(
            "init_from: layers='identity' would change what a BERT computes, as it has "
            "norms after each residual sum. Use 'stack' or 'interleave'."
        )


def _depth(encoder):
    if 'layers' in encoder:
        return jax.tree.leaves(encoder['layers'])[0].shape[0]
    return sum(name.startswith('layer_') for name in encoder)


def token_rows(old, new, have, want):
    """Returns the old row of each of `want` new rows, or -1 for the mean, int32 [want].

    Spare rows, which belong to no token, keep their index if it exists.
    """
    rows_V = np.full(want, -1, np.int32)
    spare = np.arange(old.vocab_size, have)
    rows_V[spare[spare < want]] = spare[spare < want]
    rows_V[: new.vocab_size] = -1
    for number in range(min(new.vocab_size, want)):
        token = new.backend.id_to_token(number)
        known = None if token is None else old.backend.token_to_id(token)
        if known is not None and known < have:
            rows_V[number] = known
    return rows_V


def layer_rows(old, new, how):
    """Returns (old layer of each new layer, whether it is a further copy), [new] each.

    Raises ValueError if `how` does not lead from `old` to `new` layers.
    """
    number_N = np.arange(new)
    if old == new:
        return number_N, np.zeros(new, bool)
    fits = LAYERS[:3] if new > old else LAYERS[3:]
    if how not in fits:
        raise ValueError(
            f'The start has {old} layers and the model {new}. Set init_from.layers to '
            f'{" or ".join(map(repr, fits))}; it is {how!r}.'
        )
    rows_N = {
        'stack': number_N % old,
        'interleave': number_N * old // new,
        'identity': number_N * old // new,
        'first': number_N,
        'spread': np.round(number_N * (old - 1) / max(new - 1, 1)).astype(int),
    }[how]
    seen = np.unique(rows_N, return_index=True)[1]
    return rows_N, ~np.isin(number_N, seen)


def with_token_rows(params, rows_V, known):
    """Returns params with token rows selected by `token_rows`.

    The mean is that of the first `known` rows.
    """

    def pick(leaf, axis):
        mean = jnp.mean(
            leaf[:known] if axis == 0 else leaf[:, :known], axis, keepdims=True
        )
        shape = [1] * leaf.ndim
        shape[axis] = -1
        taken = jnp.take(leaf, jnp.asarray(np.maximum(rows_V, 0)), axis)
        return jnp.where(jnp.asarray(rows_V < 0).reshape(shape), mean, taken)

    encoder, head = dict(params['encoder']), dict(params.get('lm_head', {}))
    if _is_all(rows_V, encoder['embedding']):
        return params
    encoder['embedding'] = pick(encoder['embedding'], 0)
    if 'output' in head:
        head['output'] = {'kernel': pick(head['output']['kernel'], 1)}
    if 'bias' in head:
        head['bias'] = pick(head['bias'], 0)
    return {**params, 'encoder': encoder} | ({'lm_head': head} if head else {})


def with_layers(encoder, rows_N, is_copy_N, *, silent, scan):
    """Returns an encoder with layers selected by `layer_rows`, scanned or unrolled.

    If `silent`, copies add nothing to the hidden states.
    """
    if not len(rows_N):  # a modernbert of one layer, which is not part of the stack
        return encoder
    if 'layers' not in encoder:
        encoder = transformer.stack_layers(encoder)

    def pick(path, leaf):
        chosen = leaf if _is_all(rows_N, leaf) else leaf[jnp.asarray(rows_N)]
        if not (silent and OUTPUTS.search(path_name(path))):
            return chosen
        axes = (-1, *[1] * (leaf.ndim - 1))
        return jnp.where(jnp.asarray(is_copy_N).reshape(axes), 0.0, chosen)

    layers = jax.tree_util.tree_map_with_path(pick, encoder['layers'])
    encoder = {**encoder, 'layers': layers}
    return encoder if scan else transformer.unstack_layers(encoder)


def with_scan(tree, scan, depth):
    """Returns a tree of parameters, or of their moments, with layers scanned or unrolled.

    Raises ValueError if layers with different ages of moments would be scanned.
    """

    def holds(node):
        return isinstance(node, dict) and isinstance(node.get('encoder'), dict)

    def change(node):
        if not holds(node) or scan == ('layers' in node['encoder']):
            return node
        if not scan:
            encoder = transformer.unstack_layers(node['encoder'], depth)
            return {**node, 'encoder': encoder}
        _check_ages(node['encoder'])
        return {**node, 'encoder': transformer.stack_layers(node['encoder'])}

    return jax.tree.map(change, tree, is_leaf=holds)


def _check_ages(encoder):
    layers = [node for name, node in encoder.items() if name.startswith('layer_')]
    ages = {
        tuple(leaf.item() for leaf in jax.tree.leaves(layer) if _is_age(leaf))
        for layer in layers
    }
    if len(ages) > 1:
        raise ValueError(
            "init_from: optimizer='kept', but the moments of its layers have different "
            'ages, and scanned layers share one. Leave model.scan unchanged, or use '
            "optimizer='fresh'."
        )


def _is_age(leaf):
    return leaf.ndim == 0 and not isinstance(leaf, jax.ShapeDtypeStruct | jax.core.Tracer)


def check(have, wanted):
    """Raises ValueError with the paths that differ if two trees have other shapes."""
    have, wanted = states.shapes(have), states.shapes(wanted)
    lines = [f'{path} is only in the start' for path in sorted(have.keys() - wanted)]
    lines += [f'{path} is not in the start' for path in sorted(wanted.keys() - have)]
    lines += [
        f'{path} is {have[path]} in the start and {shape} here'
        for path, shape in sorted(wanted.items())
        if path in have and have[path] != shape
    ]
    if lines:
        more = f'; and {len(lines) - 10} more' if len(lines) > 10 else ''
        raise ValueError(
            f'The model differs from the start: {"; ".join(lines[:10])}{more}. Remove '
            'sizes from the model section, or set those of the start.'
        )


def _is_all(rows_N, leaf):
    return np.array_equal(rows_N, np.arange(len(leaf)))
