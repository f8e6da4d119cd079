"""AdamW with a step count per parameter, so that bias correction survives a new model.

A parameter that is added, or whose moments are reset, in the middle of a run is corrected
for the number of its own updates and not for the steps of the run.
"""

import operator
import re
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jepa_text.parallel import leaves
from jepa_text.settings import ranges

# Of the first moment. Not float16, in which moments of small gradients are zero.
Dtype = Literal['float32', 'bfloat16']


def adamw(
    b1=0.9,
    b2=0.95,
    eps=1e-8,
    weight_decay=0.1,
    decay_paths=r'(kernel|embedding)$',
    balance_lr_multiplier=1.0,
    momentum_dtype: Dtype = 'float32',
):
    """AdamW (arXiv 1711.05101) without its learning rate.

    Weight decay applies to the leaves that match `decay_paths`, but never to the learned
    weight of two losses, whose updates are multiplied by `balance_lr_multiplier`. The
    first moment is stored in `momentum_dtype`, the second in the parameter's dtype. Both
    are corrected for the age of each leaf. Raises ValueError for bad options.

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
    return descent(
        scale_by_adam(b1, b2, eps, mu_dtype=jnp.dtype(momentum_dtype)),
        optax.add_decayed_weights(
            weight_decay, mask=lambda params: mask(params, decay_paths, search_decayed)
        ),
        optax.masked(
            optax.scale(balance_lr_multiplier),
            mask=lambda params: mask(params, r'^balance/'),
        ),
    )


def descent(*steps):
    """Returns the chain of transformations, with negated updates and the same state.

    An update, added to the parameters, is a step of a learning rate of 1.
    """
    # optax.scale(-1) would add a state, and so change the format of checkpoints.
    chain = optax.chain(*steps) if steps[1:] else steps[0]

    def update(grads, state, params=None):
        updates, state = chain.update(grads, state, params)
        return jax.tree.map(operator.neg, updates), state

    return optax.GradientTransformation(chain.init, update)


def mask(params, pattern, search=re.search):
    """Returns a tree of bools: whether `search` finds `pattern` in each leaf's name.

    Leaves are selected by path and never by ndim, because scanned layers stack norm
    scales to matrices.

    >>> mask({'ffn': {'kernel': 1.0}, 'norm': {'scale': 1.0}}, 'kernel$')
    {'ffn': {'kernel': True}, 'norm': {'scale': False}}
    """
    return leaves.mapped(lambda name, _: bool(search(pattern, name)), params)


def search_decayed(pattern, name):
    """Returns whether `pattern` is in a leaf's name, which is not that of the learned
    weight of two losses: weight decay never applies to it.

    >>> [search_decayed('.', name) for name in ('encoder/a', 'balance/a')]
    [True, False]
    """
    return bool(re.search(pattern, name)) and not re.match('balance/', name)


class AdamState(NamedTuple):
    """The state of `scale_by_adam`: three trees with the structure of the parameters.

    age: the number of updates of each leaf, an int32 scalar. mu, nu: running means of the
    gradient and of its square.
    """

    age: Any
    mu: Any
    nu: Any


def scale_by_adam(b1, b2, eps, mu_dtype=None):
    """Updates to mu / (1 - b1^t) / (sqrt(nu / (1 - b2^t)) + eps), t the age of each leaf.

    This is `optax.scale_by_adam` (Algorithm 1 of arXiv 1412.6980) of each leaf by itself.
    On a whole tree it has one count for all leaves: if the moments of a leaf are new
    late in a run, its first step is (1 - b1) / sqrt(1 - b2) times the learning rate
    there, which is 0.4 or 3.2 times with the usual betas, and the next ones are larger.
    Here the first step equals the learning rate. mu is stored in `mu_dtype`, nu in the
    dtype of the parameter.

    >>> optimizer, grads = scale_by_adam(0.9, 0.999, 1e-8), {'a': 3.0, 'b': 3.0}
    >>> updates, state = optimizer.update(grads, optimizer.init(grads))
    >>> late = state._replace(**{name: {**tree, 'b': 0 * tree['b']}
    ...                          for name, tree in state._asdict().items()})
    >>> updates, state = optimizer.update(grads, late)
    >>> jax.tree.map(int, state.age)
    {'a': 2, 'b': 1}
    >>> print({name: float(x.round(3)) for name, x in updates.items()})
    {'a': 1.0, 'b': 1.0}
    """

    alone = optax.scale_by_adam(b1, b2, eps, mu_dtype=mu_dtype)  # of one leaf

    def init(params):
        return AdamState(
            age=jax.tree.map(lambda _: jnp.zeros((), jnp.int32), params),
            mu=optax.tree.zeros_like(params, dtype=mu_dtype),
            nu=optax.tree.zeros_like(params),
        )

    def update(grads, state, params=None):
        def each(grad, *own):
            update, own = alone.update(grad, optax.ScaleByAdamState(*own))
            return update, *own

        made = jax.tree.map(each, grads, *state)
        updates, *new = (
            jax.tree.map(lambda _, leaf, i=i: leaf[i], grads, made) for i in range(4)
        )
        return updates, AdamState(*new)

    return optax.GradientTransformation(init, update)
