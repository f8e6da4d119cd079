"""Pooling that is trained: a query, or a weight for every position, for one task.

Both are trained together with a linear classifier on the pooled vectors, on the training
split of a probe and on nothing else; then the classifier is thrown away, the texts of all
splits are pooled anew, and probed. The zeros that training starts from are the mean.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jepa_text.models import pooling

_BATCH = 64


def train_query(hidden_NLD, valid_NL, labels_N, *, steps=300, rate=0.03, seed=0):
    """query_D for `pooling.attention`, float32.

    The labels are 0, 1, ...; hidden states may be float16, and are copied a batch at a
    time. Raises ValueError for shapes that do not match and for a single class.

    >>> hidden_NLD = np.zeros((4, 2, 3), np.float32)
    >>> train_query(hidden_NLD, np.ones((4, 2), bool), [0, 1, 0, 1], steps=1).shape
    (3,)
    """

    def pool(query_D, hidden_BLD, valid_BL):
        return pooling.attention(hidden_BLD, valid_BL, query_D)

    start_D = jnp.zeros(hidden_NLD.shape[2])
    examples = _checked(hidden_NLD, valid_NL, labels_N)
    query_D, scale = _train(pool, start_D, examples, steps, rate, seed)
    # For hidden states as they are; what was subtracted shifts all scores alike.
    return query_D / scale


def train_positions(hidden_NLD, valid_NL, labels_N, *, steps=300, rate=0.03, seed=0):
    """logit_L for `pooling.learned`, float32; arguments as of `train_query`.

    >>> hidden_NLD = np.zeros((4, 2, 3), np.float32)
    >>> train_positions(hidden_NLD, np.ones((4, 2), bool), [0, 1, 0, 1], steps=1).shape
    (2,)
    """

    def pool(logit_L, hidden_BLD, valid_BL):
        return pooling.weighted(hidden_BLD, valid_BL, pooling.learned(logit_L, valid_BL))

    start_L = jnp.zeros(hidden_NLD.shape[1])
    examples = _checked(hidden_NLD, valid_NL, labels_N)
    return _train(pool, start_L, examples, steps, rate, seed)[0]


def _train(pool, start, examples, steps, rate, seed):
    hidden_NLD, valid_NL, labels_N = examples
    # One scale for all coordinates, so that `rate` means the same for every model.
    sample = hidden_NLD[:256][valid_NL[:256]].astype(np.float32)
    centre_D, scale = sample.mean(axis=0), max(float(sample.std(axis=0).mean()), 1e-12)
    params = {
        'pool': start,
        'kernel': jnp.zeros((hidden_NLD.shape[2], int(labels_N.max()) + 1)),
        'bias': jnp.zeros(int(labels_N.max()) + 1),
    }
    tx = optax.adamw(optax.cosine_decay_schedule(rate, max(steps, 1)), weight_decay=1e-3)

    @jax.jit
    def step(params, state, hidden_BLD, valid_BL, labels_B):
        def loss(params):
            hidden = (hidden_BLD.astype(jnp.float32) - centre_D[None, None]) / scale
            pooled_BD = pool(params['pool'], hidden, valid_BL)
            logits_BC = pooled_BD @ params['kernel'] + params['bias'][None]
            return optax.softmax_cross_entropy_with_integer_labels(
                logits_BC, labels_B
            ).mean()

        updates, state = tx.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    rng, state = np.random.default_rng(seed), tx.init(params)
    for _ in range(steps):
        chosen_B = rng.integers(len(labels_N), size=_BATCH)
        params, state = step(
            params, state, hidden_NLD[chosen_B], valid_NL[chosen_B], labels_N[chosen_B]
        )
    return np.asarray(params['pool']), scale


def _checked(hidden_NLD, valid_NL, labels_N):
    labels_N, valid_NL = np.asarray(labels_N, np.int32), np.asarray(valid_NL, bool)
    shapes = hidden_NLD.shape, valid_NL.shape, labels_N.shape
    if (
        hidden_NLD.ndim != 3
        or valid_NL.shape != hidden_NLD.shape[:2]
        or labels_N.shape != hidden_NLD.shape[:1]
    ):
        raise ValueError(
            'Trained pooling needs hidden states [N, L, D], a mask [N, L] and N labels, '
            f'but the shapes are {shapes[0]}, {shapes[1]} and {shapes[2]}.'
        )
    if not valid_NL[:256].any():
        raise ValueError('Trained pooling: the mask of the first texts is all False.')
    if labels_N.min(initial=0) < 0 or labels_N.max(initial=0) < 1:
        raise ValueError(
            'Trained pooling needs labels 0, 1, ... of at least two classes, but they '
            f'are {labels_N.min(initial=0)} to {labels_N.max(initial=0)}.'
        )
    return hidden_NLD, valid_NL, labels_N
