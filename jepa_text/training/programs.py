"""The programs of a phase, compiled for the mesh of its recipe.

create     the first state of a run
enter      the last state of a phase -> the first state of the next one
compiled   the training step

Phases with equal parts have the same programs, also if they belong to different runs of
this process, as the members of a study: each is traced and compiled once (cost/memo.py).
"""

import jax
import numpy as np

from jepa_text.cost import memo
from jepa_text.models.attention import attend
from jepa_text.models.network import key_from, key_of
from jepa_text.parallel import sharding
from jepa_text.training import recipe as recipes
from jepa_text.training import state as states


def create(recipe, phase):
    """Returns the first state of a run that begins with a phase, on its devices."""
    return _creating(
        phase.network,
        phase.objective,
        recipe.optimizer,
        recipes.shardings(recipe, phase),
    )(_key_data(recipe))


@memo.memoize
def _creating(network, objective, optimizer, shardings):
    def create(data):
        # An argument, so that one program serves all seeds.
        key = key_from(data)
        return states.create(network, objective, optimizer, key)

    return jax.jit(create, out_shardings=shardings)


def enter(recipe, phase, state):
    """Returns the state at the first step of a phase, with the shardings of the phase."""
    return _enter(recipe, phase)(state, _key_data(recipe))


def entered_shapes(recipe, phase, state):
    """Returns shapes and dtypes of what `enter` returns, given those of the state."""
    return _enter(recipe, phase).eval_shape(state, _key_data(recipe))


def _enter(recipe, phase):
    before = recipe.phases[max(phase.index - 1, 0)].objective
    return _entering(
        phase.network,
        phase.objective,
        recipe.optimizer,
        phase.reset,
        phase.objective.forgotten(before),
        recipes.shardings(recipe, phase),
    )


@memo.memoize
def _entering(network, objective, optimizer, reset, forgotten, shardings):
    def enter(state, data):
        key = key_from(data)
        new = network, objective, optimizer, key
        return states.enter_phase(state, *new, reset, forgotten)

    return jax.jit(enter, out_shardings=shardings)


def compiled(recipe, phase):
    """Returns the compiled step of a phase: `(state, batch) -> (state, metrics)`.

    On CPUs, a call waits until the previous step has ended
    (`sharding.synchronous_on_cpu`).
    """
    step = sharding.with_mesh(recipe.mesh, jitted(recipe, phase))
    return sharding.synchronous_on_cpu(recipe.mesh, step)


def jitted(recipe, phase):
    """Returns the jitted step, to be called or lowered inside the context of the mesh.

    The state is donated. A part of it in host memory is copied to the devices and back.
    """
    shardings = recipes.shardings(recipe, phase)
    return _jitted(
        phase.step, shardings, recipe.mesh, recipe.offload, phase.max_documents
    )


@memo.memoize
def _jitted(step, shardings, mesh, offload, max_documents):
    step = _fetching(step, offload) if offload else step
    return jax.jit(
        attend.with_max_documents(max_documents, step),
        in_shardings=(shardings, sharding.batch_sharding(mesh)),
        out_shardings=(shardings, sharding.replicated(mesh)),
        donate_argnums=0,
    )


def _key_data(recipe):
    """Returns the random key of the run's seed as numbers, the same on all processes."""
    return np.asarray(jax.random.key_data(key_of(recipe.seed)))


def _fetching(step, part):
    """Returns a step that first copies a part of the state from the host to devices."""

    def fetched(state, batch):
        on_device = jax.device_put(getattr(state, part), jax.memory.Space.Device)
        return step(state.replace(**{part: on_device}), batch)

    return fetched
