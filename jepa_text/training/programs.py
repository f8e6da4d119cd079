"""The step of a phase as a program for the mesh of its recipe."""

import jax

from jepa_text.models.attention import attend
from jepa_text.parallel import sharding
from jepa_text.training import recipe as recipes


def compiled(recipe, phase):
    """The step of a phase for the mesh: `(state, batch) -> (state, metrics)`.

    On CPUs a call begins when the step before has ended (`sharding.one_by_one`).
    """
    step = sharding.within(recipe.mesh, jitted(recipe, phase))
    return sharding.one_by_one(recipe.mesh, step)


def jitted(recipe, phase):
    """The same, to be called or lowered where the mesh is set.

    The state is donated; parts of it that lie on the host travel to the devices and back.
    """
    at = recipes.shardings(recipe, phase)
    step = _fetching(phase.step, recipe.offload) if recipe.offload else phase.step
    step = attend.of_documents(phase.max_documents, step)
    return jax.jit(
        step,
        in_shardings=(at, sharding.batch_sharding(recipe.mesh)),
        out_shardings=(at, sharding.replicated(recipe.mesh)),
        donate_argnums=0,
    )


def _fetching(step, part):
    def fetched(state, batch):
        away = getattr(state, part)
        here = jax.device_put(away, jax.memory.Space.Device)
        return step(state.replace(**{part: here}), batch)

    return fetched
