"""The start of a run: its first or resumed state, and the tools of the training loop."""

import dataclasses
from pathlib import Path
from typing import Any

import jax

from jepa_text.cost import hardware
from jepa_text.files import atomic
from jepa_text.parallel import processes, signals
from jepa_text.running import (
    branch,
    checkpoint,
    fresh_start,
    numerics,
    profiling,
    reporter,
)
from jepa_text.training import descriptions, init_from, programs
from jepa_text.training import recipe as recipes


@dataclasses.dataclass(frozen=True)
class Tools:
    """What the training loop uses besides the recipe.

    store     writes checkpoints
    report    writes metrics and messages
    trace     profiles selected steps
    stop      tells whether a signal asked to stop
    """

    store: checkpoint.Checkpointer
    report: reporter.Reporter
    trace: profiling.Trace
    stop: Any


def restore_or_init(recipe, folder, stack, restart, stop, saved, trunk):
    """Returns (Tools, state to train from, metadata of its checkpoint or {}).

    The workdir `folder` must be locked. Context managers are entered into `stack`.
    `restart` is as in fresh_start.check, `saved` as in Checkpointer, `stop` and `trunk`
    as in train.train.
    """
    loop = recipe.loop
    processes.on_first(lambda: fresh_start.check(folder, restart), 'the checkpoints')
    if trunk:
        processes.on_first(lambda: _branch(recipe, folder, *trunk), 'the trunk')
    stop = stop or stack.enter_context(signals.StopRequests())
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
    processes.on_first(
        lambda: recipe.tokenizer.save(f'{folder}/tokenizer.json'), 'the tokenizer'
    )
    report = stack.enter_context(
        reporter.Reporter(
            folder,
            loop.name,
            recipe.steps,
            peak=hardware.peak(jax.devices()[0].device_kind),
            resumed=int(state.step) if meta else None,
            logged=meta.get('logged'),
            wandb=loop.wandb,
        )
    )
    introduction = descriptions.introduction(recipe)
    for line in (*introduction, *recipe.notes, *numerics.changes(meta)):
        report.log(line)
    trace = profiling.Trace(f'{folder}/profile', loop.profile_steps)
    return Tools(store, report, stack.enter_context(trace), stop), state, meta


def _branch(recipe, folder, source, step):
    """Copies the state of another run at a step into the folder, with own metadata.

    Also the record of the model that both started from, if any.
    """
    record = Path(source, init_from.FILE)
    if record.is_file():
        atomic.write(Path(folder, init_from.FILE), record.read_bytes())

    def change(meta):
        own = recipes.meta(recipe, recipe.phases[meta['phase']], step)
        return meta | own | {'draws': meta.get('draws', 1)}

    branch.begin(folder, source, step, change)


def _state(recipe, store, folder):
    """Returns (newest good state, its metadata), or (first state, {}) for a new run."""
    found = store.newest_good()
    if found is None:
        state = programs.create(recipe, recipe.phases[0])
        if recipe.init_from:
            state = init_from.initialize(recipe, state, folder)
        return state, {}
    step, meta = found
    recipes.check_resumed(recipe, step, meta)
    phase = recipe.phases[meta['phase']]
    return store.restore(step, recipes.abstract_state(recipe, phase)), meta
