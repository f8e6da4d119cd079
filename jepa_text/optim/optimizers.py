"""Optimizers, built from config sections as optax gradient transformations.

    make                    the optimizer of a config section: adamw, muon or sgd
    with_lr_multipliers     scales the updates of some leaves and layers, by 0 to freeze
    check_paths             checks that each pattern matches some parameter

The learning rate is applied in step.py as a function of the global step, so that it means
the same in each phase. An update is that of a learning rate of 1, added to the parameters
as in `optax.apply_updates`. For a rate, `optax.chain(make(section), optax.scale(rate))`.
"""

import math
import re

import jax.numpy as jnp
import numpy as np
import optax

from jepa_text.optim import adam, muon
from jepa_text.parallel import leaves
from jepa_text.settings import ranges, resolve


def sgd(momentum=0.0):
    """Plain gradient descent, optionally with momentum, for tests and comparisons.

    >>> grads, optimizer = {'x': 3.0}, sgd()
    >>> optimizer.update(grads, optimizer.init(grads))[0]
    {'x': -3.0}
    """
    ranges.number('optimizer: momentum', momentum, minimum=0, below=1)
    return adam.descent(optax.trace(momentum) if momentum else optax.identity())


OPTIMIZERS = {'adamw': adam.adamw, 'muon': muon.muon, 'sgd': sgd}


def make(section):
    """Returns the optimizer of a config section as an optax.GradientTransformation.

    `name` selects the optimizer, and the other fields are its keywords. Each optimizer
    also takes `lr_multipliers`: pairs of a pattern and a factor. Raises ValueError for an
    unknown name or keyword.

    >>> optimizer = make({'name': 'adamw', 'weight_decay': 0.1, 'b2': 0.98})
    """
    keywords = dict(section)
    name = keywords.pop('name', None)
    factors = _pairs(keywords.pop('lr_multipliers', ()))
    resolve.check_choice('optimizer', name, OPTIMIZERS)
    known = f'optimizer {name!r}', OPTIMIZERS[name], keywords
    resolve.check_keywords(*known, also=['lr_multipliers'])
    optimizer = OPTIMIZERS[name](**keywords)
    return with_lr_multipliers(optimizer, factors) if factors else optimizer


def with_lr_multipliers(optimizer, multipliers):
    """Returns the optimizer with the updates of some leaves multiplied by a factor.

    `multipliers` is {regular expression: factor}. A leaf is multiplied by the factors of
    all expressions that `re.search` finds in its path. In these paths layers are
    numbered, whether scanned or not: 'encoder/layer_3/ffn/up/kernel'. Weight decay is
    part of an update, so a leaf with factor 0 is frozen, but its gradient still counts in
    the clipped norm. The state is that of the given optimizer.

    >>> params = {'encoder': {'norm': {'scale': 1.0}, 'embedding': 1.0}}
    >>> optimizer = with_lr_multipliers(optax.identity(), {'embedding$': 0.0})
    >>> updates, state = optimizer.update(params, optimizer.init(params))
    >>> updates['encoder']['norm'], float(updates['encoder']['embedding'])
    ({'scale': 1.0}, 0.0)
    """

    def update(grads, state, params=None):
        updates, state = optimizer.update(grads, state, params)
        with_first = _with_first(leaves.by_name(updates))

        def scale(name, leaf):
            factor = _factor(name, jnp.shape(leaf), multipliers, with_first)
            return leaf if factor is None else leaf * factor

        return leaves.mapped(scale, updates), state

    return optax.GradientTransformation(optimizer.init, update)


def check_paths(section, trees):
    """Raises ValueError if `decay_paths` or a pattern of `lr_multipliers` matches no
    parameter.

    `trees` are the parameters of each phase, as a phase may have modules that another
    lacks.

    >>> section = {'lr_multipliers': (('norm', 0.1),)}
    >>> check_paths(section, [{'up': 1.0}, {'norm': {'scale': 1.0}}])
    """
    named = [pair for params in trees for pair in leaves.by_name(params).items()]
    with_first = _with_first(name for name, _ in named)
    layered = [
        x for name, leaf in named for x in _names(name, jnp.shape(leaf), with_first)
    ]
    decayed = [name for name, _ in named if adam.search_decayed('', name)]
    given = [
        ('lr_multipliers', x, layered) for x in _pairs(section.get('lr_multipliers', ()))
    ]
    if 'decay_paths' in section:
        given.append(('decay_paths', section['decay_paths'], decayed))
    for key, pattern, names in given:
        if not any(re.search(pattern, name) for name in names):
            raise ValueError(
                f'optimizer.{key}: {pattern!r} matches no parameter. Parameter names '
                f'look like {names[0]!r} and {names[-1]!r}.'
            )


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
    by_pattern = dict(map(tuple, multipliers))
    if len(by_pattern) < len(multipliers):
        raise ValueError(
            f'optimizer.lr_multipliers={multipliers!r} has a pattern twice. Multiply its '
            'factors, and give them once.'
        )
    return by_pattern


def _with_first(paths):
    """Returns the encoders in which a block `first` precedes the others."""
    return {name.partition('/first/')[0] for name in paths if '/first/' in name}


def _names(name, shape, with_first):
    """Returns the names of a leaf: one, or one for each layer that is stacked in it.

    The layers of an encoder `with_first` are numbered from `first` on, as layer 0.
    """
    found = re.fullmatch(r'(.*?)/(first|layers|layer_(\d+))/(.*)', name)
    if not found:
        return [name]
    encoder, kind, number, rest = found.groups()
    numbers = range(shape[0]) if kind == 'layers' else [int(number or -1)]
    return [f'{encoder}/layer_{i + (encoder in with_first)}/{rest}' for i in numbers]


def _factor(name, shape, multipliers, with_first):
    """Returns a scalar, factors per layer along the first axis, or None for factor 1."""
    factors = np.array(
        [
            math.prod(f for pattern, f in multipliers.items() if re.search(pattern, leaf))
            for leaf in _names(name, shape, with_first)
        ],
        np.float32,
    )
    if (factors == 1).all():
        return None
    if (factors == factors[0]).all():
        return factors[0]
    return factors.reshape(-1, *[1] * (len(shape) - 1))
