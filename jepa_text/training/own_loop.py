"""The parts of a run for a training loop of one's own: state, compiled step, batches.

The loop of `train` has more: checkpoints, metrics, evaluations, signals, a watchdog.
"""

import contextlib
from collections.abc import Callable, Iterator

import jax
from ml_collections import ConfigDict

from jepa_text.parallel import sharding
from jepa_text.running import watchdog, xla_flags
from jepa_text.training import begin, init_from, switches, train
from jepa_text.training import config as settings
from jepa_text.training import state as states
from jepa_text.training import step as compiling


def steps(
    config: ConfigDict | dict, state: states.TrainState | None = None
) -> tuple[states.TrainState, Callable, Iterator[dict]]:
    """Returns (state, step, batches) of one phase of a run, for a loop of one's own:

        state, step, batches = steps(config)
        for batch in batches:
            state, metrics = step(state, batch)

    `batches` ends with the phase. They are those of `train`, on the devices of
    config.mesh. `step` is compiled, and donates the state; `metrics` is {name: scalar},
    which may still be computed. Given a state, `steps` continues from there: with the
    rest of the phase, as after a restart, or with the next one. Rows that do not exist
    are prepared. Raises ValueError for an invalid config, a state that a step was given
    and did not return, and if no step is left.
    """
    arrays = (x for x in jax.tree.leaves(state) if isinstance(x, jax.Array))
    if any(x.is_deleted() for x in arrays):
        raise ValueError(
            'The state is gone: a step was given it, and its result was not kept, as if '
            'interrupted. Continue from a checkpoint, or from jt.steps(config).'
        )
    xla_flags.apply()  # before anything is computed
    config = settings.plain(config)
    # A watchdog that never starts.
    _, recipe = begin.checked(config, watchdog.Watchdog(**config['watchdog']))
    done = 0 if state is None else int(state.step)
    phase = next((phase for phase in recipe.phases if phase.stop > done), None)
    if phase is None:
        raise ValueError(
            f'The state is at step {done:,}, and the run has {recipe.steps:,} steps: '
            'none is left. Set more config.steps to continue.'
        )
    if state is None:
        state = states.first(recipe, phase)
        if recipe.settings.init_from:
            state, _ = init_from.started(recipe, state)
    elif done == phase.start:
        state = switches.entered(recipe, phase, state)
    return state, compiling.compiled(recipe, phase), _batches(recipe, phase, done)


def _batches(recipe, phase, done):
    with contextlib.closing(train.batches_of(recipe, phase, done)) as batches:
        for batch in batches:
            yield sharding.put_batch(batch, recipe.mesh)
