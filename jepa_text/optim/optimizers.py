"""Optimizers, built from config sections as optax gradient transformations.

    make                  the optimizer of a config section
    adamw                 AdamW for all leaves
    muon                  Muon for hidden matrices, AdamW for embedding, head and vectors
    sgd                   SGD for all leaves, optionally with momentum
    with_lr_multipliers   scales the updates of some leaves and layers, by 0 to freeze
    check_lr_multipliers  checks that each pattern matches some parameter
    no_balance            excludes the learned weight of two losses from a pattern
    path_name, mask       the name of a leaf's path, and selection of leaves by name

The learning rate is applied in step.py as a function of the global step, so that it means
the same in each phase. An update is what is subtracted at a learning rate of 1.
"""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jepa_text.config import ranges, resolve
from jepa_text.optim import adam
from jepa_text.optim import muon as steps

# Matrices of layers and predictors, between hidden states: not the head's.
HIDDEN = r'^(encoder|predictor)/.*kernel$'
DTYPES = ('float32', 'bfloat16', 'float16')


def path_name(path):
    """Returns the path of a leaf as a name such as 'encoder/layers/ffn/up/kernel'.

    >>> tree = {'encoder': {'norm': {'scale': 1.0}}}
    >>> [path_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    ['encoder/norm/scale']
    """
    return jax.tree_util.keystr(path, simple=True, separator='/')


def mask(params, pattern):
    """Returns a tree of bools: whether `re.search` finds `pattern` in each leaf's name.

    Leaves are selected by path and never by ndim, because scanned layers stack norm
    scales to matrices.

    >>> mask({'ffn': {'kernel': 1.0}, 'norm': {'scale': 1.0}}, 'kernel$')
    {'ffn': {'kernel': True}, 'norm': {'scale': False}}
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, _: re.search(pattern, path_name(path)) is not None, params
    )


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
    [[1.5]]
    """
    for name, beta in (('b1', b1), ('b2', b2)):
        ranges.number(f'optimizer: {name}', beta, minimum=0, below=1)
    ranges.number('optimizer: eps', eps, above=0)
    ranges.number('optimizer: balance_lr_multiplier', balance_lr_multiplier, minimum=0)
    ranges.number('optimizer: weight_decay', weight_decay, minimum=0)
    ranges.pattern('optimizer: decay_paths', decay_paths)
    resolve.check_choice('optimizer: momentum_dtype', str(momentum_dtype), DTYPES)
    return optax.chain(
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
    **rest,
):
    """Muon for the matrices whose path matches `paths`, and `adamw` for all other leaves.

    The update, for a matrix [..., I, O] and for each of a stack of matrices, is

        0.2 sqrt(max(I, O)) orthogonal(nesterov momentum) + weight_decay * parameter

    Momentum and iteration are Jordan's (kellerjordan.github.io/posts/muon, 2024). The
    factor gives updates the root mean square of AdamW's, about 0.2, so that one learning
    rate and one decay serve both (arXiv 2502.16982, section 2.2). Momentum is stored in
    `momentum_dtype`, also in AdamW; `rest` are other keywords of `adamw`. Raises
    ValueError for bad options and, at init, if `paths` matches no leaf or a vector.

    >>> params = {'encoder': {'kernel': 9 * jnp.eye(4), 'scale': jnp.ones(4)}}
    >>> optimizer = muon(weight_decay=0.0)
    >>> updates, _ = optimizer.update(params, optimizer.init(params), params)
    >>> print(jnp.diag(updates['encoder']['kernel']).round(2))
    [0.31 0.31 0.31 0.31]
    >>> print(updates['encoder']['scale'].round(4))
    [1. 1. 1. 1.]
    """
    ranges.number('optimizer: momentum', momentum, minimum=0, below=1)
    ranges.pattern('optimizer: paths', paths)
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
    matrices = optax.chain(
        steps.nesterov(momentum, jnp.dtype(momentum_dtype)),
        optax.stateless(lambda updates, _: jax.tree.map(steps.like_adamw, updates)),
        optax.add_decayed_weights(
            weight_decay, mask=lambda params: mask(params, decay_paths)
        ),
    )
    return optax.partition(
        {'muon': matrices, 'adamw': others}, lambda params: _labels(params, paths)
    )


def sgd(momentum=0.0):
    """Plain gradient descent, optionally with momentum, for tests and comparisons.

    >>> grads, optimizer = {'x': 3.0}, sgd()
    >>> optimizer.update(grads, optimizer.init(grads))[0]
    {'x': 3.0}
    """
    ranges.number('optimizer: momentum', momentum, minimum=0, below=1)
    return optax.trace(momentum) if momentum else optax.identity()


OPTIMIZERS = {'adamw': adamw, 'muon': muon, 'sgd': sgd}


def make(section):
    """Returns the optimizer of a config section as an optax.GradientTransformation.

    `name` selects the optimizer, and the other fields are its keywords. Each optimizer
    also takes `lr_multipliers`: pairs of a pattern and a factor, as in
    `with_lr_multipliers`. Raises ValueError for an unknown name or keyword.

    >>> optimizer = make({'name': 'adamw', 'weight_decay': 0.1, 'b2': 0.98})
    """
    keywords = dict(section)
    name = keywords.pop('name', None)
    multipliers = _pairs(keywords.pop('lr_multipliers', ()))
    if not isinstance(name, str) or name not in OPTIMIZERS:
        known = ', '.join(OPTIMIZERS)
        raise ValueError(f'optimizer {name!r} does not exist; there are: {known}.')
    optimizer = resolve.call(f'optimizer {name!r}', OPTIMIZERS[name], keywords)
    return with_lr_multipliers(optimizer, multipliers) if multipliers else optimizer


def no_balance(pattern):
    """Returns the pattern, restricted to exclude the learned weight of two losses.

    >>> [bool(re.search(no_balance('.'), name)) for name in ('encoder/a', 'balance/a')]
    [True, False]
    """
    return rf'^(?!balance/)(?=.*(?:{pattern}))'


def with_lr_multipliers(optimizer, multipliers):
    """Returns the optimizer with the updates of some leaves multiplied by a factor.

    `multipliers` is {regular expression: factor}. A leaf is multiplied by the factors of
    all expressions that `re.search` finds in its path. In these paths layers are
    numbered, whether scanned or not: 'encoder/layer_3/ffn/up/kernel'. Weight decay is
    part of an update, so a leaf with factor 0 is frozen, but its gradient still counts in
    the clipped norm. The state is that of the given optimizer.

    >>> params = {'encoder': {'norm': {'scale': 1.0}, 'embedding': 1.0}}
    >>> optimizer = with_lr_multipliers(sgd(), {'embedding$': 0.0})
    >>> updates, state = optimizer.update(params, optimizer.init(params))
    >>> jax.tree.map(float, updates)
    {'encoder': {'embedding': 0.0, 'norm': {'scale': 1.0}}}
    """

    def update(grads, state, params=None):
        updates, state = optimizer.update(grads, state, params)

        def scale(path, leaf):
            factor = _factor(path_name(path), jnp.shape(leaf), multipliers)
            return leaf if factor is None else leaf * factor

        return jax.tree_util.tree_map_with_path(scale, updates), state

    return optax.GradientTransformation(optimizer.init, update)


def _names(name, shape):
    """Returns the names of a leaf: one, or one for each layer that is stacked in it."""
    if '/layers/' not in name:
        return [name]
    return [name.replace('/layers/', f'/layer_{i}/') for i in range(shape[0])]


def _factor(name, shape, multipliers):
    """Returns a scalar, factors per layer along the first axis, or None for factor 1."""
    factors = np.array(
        [
            math.prod(f for pattern, f in multipliers.items() if re.search(pattern, leaf))
            for leaf in _names(name, shape)
        ],
        np.float32,
    )
    if (factors == 1).all():
        return None
    if (factors == factors[0]).all():
        return factors[0]
    return factors.reshape(-1, *[1] * (len(shape) - 1))


def _pairs(multipliers):
    """Returns {pattern: factor} of the `lr_multipliers` of a section, checked."""
    if isinstance(multipliers, dict):
        multipliers = list(multipliers.items())
    for pair in multipliers if isinstance(multipliers, list | tuple) else [multipliers]:
        if isinstance(pair, str) or not hasattr(pair, '__len__') or len(pair) != 2:
            raise ValueError(
                f'optimizer.lr_multipliers={multipliers!r}: expected pairs of a pattern '
                "and a factor, such as (('embedding$', 0.1), ('layer_[0-3]/', 0.0))."
            )
        pattern, factor = pair
        ranges.pattern('optimizer.lr_multipliers', pattern)
        ranges.number(f'optimizer.lr_multipliers: {pattern!r}', factor, minimum=0)
    pairs = dict(map(tuple, multipliers))
    if len(pairs) < len(multipliers):
        raise ValueError(
            f'optimizer.lr_multipliers={multipliers!r} has a pattern twice. Multiply its '
            'factors, and give them once.'
        )
    return pairs


def check_lr_multipliers(section, trees):
    """Raises ValueError if a pattern of `lr_multipliers` matches no parameter.

    `trees` are the parameters of each phase, as a phase may have modules that another
    lacks.

    >>> section = {'lr_multipliers': (('norm', 0.1),)}
    >>> check_lr_multipliers(section, [{'up': 1.0}, {'norm': {'scale': 1.0}}])
    """
    names = [
        name
        for params in trees
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
        for name in _names(path_name(path), jnp.shape(leaf))
    ]
    for pattern in _pairs(section.get('lr_multipliers', ())):
        if not any(re.search(pattern, name) for name in names):
            raise ValueError(
                f'optimizer.lr_multipliers: {pattern!r} matches no parameter. Parameter '
                f'names look like {names[0]!r} and {names[-1]!r}.'
            )


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
