"""Converts parameters of another model: its tokens, its layers' layout and its head.

tokens   rows of the embedding and columns of the head follow the text of the token;
         a token that the old tokenizer lacks starts at the mean of all (Hewitt 2021)
layers   scanned or unrolled, as in the new model
head     a kernel that was tied, and now is not, starts as the embedding
"""

import jax.numpy as jnp
import numpy as np

from jepa_text.models import transformer
from jepa_text.training import state as states


def transferred(params, head='keep'):
    """Returns the modules that are taken from another model."""
    names = ('encoder', 'lm_head') if head == 'keep' else ('encoder',)
    return {name: params[name] for name in names}


def fit(params, old, shapes, new, *, head):
    """Returns (function from params of another model to ours, lines that describe it).

    `old` and `new` are tokenizers; `shapes` are those of our encoder and head; `head` is
    'keep' or 'new'. Raises ValueError if a trained head would be lost.
    """
    have, want = (len(tree['encoder']['embedding']) for tree in (params, shapes))
    same = old.fingerprint == new.fingerprint and have == want
    rows_V = np.arange(want) if same else token_rows(old, new, have, want)
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
        params['encoder'] = _with_scan(params['encoder'], 'layers' in shapes['encoder'])
        return states.with_head(params, shapes) if head == 'keep' else params

    scores = 'the head of the start'
    if head == 'new':
        kernel = 'with a kernel of its own' if is_untied else 'tied to the embedding'
        scores = f'a new head, {kernel}'
    elif is_untied and not was_untied:
        scores = 'a kernel of its own, which starts as the embedding'
    return make, [
        f'tokens    {want:,} rows, {int((rows_V < 0).sum()):,} of them new, at the mean '
        'of all',
        f'head      {scores}',
    ]


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
    if np.array_equal(rows_V, np.arange(len(encoder['embedding']))):
        return params
    encoder['embedding'] = pick(encoder['embedding'], 0)
    if 'output' in head:
        head['output'] = {'kernel': pick(head['output']['kernel'], 1)}
    if 'bias' in head:
        head['bias'] = pick(head['bias'], 0)
    return {**params, 'encoder': encoder} | ({'lm_head': head} if head else {})


def _with_scan(encoder, scan):
    if scan == ('layers' in encoder):
        return encoder
    convert = transformer.stack_layers if scan else transformer.unstack_layers
    return convert(encoder)


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
