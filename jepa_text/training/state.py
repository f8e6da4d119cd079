"""The training state: one pytree, and its first value.

Phases with equal parts have the same programs, also if they belong to different runs of
this process, as the members of a study: each is traced and compiled once
(models/memo.py).
"""

import functools
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax

from jepa_text.models import memo
from jepa_text.models.network import Network, key_from, key_of


@flax.struct.dataclass
class TrainState:
    """Everything that changes during training.

    params            {module: parameters}
    target            EMA of params['encoder'], or None
    memory            what the objective and its last diagnostics carry from step to step,
                      outside the gradient, and the random key of the seed
    skipped           updates left out because they were not finite
    skipped_in_row    the same, since the last finite update
    """

    step: jax.Array
    params: dict
    target: Any
    memory: dict
    opt_state: Any
    skipped: jax.Array
    skipped_in_row: jax.Array


def create(network, objective, optimizer, seed):
    """Returns the state before the first step, given a seed or its key.

    Pure: jit it with output shardings to create the state on its devices.
    """
    params = network.init(seed)
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        target=copy(params['encoder']) if objective.has_target else None,
        memory={
            **objective.memory(),
            # In the state, so that one program serves all seeds.
            'key': jax.random.key_data(key_of(seed)),
            # NaN until measured: zero would be a value.
            'diagnostics': {
                name: jnp.float32(jnp.nan) for name in objective.diagnostic_names
            },
        },
        opt_state=optimizer.init(params),
        skipped=jnp.zeros((), jnp.int32),
        skipped_in_row=jnp.zeros((), jnp.int32),
    )


def copy(params):
    """A copy in buffers of its own, as one buffer cannot be donated twice."""
    return jax.tree.map(jnp.copy, params)


def abstract(encoder, objective):
    """Returns shapes and dtypes of a state without those of an optimizer.

    They depend neither on the attention backend nor on rematerialization.
    """
    plain = {'attention': 'xla', 'remat': 'none'}
    plain = {name: value for name, value in plain.items() if hasattr(encoder, name)}
    return _abstract(encoder.clone(**plain), objective)


@memo.memoize
def _abstract(encoder, objective):
    inputs = Network(encoder, objective), objective, optax.identity(), 0
    return jax.eval_shape(functools.partial(create, *inputs))


def first(recipe, phase):
    """Returns the first state of a run that begins with a phase, on its devices."""
    parts = phase.network, phase.objective, recipe.optimizer, recipe.shardings(phase)
    return _creating(*parts)(key_data(recipe))


@memo.memoize
def _creating(network, objective, optimizer, shardings):
    def created(data):
        # An argument, so that one program serves all seeds.
        return create(network, objective, optimizer, key_from(data))

    return jax.jit(created, out_shardings=shardings)


def key_data(recipe):
    """Returns the random key of the run's seed as numbers, the same on all processes."""
    return np.asarray(jax.random.key_data(key_of(recipe.seed)))
