"""The start of a run: its checks, its locked workdir, and its first state or the newest.

recipe_of           config -> (Recipe, Watchdog); every check of the config
restore_or_init     the newest good checkpoint or the first state, and the tools
"""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import jax

from jepa_text.data.rows import row_folder
from jepa_text.files import atomic, paths
from jepa_text.parallel import hardware, processes, signals
from jepa_text.running import (
    checkpoint,
    compilation,
    metrics,
    numerics,
    reporter,
    restore,
    self_test,
    watchdog,
    workdir,
)
from jepa_text.training import completion, descriptions, preflight
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes
from jepa_text.training import state as states

# Keys that may differ when a run is resumed: they do not change what it learns, except by
# rounding. '*' stands for any text.
MAY_CHANGE = (
    'name',
    'log_every',
    'checkpoint',
    'evaluate.every',
    'evaluate.tasks',
    'geometry',
    'mesh',
    # The folders may have moved; fingerprints of their rows are compared instead.
    *('data.folder', 'data.mixture.*.folder', 'data.mixture.*.name'),
    *('phases.*.data.folder', 'phases.*.data.mixture.*.folder'),
    'phases.*.data.mixture.*.name',
    'data.repeat',
    'model.attention',
    'model.remat',
    'phases.*.objective.*logits_mib',
    'stop_after_skips',
    'watchdog',
    'profile_steps',
    'plan',
)


def recipe_of(config, folder, stack, evaluations=()):
    """Returns the (Recipe, Watchdog) of a run. Locks its workdir, and writes the config.

    All checks of the config happen here; later code only sees the Recipe. The watchdog
    starts first, because everything after it may wait for other processes. The watchdog
    and the lock are entered into `stack`. `evaluations` are as in recipe.make.

    Raises ValueError for an invalid config and for a workdir of another config.
    """
    config = settings.plain(config)
    paths.local('The workdir', folder)
    guard = stack.enter_context(watchdog.Watchdog(**config['watchdog']))
    with processes.fail_together('the config'):
        numerics.check()
        compilation.use_cache()
        config = completion.with_init_from(config, folder)
        section, rows = config.get('prepare') or {}, config['data']['folder']
        source = config.get('init_from')
        if source:
            from jepa_text.training import init_from

            init_from.check_rows(source, section.get('tokenizer'), rows, folder)
        if section and not row_folder.exists(rows):
            # An invalid config fails before the rows are prepared, which may take hours.
            # If the tokenizer does not exist, `prepare` raises the clearer error.
            recipes.outline(config, recipes.mesh(config), vocab_size=2**15)
    if section:
        from jepa_text.training import prepare

        guard.suspend()
        processes.on_first(
            lambda: prepare.if_missing(section, rows, source), 'preparing the rows'
        )
    guard.pause()
    config = completion.with_baseline(config, folder)
    with processes.fail_together('the recipe'):
        recipe = recipes.make(config, evaluations)
        may_change = changeable_keys(phase.objective for phase in recipe.phases)
        preflight.switches(recipe)
    with processes.fail_together('the arithmetic of this machine'):
        self_test.check()
    processes.check_equal('The rows or the seeds', recipe.fingerprint)
    with processes.fail_together('the workdir'):
        stack.enter_context(
            workdir.open_workdir(
                folder,
                config,
                may_change,
                whole=settings.plain,
                accept=functools.partial(_check_rows, recipe, folder),
            )
        )
    return recipe, guard


def changeable_keys(objectives):
    """Returns the patterns of keys that do not affect what a run learns.

    `accumulate` is one of them unless the loss of an objective depends on it.
    """
    depends = any(objective.per_microbatch for objective in objectives)
    return MAY_CHANGE if depends else (*MAY_CHANGE, 'accumulate')


def _check_rows(recipe, folder):
    """Raises ValueError if the newest checkpoint was trained on other rows.

    Called before the config is written, so that it never names rows of another run.
    """
    newest = restore.newest(Path(folder, 'checkpoints'), restore.meta)
    if newest:
        recipe.check_resumed(*newest)


@dataclasses.dataclass(frozen=True)
class Tools:
    """What the training loop uses besides the recipe.

    store     writes checkpoints
    report    writes metrics and messages
    trace     profiles selected steps
    stop      tells whether a signal asked to stop
    send      sends the other files of a workdir at an address
    """

    store: checkpoint.Checkpointer
    report: reporter.Reporter
    trace: reporter.Trace
    stop: Any
    send: Any


def restore_or_init(recipe, place, stack, stop, trunk):
    """Returns (Tools, state to train from, metadata of its checkpoint or {}).

    The folder of the `place` must be locked. Context managers are entered into `stack`;
    `stop` and `trunk` are as in train.train.
    """
    config, folder = recipe.settings, place.folder
    stop = stop or stack.enter_context(signals.StopRequests())
    store = stack.enter_context(
        checkpoint.Checkpointer(
            folder / 'checkpoints',
            keep=config.checkpoint.keep,
            keep_at=frozenset(config.checkpoint.keep_at),
        )
    )
    state, meta = _state(recipe, store, folder, trunk)
    processes.on_first(
        lambda: recipe.tokenizer.save(f'{folder}/tokenizer.json'), 'the tokenizer'
    )
    report = stack.enter_context(
        reporter.Reporter(
            folder,
            config.name,
            recipe.steps,
            peak=hardware.peak(jax.devices()[0].device_kind),
            resumed=int(state.step) if meta else None,
            logged=meta.get('logged'),
        )
    )
    introduction = descriptions.introduction(recipe)
    for line in (*introduction, *_notes(recipe), *numerics.changes(meta)):
        report.log(line)
    trace = reporter.Trace(f'{folder}/profile', config.profile_steps)
    tools = Tools(store, report, stack.enter_context(trace), stop, place.send)
    return tools, state, meta


def _notes(recipe):
    """Yields a message about checkpoints that the run does not reach."""
    kept = recipe.settings.checkpoint.keep_at
    if beyond := [step for step in kept if step > recipe.steps]:
        listed = ', '.join(f'{step:,}' for step in beyond)
        yield f'checkpoint.keep_at: {listed} lies beyond the last step, {recipe.steps:,}.'


def _state(recipe, store, folder, trunk):
    """Returns (state, its metadata) of the newest good checkpoint, or of the trunk; for a
    new run, (first state, {})."""

    def shapes(step, meta):
        recipe.check_resumed(step, meta)
        return recipe.abstract_state(recipe.phases[meta['phase']])

    if newest := store.restore(shapes):
        return newest
    if trunk:
        return _from_trunk(recipe, folder, *trunk)
    state = states.first(recipe, recipe.phases[0])
    if recipe.settings.init_from:
        from jepa_text.training import init_from

        state = init_from.initialize(recipe, state, folder)
    return state, {}


def _from_trunk(recipe, folder, source, step):
    """Returns (state of another run at a step, metadata of this run).

    The metrics up to the step become those of this run, and so does the record of the
    model that both started from, if any.
    """
    from jepa_text.training import init_from

    def copy():
        metrics.copy(source, folder, step)
        record = Path(source, init_from.FILE)
        if record.is_file():
            atomic.write(Path(folder, init_from.FILE), record.read_bytes())

    processes.on_first(copy, 'the trunk')
    state, meta = checkpoint.read(
        Path(source, 'checkpoints'),
        step,
        lambda _, meta: recipe.abstract_state(recipe.phases[meta['phase']]),
    )
    own = recipe.meta(recipe.phases[meta['phase']], step)
    return state, meta | own
