"""Small programs that represent training, each in jax and in numpy, for self_test.py."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A computation of training in two implementations.

    computed(**arrays) by jax and expected(**arrays) in float64 by numpy each return an
    array or several; `allowed` is the largest difference, as a share of the largest
    value.
    """

    name: str
    arrays: dict
    computed: Callable
    expected: Callable
    allowed: float = 1e-4
    jitted: bool = True


@functools.cache
def patterns():
    """All Patterns; those with gradients differentiate the output times `out`."""
    rng = np.random.default_rng(0)

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    return (*_sums(normal), *_layers(normal, rng), *_tables(normal, rng))


def _same(name, arrays, function, **options):
    """A Pattern of function(jax.numpy or numpy, **arrays)."""
    by = (functools.partial(function, module) for module in (jnp, np))
    return Pattern(name, arrays, *by, **options)


def _sums(normal):
    count = np.arange(32_769, dtype=np.float32)
    points = np.stack([count, 0 * count, 0 * count], 1)
    return (
        _same(
            'matrix product times its operand, summed',
            {'x': normal(5, 60, 60)},
            lambda np, x: np.sum((x @ np.ones_like(x)) * x, (1, 2)),
        ),
        Pattern(
            'squared matrix-vector products, summed per row',
            {'x': points, 'w': np.eye(3, dtype=np.float32)},
            lambda x, w: jax.vmap(lambda row: jnp.sum((w @ row) ** 2))(x),
            lambda x, w: np.sum((x @ w.T) ** 2, 1),
        ),
        _same(
            'matrix product and squared norms of its rows',
            {'x': normal(96, 64), 'y': normal(64, 80)},
            lambda np, x, y: (x @ y, np.sum((x @ y) ** 2, -1)),
        ),
        Pattern(
            'covariance',
            {'x': normal(200, 48) + 3},
            lambda x: (x - x.mean(0)).T @ (x - x.mean(0)) / (len(x) - 1),
            lambda x: np.cov(x.T),
        ),
        _same(
            'mean of a Gaussian kernel',
            {'x': normal(64, 24)},
            lambda np, x: np.mean(
                np.exp(-0.1 * np.sum((x[:, None] - x[None]) ** 2, -1)), 1
            ),
        ),
    )


def _layers(normal, rng):
    heads = {name: normal(3, 48, 16) for name in ('q', 'k', 'v', 'out')}
    rows = {'x': normal(48, 64), 'out': normal(48, 64)}
    head = {'x': normal(48, 32), 'w': normal(32, 200)}
    return (
        Pattern(
            'matrix product in bfloat16',
            {'x': normal(64, 256), 'y': normal(256, 64)},
            lambda x, y: jnp.matmul(
                x.astype(jnp.bfloat16),
                y.astype(jnp.bfloat16),
                preferred_element_type=jnp.float32,
            ),
            lambda x, y: x @ y,
            allowed=0.02,
        ),
        Pattern(
            'attention within documents, with gradients',
            {**heads, 'documents': np.repeat(np.arange(4), 12)},
            _attention,
            _attention_expected,
        ),
        Pattern(
            'layer norm, with gradient',
            rows,
            lambda x, out: _with_gradients(_layer_norm, out, x),
            _layer_norm_expected,
        ),
        Pattern(
            'cross-entropy, with gradients',
            {**head, 'labels': rng.integers(0, 200, 48)},
            _cross_entropy,
            _cross_entropy_expected,
        ),
    )


def _tables(normal, rng):
    return (
        _same(
            'masked means',
            {'x': normal(8, 40, 64), 'mask': rng.random((8, 40)) < 0.5},
            lambda np, x, mask: (
                np.sum(x * mask[..., None], 1) / np.sum(mask, 1, keepdims=True)
            ),
        ),
        Pattern(
            'embedding lookup, with gradient',
            {'x': normal(40, 64), 'ids': rng.integers(0, 40, 48), 'out': normal(48, 64)},
            lambda x, ids, out: _with_gradients(lambda t: t[ids], out, x),
            lambda x, ids, out: (x[ids], np.eye(40)[ids].T @ out),
        ),
        Pattern(
            'segment sums',
            {'x': normal(48, 64), 'ids': np.repeat(np.arange(4), 12)},
            lambda x, ids: jax.ops.segment_sum(x, ids, 4),
            lambda x, ids: np.eye(4)[ids].T @ x,
        ),
        _same('cumulative sums', {'x': normal(16, 300)}, lambda np, x: np.cumsum(x, 1)),
        _same(
            'operations without jit',
            {'x': np.square(normal(16, 32)), 'y': normal(16, 32)},
            lambda np, x, y: np.sum(np.sqrt(x) * y + 1, 1),
            jitted=False,
        ),
    )


def _with_gradients(function, out, *arrays):
    """The output, and the gradients of the arrays, given the output's gradient `out`."""
    output, backward = jax.vjp(function, *arrays)
    return output, *backward(out)


def _attention(q, k, v, out, documents):
    same = documents[:, None] == documents[None]

    def attend(q, k, v):
        scores = jnp.einsum('HQK,HSK->HQS', q, k) / 4
        weights = jax.nn.softmax(jnp.where(same, scores, -1e30), -1)
        return jnp.einsum('HQS,HSK->HQK', weights, v)

    return _with_gradients(attend, out, q, k, v)


def _attention_expected(q, k, v, out, documents):
    same = documents[:, None] == documents[None]
    scores = np.einsum('HQK,HSK->HQS', q, k) / 4
    weights = np.where(same, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    weights /= weights.sum(-1, keepdims=True)
    attended = np.einsum('HQS,HSK->HQK', weights, v)
    back = np.einsum('HQK,HSK->HQS', out, v)
    back = weights * (back - np.sum(back * weights, -1, keepdims=True)) / 4
    return (
        attended,
        np.einsum('HQS,HSK->HQK', back, k),
        np.einsum('HQS,HQK->HSK', back, q),
        np.einsum('HQS,HQK->HSK', weights, out),
    )


def _layer_norm(x):
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt(jnp.mean(centered**2, -1, keepdims=True))


def _layer_norm_expected(x, out):
    deviation = x.std(-1, keepdims=True)
    normed = (x - x.mean(-1, keepdims=True)) / deviation
    along = np.mean(out * normed, -1, keepdims=True)
    return normed, (out - out.mean(-1, keepdims=True) - normed * along) / deviation


def _cross_entropy(x, w, labels):
    def loss(x, w):
        logits = x @ w
        own = jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(logits, -1) - own)

    value, gradients = jax.value_and_grad(loss, (0, 1))(x, w)
    return value, *gradients


def _cross_entropy_expected(x, w, labels):
    logits = x @ w
    total = np.sum(np.exp(logits), -1, keepdims=True)
    hit = np.eye(w.shape[1])[labels]
    error = (np.exp(logits) / total - hit) / len(x)
    return np.mean(np.log(total) - logits[hit == 1][:, None]), error @ w.T, x.T @ error
