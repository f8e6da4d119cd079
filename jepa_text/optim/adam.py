"""Adam with an age for each leaf: one that is born, or begun anew, in the middle of a run

is corrected for its own steps and not for those of the run.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax


class AdamState(NamedTuple):
    """age: updates that each leaf has seen, int32 scalars in the tree of the parameters.
    mu, nu: running means of the gradient and of its square."""

    age: Any
    mu: Any
    nu: Any


def scale_by_adam(b1, b2, eps, mu_dtype=None):
    """mu / (1 - b1^t) / (sqrt(nu / (1 - b2^t)) + eps), t the age of each leaf.

    Algorithm 1 of arXiv 1412.6980 for each leaf. `optax.scale_by_adam` counts once for
    all: there the first step of a leaf whose moments are new late in a run is (1 - b1) /
    sqrt(1 - b2) times the rate, with the usual betas 0.4 or 3.2 times, and later ones
    more; here it is the rate. mu is kept in `mu_dtype`, nu in the dtype of the parameter.

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
