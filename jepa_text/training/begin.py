"""The first state of a run, or the one to go on from, and what goes on beside it."""

import dataclasses
from typing import Any

import jax

from jepa_text.cost import hardware
from jepa_text.data import stream
from jepa_text.parallel import processes
from jepa_text.running import (
    branch,
    checkpoint,
    fresh_start,
    profiling,
    reporter,
    signals,
)
from jepa_text.training import descriptions, init_from
from jepa_text.training import recipe as recipes


@dataclasses.dataclass(frozen=True)
class Tools:
    """What the loop of a run works with."""

    store: checkpoint.Checkpointer
    report: reporter.Reporter
    trace: profiling.Trace
    stop: Any


def begin(recipe, folder, stack, restart=False, stop=None, saved=None, trunk=None):
    """(Tools, state to go on from, meta of its checkpoint or {}) in a locked workdir.

    What must be left again is entered into the stack. `restart`: as in fresh_start.check;
    `saved`: as of a Checkpointer; `trunk`: as of train.train.
    """
    loop = recipe.loop
    processes.first(lambda: fresh_start.check(folder, restart), 'the checkpoints')
    if trunk:
        processes.first(lambda: _branch(recipe, folder, *trunk), 'the trunk')
    stop = stop or stack.enter_context(signals.Requests())
    store = stack.enter_context(
        checkpoint.Checkpointer(
            f'{folder}/checkpoints',
            keep=loop.keep,
            keep_every=loop.keep_every,
            keep_at=loop.keep_at,
            saved=saved,
        )
    )
    state, meta = _state(recipe, store, folder)
    processes.first(
        lambda: recipe.tokenizer.save(f'{folder}/tokenizer.json'), 'the tokenizer'
    )
    report = stack.enter_context(
        reporter.Reporter(
            folder,
            loop.name,
            recipe.steps,
            peak=hardware.peak(jax.devices()[0].device_kind),
            resumed=int(state.step) if meta else None,
            seconds=meta.get('seconds', 0.0),
            logged=meta.get('logged'),
            wandb=loop.wandb,
        )
    )
    for line in (*descriptions.introduction(recipe), *recipe.notes):
        report.say(line)
    trace = profiling.Trace(f'{folder}/profile', loop.profile_steps)
    return Tools(store, report, stack.enter_context(trace), stop), state, meta


def _branch(recipe, folder, source, step):
    """Puts the state of another run at a step into the folder, as this run's own."""

    def change(meta):
        return meta | recipes.meta(recipe, recipe.phases[meta['phase']], step)

    branch.begin(folder, source, step, change)


def _state(recipe, store, folder):
    """The state to go on from, and its meta; of a new run, its first one, and {}."""
    found = store.newest_good()
    if found is None:
        phase = recipe.phases[0]
        make = recipes.creation(recipe, phase)
        state = jax.jit(make, out_shardings=recipes.shardings(recipe, phase))()
        if recipe.init_from:
            state = init_from.begin(recipe, state, folder)
        return state, {}
    step, meta = found
    stream.check_fingerprint(meta['fingerprint'], recipe.fingerprint)
    phase = recipe.phases[meta['phase']]
    return store.restore(step, recipes.abstract_state(recipe, phase)), meta
