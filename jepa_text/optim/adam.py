"""Adam with a step count per parameter, so that bias correction survives a changed model.

A parameter that is added, or whose moments are reset, in the middle of a run is corrected
for the number of its own updates and not for the steps of the run.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax


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

    This is Algorithm 1 of arXiv 1412.6980, applied to each leaf separately.
    `optax.scale_by_adam` has one count for all leaves: if the moments of a leaf are new
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

    def init(params):
        return AdamState(
            age=jax.tree.map(lambda _: jnp.zeros((), jnp.int32), params),
            mu=optax.tree.zeros_like(params, dtype=mu_dtype),
            nu=optax.tree.zeros_like(params),
        )

    def update(grads, state, params=None):
        age = jax.tree.map(optax.safe_increment, state.age)
        mu = optax.tree.update_moment(grads, state.mu, b1, 1)
        nu = optax.tree.update_moment_per_elem_norm(grads, state.nu, b2, 2)

        def ratio(age, mu, nu):
            mu, nu = _corrected(mu, b1, age), _corrected(nu, b2, age)
            return mu / (jnp.sqrt(nu) + eps)

        updates = jax.tree.map(ratio, age, mu, nu)
        mu, nu = optax.tree.cast(mu, mu_dtype), optax.tree.cast_like(nu, state.nu)
        return updates, AdamState(age, mu, nu)

    return optax.GradientTransformation(init, update)


def _corrected(moment, decay, age):
    return moment / (1 - decay**age).astype(moment.dtype)
