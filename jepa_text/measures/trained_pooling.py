"""Trained pooling: learns an attention query, or a weight per position, for one task.

The pooling is trained together with a linear classifier on the pooled vectors, only on
the training split of a probe. The classifier is then discarded, the texts of all splits
are pooled with the result, and a new probe is fitted. Training starts from zeros, which
give the mean.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jepa_text.models import pooling

_BATCH = 64


def _attention(query_D, hidden_BLD, valid_BL):
    return pooling.attention(hidden_BLD, valid_BL, query_D)


def _positions(logit_L, hidden_BLD, valid_BL):
    return pooling.weighted(hidden_BLD, valid_BL, pooling.learned(logit_L, valid_BL))


def train(name, hidden_NLD, valid_NL, labels_N, *, steps=300, rate=0.03, seed=0):
    """Returns query_D of 'attention' or logit_L of 'weighted' (`pooling.learned`).

    The result is float32. Labels are 0, 1, ... Hidden states may be float16 and are
    converted one batch at a time. Raises ValueError for shapes that do not match and for
    a single class.

    >>> hidden_NLD = np.zeros((4, 2, 3), np.float32)
    >>> examples = hidden_NLD, np.ones((4, 2), bool), [0, 1, 0, 1]
    >>> [train(name, *examples, steps=1).shape for name in ('attention', 'weighted')]
    [(3,), (2,)]
    """
    hidden_NLD, valid_NL, labels_N = _checked(hidden_NLD, valid_NL, labels_N)
    _, length, width = hidden_NLD.shape
    sizes = {'attention': (_attention, width), 'weighted': (_positions, length)}
    pool, size = sizes[name]
    # One scale for all coordinates, so that `rate` means the same for all models.
    sample = hidden_NLD[:256][valid_NL[:256]].astype(np.float32)
    center_D, scale = sample.mean(axis=0), max(float(sample.std(axis=0).mean()), 1e-12)
    classes = int(labels_N.max()) + 1
    params = {
        'pool': jnp.zeros(size),
        'kernel': jnp.zeros((width, classes)),
        'bias': jnp.zeros(classes),
    }
    tx = _optimizer(rate, steps)
    rng, state = np.random.default_rng(seed), tx.init(params)
    for _ in range(steps):
        chosen_B = rng.integers(len(labels_N), size=_BATCH)
        batch = hidden_NLD[chosen_B], valid_NL[chosen_B], labels_N[chosen_B]
        params, state = _step(pool, rate, steps, params, state, center_D, scale, *batch)
    # Rescaled to a query for raw hidden states; the center shifts all scores equally.
    return np.asarray(params['pool']) / (scale if name == 'attention' else 1)


def _optimizer(rate, steps):
    return optax.adamw(
        optax.cosine_decay_schedule(rate, max(steps, 1)), weight_decay=1e-3
    )


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _step(
    pool, rate, steps, params, state, center_D, scale, hidden_BLD, valid_BL, labels_B
):
    """One training step, compiled once per shape and shared by all models."""

    def loss(params):
        hidden = (hidden_BLD.astype(jnp.float32) - center_D[None, None]) / scale
        pooled_BD = pool(params['pool'], hidden, valid_BL)
        logits_BC = pooled_BD @ params['kernel'] + params['bias'][None]
        return optax.softmax_cross_entropy_with_integer_labels(logits_BC, labels_B).mean()

    updates, state = _optimizer(rate, steps).update(jax.grad(loss)(params), state, params)
    return optax.apply_updates(params, updates), state


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
