"""The step of a phase as a program for the mesh of its recipe."""

from concurrent import futures

import jax

from jepa_text.models.attention import attend
from jepa_text.parallel import sharding
from jepa_text.training import recipe as recipes


def compiled(recipe, phase):
    """The step of a phase for the mesh: `(state, batch) -> (state, metrics)`.

    On CPUs a call begins when the step before has ended (`sharding.one_by_one`).
    """
    return _called(recipe, jitted(recipe, phase))


def compiling(recipe, phase):
    """A Future of the same, whose program a thread compiles from now on, beside whatever
    else a start does. One process of several leaves it to the first call: what they do
    together, all must do in one order."""
    step = jitted(recipe, phase)

    def make():
        if jax.process_count() == 1:
            state = recipes.abstract_state(recipe, phase)
            batch = sharding.placed_batch(
                recipes.abstract_batch(recipe, phase), recipe.mesh
            )
            with jax.set_mesh(recipe.mesh):
                # Kept by `step`, which finds it when it is called.
                step.lower(state, batch).compile()
        return _called(recipe, step)

    worker = futures.ThreadPoolExecutor(1, 'compile')
    made = worker.submit(make)
    worker.shutdown(wait=False)
    return made


def _called(recipe, step):
    return sharding.one_by_one(recipe.mesh, sharding.within(recipe.mesh, step))


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
