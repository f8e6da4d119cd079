"""Parameters of one model -> those of another: other tokens, more layers, another head.

    tokens   rows of the embedding, and columns of the head, go by the token's text; a
             token that the old tokenizer lacks starts as the mean of all (Hewitt 2021)
    layers   copied by number:            old 0 1 2    new
             stack        again and again              0 1 2 0 1 2
             interleave   each next to its copies      0 0 1 1 2 2
             identity     the same, but copies add 0   0 . 1 . 2 .
             first, spread   fewer                     0 1      0 2
    head     one that was tied and gets a kernel of its own starts as the embedding

Stacking is that of Gong et al. 2019; with `identity` the model computes what it did (Wu
et al. 2024, arXiv 2401.02415), but not a BERT, whose norms stand after each sum: where 0
is added, they norm once more.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.models import transformer
from jepa_text.optim.optimizers import path_name
from jepa_text.training import state as states

LAYERS = ('stack', 'interleave', 'identity', 'first', 'spread')
# What a layer adds to the hidden states comes out of these.
LEAVING = re.compile(r'(attention/o|ffn/down)/(kernel|bias)$')


def kept(params, head='keep'):
    """The modules that come from another model."""
    names = ('encoder', 'lm_head') if head == 'keep' else ('encoder',)
    return {name: params[name] for name in names}


def fit(params, old, shapes, new, *, head, how):
    """(a function from the params of another model to ours, lines that say what it does).

    `old` and `new` are tokenizers, `shapes` those of our encoder and head; `head` is
    'keep' or 'new', `how` as in `layer_rows`. Raises ValueError where a head would be
    lost, and as `layer_rows` does.
    """
    have, want = (len(tree['encoder']['embedding']) for tree in (params, shapes))
    same = old.fingerprint == new.fingerprint and have == want
    rows_V = np.arange(want) if same else token_rows(old, new, have, want)
    had_depth, depth = (_depth(tree['encoder']) for tree in (params, shapes))
    _check_layers(params['encoder'], had_depth, depth, how)
    rows_N, is_copy_N = layer_rows(had_depth, depth, how)
    had, own = ('output' in tree.get('lm_head', {}) for tree in (params, shapes))
    if head == 'keep' and had and not own:
        raise ValueError(
            'init_from: its head has a kernel of its own, which tied=True would throw '
            "away. Set tied=False in the objectives, or take init_from.head='new'."
        )

    def make(params):
        params = with_token_rows(kept(params, head), rows_V, min(old.vocab_size, have))
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
        scores = f'a new head, {"its own kernel" if own else "tied to the embedding"}'
    elif own and not had:
        scores = 'a kernel of its own, which starts as the embedding'
    layers = 'as they are' if depth == had_depth else f'{how} of {had_depth}'
    return make, [
        f'words     {want:,} rows, {int((rows_V < 0).sum()):,} of them new, at the mean '
        'of all',
        f'layers    {depth}, {layers}',
        f'scores    {scores}',
    ]


def _check_layers(encoder, had, depth, how):
    """Raises ValueError for an encoder of `had` layers that cannot become so deep."""
    if depth != had and 'first' in encoder:
        raise ValueError(
            f'init_from: a modernbert of {had + 1} layers cannot become one of '
            f'{depth + 1}, as layers that see all come at regular intervals: leave '
            'depth out of the model section.'
        )
    # A norm after the last layer: the others stand before what they feed.
    if depth > had and how == 'identity' and 'norm' not in encoder:
        raise ValueError(
            "init_from: layers='identity' would change what a BERT computes, as it norms "
            "after each sum: take 'stack' or 'interleave'."
        )


def _depth(encoder):
    if 'layers' in encoder:
        return jax.tree.leaves(encoder['layers'])[0].shape[0]
    return sum(name.startswith('layer_') for name in encoder)


def token_rows(old, new, have, want):
    """For each of `want` rows, which of `have` old ones it is; -1 for the mean, int32.

    Rows without a word keep their place, if there is one.
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
    """(for each of `new` layers, which of `old` it is; is it one more copy?), [N] each.

    Raises ValueError for a way that does not lead from one depth to the other.
    """
    number_N = np.arange(new)
    if old == new:
        return number_N, np.zeros(new, bool)
    fits = LAYERS[:3] if new > old else LAYERS[3:]
    if how not in fits:
        raise ValueError(
            f'The start has {old} layers and the model {new}: say how, init_from.layers= '
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
    """The params with rows of tokens as `token_rows` says; the mean is of `known`
    ones."""

    def pick(leaf, axis):
        mean = jnp.mean(
            leaf[:known] if axis == 0 else leaf[:, :known], axis, keepdims=True
        )
        shape = [1] * leaf.ndim
        shape[axis] = -1
        found = jnp.take(leaf, jnp.asarray(np.maximum(rows_V, 0)), axis)
        return jnp.where(jnp.asarray(rows_V < 0).reshape(shape), mean, found)

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
    """An encoder with layers as `layer_rows` says, scanned or unrolled; if `silent`,
    copies add nothing to the hidden states."""
    if 'layers' not in encoder:
        encoder = transformer.stack_layers(encoder)

    def pick(path, leaf):
        found = leaf if _is_all(rows_N, leaf) else leaf[jnp.asarray(rows_N)]
        if not (silent and LEAVING.search(path_name(path))):
            return found
        axes = (-1, *[1] * (leaf.ndim - 1))
        return jnp.where(jnp.asarray(is_copy_N).reshape(axes), 0.0, found)

    layers = jax.tree_util.tree_map_with_path(pick, encoder['layers'])
    encoder = {**encoder, 'layers': layers}
    return encoder if scan else transformer.unstack_layers(encoder)


def with_scan(tree, scan, depth):
    """A tree that holds parameters, or moments of them, with layers scanned or not.

    Raises ValueError where layers of different ages would get one.
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
        tuple(leaf.item() for leaf in jax.tree.leaves(one) if _is_age(leaf))
        for one in layers
    }
    if len(ages) > 1:
        raise ValueError(
            "init_from: optimizer='kept', but the moments of its layers are not of one "
            'age, as those of scanned layers are: leave model.scan as it was, or take '
            "optimizer='fresh'."
        )


def _is_age(leaf):
    return leaf.ndim == 0 and not isinstance(leaf, jax.ShapeDtypeStruct | jax.core.Tracer)


def check(found, wanted):
    """Raises a ValueError that lists every path in which two trees of shapes differ."""
    found, wanted = states.shapes(found), states.shapes(wanted)
    lines = [f'{path} is only in the start' for path in sorted(found.keys() - wanted)]
    lines += [f'{path} is not in the start' for path in sorted(wanted.keys() - found)]
    lines += [
        f'{path} is {found[path]} there and {shape} here'
        for path, shape in sorted(wanted.items())
        if path in found and found[path] != shape
    ]
    if lines:
        more = f'; and {len(lines) - 10} more' if len(lines) > 10 else ''
        raise ValueError(
            f'The model is not that of the start: {"; ".join(lines[:10])}{more}. Leave '
            'sizes out of the model section, or give those of the start.'
        )


def _is_all(rows_N, leaf):
    return np.array_equal(rows_N, np.arange(len(leaf)))
