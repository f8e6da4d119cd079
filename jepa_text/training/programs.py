"""Compiles the training step of a phase for the mesh of its recipe."""

import jax

from jepa_text.models.attention import attend
from jepa_text.parallel import sharding
from jepa_text.training import recipe as recipes


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
    step = _fetching(phase.step, recipe.offload) if recipe.offload else phase.step
    step = attend.with_max_documents(phase.max_documents, step)
    return jax.jit(
        step,
        in_shardings=(shardings, sharding.batch_sharding(recipe.mesh)),
        out_shardings=(shardings, sharding.replicated(recipe.mesh)),
        donate_argnums=0,
    )


def _fetching(step, part):
    """Returns a step that first copies a part of the state from the host to devices."""

    def fetched(state, batch):
        on_device = jax.device_put(getattr(state, part), jax.memory.Space.Device)
        return step(state.replace(**{part: on_device}), batch)

    return fetched
