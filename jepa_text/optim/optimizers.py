"""Optimizers, built from config sections as optax gradient transformations.

    make                  the optimizer of a config section
    adamw                 AdamW for all leaves
    muon                  Muon for hidden matrices, AdamW for embedding, head and vectors
    sgd                   SGD for all leaves, optionally with momentum

The learning rate is applied in step.py as a function of the global step, so that it means
the same in each phase. An update is that of a learning rate of 1, added to the parameters
as in `optax.apply_updates`. For a rate, `optax.chain(make(section), optax.scale(rate))`.
"""

import functools
import operator
import re

import jax
import jax.numpy as jnp
import optax

from jepa_text.config import ranges, resolve
from jepa_text.optim import adam, multipliers
from jepa_text.optim.leaves import mask, no_balance, path_name

# Matrices of layers and predictors, between hidden states: not the head's.
HIDDEN = r'^(encoder|predictor)/.*kernel$'
# Not float16, in which the moments of small gradients are zero.
DTYPES = ('float32', 'bfloat16')


def adamw(
    b1=0.9,
    b2=0.95,
    eps=1e-8,
    weight_decay=0.1,
    decay_paths=r'(kernel|embedding)$',
    balance_lr_multiplier=1.0,
    momentum_dtype='float32',
):
    """AdamW (arXiv 1711.05101) without its learning rate.

    Weight decay applies to the leaves that match `decay_paths`, but never to the learned
    weight of two losses, whose updates are multiplied by `balance_lr_multiplier`. The
    first moment is stored in `momentum_dtype`, the second in the parameter's dtype. Both
    are corrected for the age of each leaf (adam.py). Raises ValueError for bad options.

    >>> params = {'up': {'kernel': jnp.full((1, 1), 2.0)}}
    >>> optimizer = adamw(weight_decay=0.25)
    >>> updates, _ = optimizer.update(params, optimizer.init(params), params)
    >>> print(updates['up']['kernel'].round(2))
    [[-1.5]]
    """
    for name, beta in (('b1', b1), ('b2', b2)):
        ranges.number(f'optimizer: {name}', beta, minimum=0, below=1)
    ranges.number('optimizer: eps', eps, above=0)
    ranges.number('optimizer: balance_lr_multiplier', balance_lr_multiplier, minimum=0)
    ranges.number('optimizer: weight_decay', weight_decay, minimum=0)
    ranges.pattern('optimizer: decay_paths', decay_paths)
    resolve.check_choice('optimizer: momentum_dtype', str(momentum_dtype), DTYPES)
    return _descent(
        adam.scale_by_adam(b1, b2, eps, mu_dtype=jnp.dtype(momentum_dtype)),
        optax.add_decayed_weights(
            weight_decay, mask=lambda params: mask(params, no_balance(decay_paths))
        ),
        optax.masked(
            optax.scale(balance_lr_multiplier),
            mask=lambda params: mask(params, r'^balance/'),
        ),
    )


def muon(
    momentum=0.95,
    paths=HIDDEN,
    weight_decay=0.1,
    decay_paths=r'(kernel|embedding)$',
    momentum_dtype='float32',
    ns_steps=5,
    ns_lower=None,
    **rest,
):
    """Muon for the matrices whose path matches `paths`, and `adamw` for all other leaves.

    The update, for a matrix [..., I, O] and for each of a stack of matrices, is

        -0.2 sqrt(max(I, O)) orthogonal(nesterov momentum) - weight_decay * parameter

    Momentum and iteration are Jordan's (kellerjordan.github.io/posts/muon, 2024). The
    factor gives updates the root mean square of AdamW's, about 0.2, so that one learning
    rate and one decay serve both (arXiv 2502.16982, section 2.2). The iteration has
    `ns_steps` steps with Jordan's coefficients; or, with `ns_lower`, those of
    muon.minimax, which need fewer steps for singular values of at least this share of the
    norm: 3 with 0.01. Momentum is stored in `momentum_dtype`, also in AdamW; `rest` are
    other keywords of `adamw`. Raises ValueError for bad options and, at init, if `paths`
    matches no leaf or a vector.

    >>> params = {'encoder': {'kernel': 9 * jnp.eye(4), 'scale': jnp.ones(4)}}
    >>> optimizer = muon(weight_decay=0.0)
    >>> updates, _ = optimizer.update(params, optimizer.init(params), params)
    >>> print(jnp.diag(updates['encoder']['kernel']).round(2))
    [-0.31 -0.31 -0.31 -0.31]
    >>> print(updates['encoder']['scale'].round(4))
    [-1. -1. -1. -1.]
    """
    from jepa_text.optim import newton_schulz

    ranges.number('optimizer: momentum', momentum, minimum=0, below=1)
    ranges.pattern('optimizer: paths', paths)
    table = _coefficients(ns_steps, ns_lower)
    orthogonalize = functools.partial(newton_schulz.like_adamw, coefficients=table)
    others = resolve.call(
        "optimizer 'muon'",
        adamw,
        dict(
            weight_decay=weight_decay,
            decay_paths=decay_paths,
            momentum_dtype=momentum_dtype,
            **rest,
        ),
    )
    matrices = _descent(
        newton_schulz.nesterov(momentum, jnp.dtype(momentum_dtype)),
        optax.stateless(lambda updates, _: jax.tree.map(orthogonalize, updates)),
        optax.add_decayed_weights(
            weight_decay, mask=lambda params: mask(params, decay_paths)
        ),
    )
    return optax.partition(
        {'muon': matrices, 'adamw': others}, lambda params: _labels(params, paths)
    )


def _coefficients(ns_steps, ns_lower):
    from jepa_text.optim import newton_schulz

    ranges.number('optimizer: ns_steps', ns_steps, whole=True, minimum=1)
    if ns_lower is None:
        return (newton_schulz.JORDAN,) * ns_steps
    ranges.number('optimizer: ns_lower', ns_lower, above=0, below=1)
    return newton_schulz.minimax(ns_steps, ns_lower)


def sgd(momentum=0.0):
    """Plain gradient descent, optionally with momentum, for tests and comparisons.

    >>> grads, optimizer = {'x': 3.0}, sgd()
    >>> optimizer.update(grads, optimizer.init(grads))[0]
    {'x': -3.0}
    """
    ranges.number('optimizer: momentum', momentum, minimum=0, below=1)
    return _descent(optax.trace(momentum) if momentum else optax.identity())


def _descent(*steps):
    """Returns the chain of transformations, with negated updates and the same state."""
    # optax.scale(-1) would add a state, and so change the format of checkpoints.
    chain = optax.chain(*steps) if steps[1:] else steps[0]

    def update(grads, state, params=None):
        updates, state = chain.update(grads, state, params)
        return jax.tree.map(operator.neg, updates), state

    return optax.GradientTransformation(chain.init, update)


OPTIMIZERS = {'adamw': adamw, 'muon': muon, 'sgd': sgd}


def make(section):
    """Returns the optimizer of a config section as an optax.GradientTransformation.

    `name` selects the optimizer, and the other fields are its keywords. Each optimizer
    also takes `lr_multipliers`: pairs of a pattern and a factor, as in
    optim/multipliers.py. Raises ValueError for an unknown name or keyword.

    >>> optimizer = make({'name': 'adamw', 'weight_decay': 0.1, 'b2': 0.98})
    """
    keywords = dict(section)
    name = keywords.pop('name', None)
    factors = multipliers.pairs(keywords.pop('lr_multipliers', ()))
    if not isinstance(name, str) or name not in OPTIMIZERS:
        known = ', '.join(OPTIMIZERS)
        raise ValueError(f'optimizer {name!r} does not exist; there are: {known}.')
    optimizer = resolve.call(f'optimizer {name!r}', OPTIMIZERS[name], keywords)
    return multipliers.with_lr_multipliers(optimizer, factors) if factors else optimizer


def _labels(params, pattern):
    """Returns a tree with 'muon' or 'adamw' for each leaf."""
    chosen = mask(params, pattern)
    vectors = [
        name
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
        # The first axis of scanned layers is their number.
        if leaf.ndim - ('/layers/' in (name := path_name(path))) < 2
        and re.search(pattern, name)
    ]
    if vectors or not any(jax.tree.leaves(chosen)):
        problem = f'{vectors[0]!r}, which is not a matrix' if vectors else 'no parameter'
        raise ValueError(
            f'optimizer muon: paths={pattern!r} matches {problem}. It must match the '
            f'paths of hidden matrices and nothing else; the default is {HIDDEN!r}.'
        )
    return jax.tree.map(lambda is_in: 'muon' if is_in else 'adamw', chosen)
