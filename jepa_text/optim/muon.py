"""Muon for hidden matrices, AdamW for embedding, head and vectors.

Momentum, then orthogonalization by Newton-Schulz:

    orthogonal   moves singular values close to 1
    minimax      the coefficients of this iteration that are best for few steps
    like_adamw   orthogonal, scaled to the root mean square of AdamW's updates
    nesterov     Nesterov momentum, stored in any dtype

After Jordan (kellerjordan.github.io/posts/muon, 2024). optax.contrib's version is not
used because its vmap gives stacked layers other bits than single layers (differences of
1e-6).
"""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jepa_text.optim import adam
from jepa_text.parallel import leaves
from jepa_text.settings import ranges

# Matrices of layers and predictors, between hidden states: not the head's.
HIDDEN = r'^(encoder|predictor)/.*kernel$'
JORDAN = (3.4445, -4.7750, 2.0315)
# The limit of minimax for an interval around 1, which rounding would hide.
_NEAR, _LIMIT = 1e-3, (15 / 8, -10 / 8, 3 / 8)


def muon(
    momentum=0.95,
    paths=HIDDEN,
    weight_decay=0.1,
    decay_paths=r'(kernel|embedding)$',
    momentum_dtype: adam.Dtype = 'float32',
    ns_steps=5,
    ns_lower=None,
    b1=0.9,
    b2=0.95,
    eps=1e-8,
    balance_lr_multiplier=1.0,
):
    """Muon for the matrices whose path matches `paths`, and `adamw` for all other leaves.

    The update, for a matrix [..., I, O] and for each of a stack of matrices, is

        -0.2 sqrt(max(I, O)) orthogonal(nesterov momentum) - weight_decay * parameter

    Momentum and iteration are Jordan's (kellerjordan.github.io/posts/muon, 2024). The
    factor gives updates the root mean square of AdamW's, about 0.2, so that one learning
    rate and one decay serve both (arXiv 2502.16982, section 2.2). The iteration has
    `ns_steps` steps with Jordan's coefficients; or, with `ns_lower`, those of
    minimax, which need fewer steps for singular values of at least this share of the
    norm: 3 with 0.01. Momentum is stored in `momentum_dtype`, also in AdamW, whose
    keywords are the others. Raises ValueError for bad options and, at init, if `paths`
    matches no leaf or a vector.

    >>> params = {'encoder': {'kernel': 9 * jnp.eye(4), 'scale': jnp.ones(4)}}
    >>> optimizer = muon(weight_decay=0.0)
    >>> updates, _ = optimizer.update(params, optimizer.init(params), params)
    >>> print(jnp.diag(updates['encoder']['kernel']).round(2))
    [-0.31 -0.31 -0.31 -0.31]
    >>> print(updates['encoder']['scale'].round(4))
    [-1. -1. -1. -1.]
    """
    ranges.number('optimizer: momentum', momentum, minimum=0, below=1)
    ranges.pattern('optimizer: paths', paths)
    ranges.number('optimizer: ns_steps', ns_steps, whole=True, minimum=1)
    table = (JORDAN,) * ns_steps
    if ns_lower is not None:
        ranges.number('optimizer: ns_lower', ns_lower, above=0, below=1)
        table = minimax(ns_steps, ns_lower)
    orthogonalize = functools.partial(like_adamw, coefficients=table)
    of_both = weight_decay, decay_paths, balance_lr_multiplier, momentum_dtype
    others = adam.adamw(b1, b2, eps, *of_both)
    matrices = adam.descent(
        nesterov(momentum, jnp.dtype(momentum_dtype)),
        optax.stateless(lambda updates, _: jax.tree.map(orthogonalize, updates)),
        optax.add_decayed_weights(
            weight_decay, mask=lambda params: adam.mask(params, decay_paths)
        ),
    )
    return optax.partition(
        {'muon': matrices, 'adamw': others}, lambda params: _labels(params, paths)
    )


def _labels(params, pattern):
    """Returns a tree with 'muon' or 'adamw' for each leaf."""
    chosen = adam.mask(params, pattern)
    vectors = [
        name
        for name, leaf in leaves.by_name(params).items()
        # The first axis of scanned layers is their number.
        if leaf.ndim - ('/layers/' in name) < 2 and re.search(pattern, name)
    ]
    if vectors or not any(jax.tree.leaves(chosen)):
        problem = f'{vectors[0]!r}, which is not a matrix' if vectors else 'no parameter'
        raise ValueError(
            f'optimizer muon: paths={pattern!r} matches {problem}. It must match the '
            f'paths of hidden matrices and nothing else; the default is {HIDDEN!r}.'
        )
    return jax.tree.map(lambda is_in: 'muon' if is_in else 'adamw', chosen)


def orthogonal(x_XIO, coefficients=(JORDAN,) * 5):
    """Returns approximately U V^T of x = U S V^T for each matrix [I, O] of `x_XIO`.

    Newton-Schulz iteration: x / |x|, then for each (a, b, c) of the `coefficients` a x +
    (b A + c A^2) x with A = x x^T. Jordan's are steep at 0: after 5 steps, singular
    values that were at least 0.002 |x| lie between 0.68 and 1.21. Float32; 0 stays 0.

    >>> x_IO = jnp.array([[3.0, 0.0, 0.0], [0.0, 0.0, 0.5]])
    >>> print(jnp.linalg.svdvals(orthogonal(x_IO)).round(1))
    [1.  0.7]
    """
    table_TK = jnp.array(coefficients, jnp.float32)
    is_tall = x_XIO.shape[-2] > x_XIO.shape[-1]

    def iterate(step, x_IO):
        a, b, c = table_TK[step]
        # The Gram matrix of the shorter side is smaller.
        gram = x_IO.T @ x_IO if is_tall else x_IO @ x_IO.T
        power = b * gram + c * (gram @ gram)
        return a * x_IO + (x_IO @ power if is_tall else power @ x_IO)

    def orthogonalize(x_IO):
        unit_IO = x_IO / jnp.maximum(jnp.linalg.norm(x_IO), 1e-7)
        return jax.lax.fori_loop(0, len(coefficients), iterate, unit_IO)

    # One matrix after the other, so that stacked layers give the bits of single ones.
    x_NIO = x_XIO.astype(jnp.float32).reshape(-1, *x_XIO.shape[-2:])
    return jax.lax.map(orthogonalize, x_NIO).reshape(x_XIO.shape)


def minimax(steps, lower):
    """Returns the `steps` triples (a, b, c) that bring [lower, 1] closest to 1.

    Each p(s) = a s + b s^3 + c s^5 has the smallest max |1 - p(s)| on the interval that
    the previous ones leave, which is optimal for all together (Polar Express, arXiv
    2505.16932, theorem 3.1). After 3 steps with lower=0.01, singular values of 0.01 to 1
    lie within 0.27 of 1; after 3 steps with Jordan's coefficients, within 0.60.

    >>> [tuple(round(x, 2) for x in triple) for triple in minimax(2, lower=0.1)]
    [(5.6, -13.88, 9.73), (2.13, -1.51, 0.4)]
    """
    upper, triples = 1.0, []
    for _ in range(steps):
        triple, error = _closest(lower, upper)
        triples.append(triple)
        lower, upper = 1 - error, 1 + error
    return tuple(triples)


def _closest(lower, upper):
    """Returns ((a, b, c), max |1 - p(s)|) of the best p on an interval, by Remez."""
    if upper - lower < _NEAR:
        return _LIMIT, 0.0
    points = np.linspace(lower, upper, 4)
    signs = (-1.0) ** np.arange(4)
    for _ in range(50):
        # p deviates from 1 by the same amount at four points, up and down in turn.
        powers = np.stack([points, points**3, points**5, signs], axis=1)
        a, b, c, error = np.linalg.solve(powers, np.ones(4))
        # Two of the points are the ends; at the others, the derivative is 0.
        squares = np.roots([5 * c, 3 * b, a])
        new = np.array([lower, *np.sort(np.sqrt(squares)), upper])
        if np.allclose(new, points, rtol=1e-9, atol=0):
            break
        points = new
    return (float(a), float(b), float(c)), abs(float(error))


def like_adamw(x_XIO, coefficients=(JORDAN,) * 5):
    """Returns 0.2 sqrt(max(I, O)) orthogonal(x), whose root mean square is AdamW's, 0.2.

    >>> print(jnp.mean(like_adamw(jnp.eye(16)) ** 2).round(2))
    0.02
    """
    return 0.2 * max(x_XIO.shape[-2:]) ** 0.5 * orthogonal(x_XIO, coefficients)


def nesterov(decay, dtype):
    """Nesterov momentum: (1 - decay) g + decay m, with m <- (1 - decay) g + decay m.

    m is stored in `dtype`. There is no bias correction for the age of a leaf, because
    `orthogonal` does not depend on the scale of its input.

    >>> optimizer = nesterov(0.5, jnp.float32)
    >>> print(optimizer.update(jnp.ones(1), optimizer.init(jnp.ones(1)))[0])
    [0.75]
    """

    def init(params):
        return optax.TraceState(trace=optax.tree.zeros_like(params, dtype=dtype))

    def update(grads, state, params=None):
        mean = optax.tree.update_moment(grads, state.trace, decay, 1)
        lookahead = optax.tree.update_moment(grads, mean, decay, 1)
        return lookahead, optax.TraceState(trace=optax.tree.cast(mean, dtype))

    return optax.GradientTransformation(init, update)
