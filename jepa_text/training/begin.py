"""All that comes before the first step: the parts of a run, made and agreed upon.

What is refused is refused here. The watchdog starts first, as each thing after it may
wait for other processes; what one process does alone stands in `distributed.together`.
"""

import dataclasses
import functools
from typing import Any

import jax

from jepa_text.config import resolve, schema
from jepa_text.data import pipeline
from jepa_text.files import paths
from jepa_text.parallel import processes
from jepa_text.running import (
    anew,
    arithmetic,
    checkpoint,
    compilation,
    profiling,
    reporter,
    signals,
    watchdog,
    workdir,
)
from jepa_text.training import baseline, extend, first_state, init_from, prepare, switches
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes
from jepa_text.training import state as states

# What a resumed run may set differently without becoming another run.
MAY_CHANGE = (
    'metrics',
    'log_every',
    'checkpoint',
    'evaluate.every',
    'geometry',
    'mesh',
    'data.threads',
    'offload',
    'watchdog',
    'profile_steps',
    'compilation_cache',
    'plan',
)


@dataclasses.dataclass(frozen=True)
class Parts:
    """What the loop of a run works with."""

    config: dict
    recipe: recipes.Recipe
    store: checkpoint.Checkpointer
    report: reporter.Reporter
    guard: watchdog.Watchdog
    trace: profiling.Trace
    stop: Any


def begin(config, folder, stack, restart=False, stop=None):
    """(Parts, state to go on from, meta of its checkpoint or {}).

    What must be left again is entered into the stack. `restart`: as in anew.check.
    """
    # First, as all that follows may wait for other processes.
    paths.local('The workdir', folder)
    schema.read(settings.Config, config)
    guard = stack.enter_context(_guard(config, folder))
    with processes.together('the config'):
        compilation.use_cache(config['compilation_cache'])
        config = init_from.complete(config, folder)
        init_from.check_words(config, folder)
    config = baseline.matched(config, folder)
    guard.expect('prepare')
    processes.first(lambda: prepare.if_missing(config), 'preparing the rows')
    guard.expect('compile')
    with processes.together('the recipe'):
        config = extend.extended(config, folder)
        may_change = (*MAY_CHANGE, *extend.may_change(config, folder))
        recipe = recipes.make(config)
        switches.check(recipe, config['phases'])
        trace = profiling.Trace(f'{folder}/profile', config['profile_steps'])
    with processes.together('the arithmetic of this machine'):
        arithmetic.check()
    processes.same('The rows or the seeds', recipe.fingerprint)
    with processes.together('the workdir'):
        stack.enter_context(
            workdir.open_workdir(
                folder,
                config,
                may_change,
                steps=settled(config),
                whole=settings.plain,
            )
        )
    processes.first(lambda: anew.check(folder, restart), 'the checkpoints')
    stop = stop or stack.enter_context(signals.Requests())
    store = stack.enter_context(
        checkpoint.Checkpointer(
            f'{folder}/checkpoints',
            keep=config['checkpoint']['keep'],
            keep_every=config['checkpoint'].get('keep_every'),
        )
    )
    state, meta = _start(config, recipe, store, folder)
    processes.first(
        lambda: recipe.tokenizer.save(f'{folder}/tokenizer.json'), 'the tokenizer'
    )
    report = stack.enter_context(
        reporter.Reporter(
            folder,
            config,
            recipe,
            resumed=int(state.step) if meta else None,
            seconds=meta.get('seconds', 0.0),
            logged=meta.get('logged'),
        )
    )
    for line in extend.lines(config):
        report.say(line)
    stack.enter_context(trace)
    return Parts(config, recipe, store, report, guard, trace, stop), state, meta


def settled(config):
    """Where a step must lie before the config is settled; None if it is at once."""
    matched = config['baseline']
    # Times measured for one config are read from the folder, and are none of another's.
    timed = matched != 'none' and matched['by'] == 'time'
    return None if timed else 'checkpoints'


def _guard(config, folder):
    """The watchdog of this process, with a file of its own."""
    index = jax.process_index()
    name = watchdog.FILE if index == 0 else f'{index}-{watchdog.FILE}'
    return resolve.call(
        'watchdog', watchdog.Watchdog, config['watchdog'], path=f'{folder}/{name}'
    )


def _start(config, recipe, store, folder):
    """The state to go on from, and its meta; of a new run, its first one, and {}."""
    found = store.newest_good()
    if found is None:
        phase = recipe.phases[0]
        make = functools.partial(
            states.create, phase.network, phase.objective, recipe.optimizer, recipe.seed
        )
        state = jax.jit(make, out_shardings=recipes.places(recipe, phase))()
        if config.get('start'):
            state = first_state.begin(config['start'], recipe, state, folder)
        return state, {}
    step, meta = found
    pipeline.check_fingerprint(meta['fingerprint'], recipe.fingerprint)
    phase = recipe.phases[meta['phase']]
    return store.restore(step, recipes.abstract_state(recipe, phase)), meta
