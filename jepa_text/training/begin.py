"""The start of a run: its checks, its locked workdir, its first state or the newest."""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import jax

from jepa_text.data import data_position
from jepa_text.data.rows import row_folder
from jepa_text.files import addresses
from jepa_text.parallel import hardware, processes, signals
from jepa_text.running import (
    checkpoint,
    compilation,
    numerics,
    reporter,
    restore,
    self_test,
    watchdog,
    workdir,
)
from jepa_text.training import (
    completion,
    descriptions,
    init_from,
    preflight,
    prepare,
    switches,
)
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes
from jepa_text.training import state as states


def recipe_of(config, folder, stack, evaluations=()):
    """Returns the (Recipe, Watchdog) of a run. Locks its workdir, and writes the config.

    All checks of the config happen here; later code only sees the Recipe. The watchdog
    starts first, because everything after it may wait for other processes. The watchdog
    and the lock are entered into `stack`. `evaluations` are as in recipe.make.

    Raises ValueError for an invalid config and for a workdir of another config.
    """
    config = settings.plain(config)
    guard = stack.enter_context(watchdog.Watchdog(**config['watchdog']))
    config, recipe = checked(config, guard, folder, evaluations)
    may_change = settings.changeable_keys(phase.objective for phase in recipe.phases)
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


def checked(config, guard, folder=None, evaluations=()):
    """Returns (the completed config, its Recipe), of a plain config. Prepares rows that
    do not exist.

    `guard` is a Watchdog, `folder` the workdir, if any. Raises ValueError for an invalid
    config, before rows are prepared if possible, and RuntimeError as self_test.check.
    """
    with processes.fail_together('the config'):
        numerics.check()
        compilation.use_cache()
        config = completion.with_init_from(config, folder)
        section, rows = config.get('prepare') or {}, config['data']['folder']
        source = config.get('init_from')
        if source:
            init_from.check_rows(source, section.get('tokenizer'), rows, folder)
        if section and not row_folder.exists(rows):
            _check_before_rows(config, folder)
    if section:
        guard.suspend()
        processes.on_first(
            lambda: prepare.if_missing(section, rows, source), 'preparing the rows'
        )
    guard.pause()
    config = completion.with_baseline(config)
    with processes.fail_together('the recipe'):
        recipe = recipes.make(config, evaluations)
        switches.check(recipe)
    with processes.fail_together('the arithmetic of this machine'):
        self_test.check()
    processes.check_equal('The rows or the seeds', recipe.fingerprint)
    return config, recipe


def _check_before_rows(config, folder):
    """Raises ValueError for a config or workdir with which the run would fail after its
    rows are prepared, which may take hours.

    If the tokenizer does not exist, `prepare` raises the clearer error.
    """
    section, rows = config['prepare'], config['data']['folder']
    if folder:
        place = Path(folder).resolve()
        is_here = not addresses.is_address(rows)
        if is_here and Path(rows).expanduser().resolve().is_relative_to(place):
            raise ValueError(
                f'data.folder={rows!r} is in the workdir {folder}, which is for the '
                'files of one run. Give a folder outside of it.'
            )
        workdir.check(Path(folder))
    outline = recipes.outline(config, vocab_size=2**15)
    preflight.batch_size(outline)
    preflight.rows(outline, rows, section['row_length'])
    for phase in outline.phases:
        outline.cost(phase)  # traces a step


def _check_rows(recipe, folder):
    """Raises ValueError if the newest checkpoint was trained on other rows.

    Called before the config is written, so that it never names rows of another run.
    """
    if newest := restore.newest(Path(folder, 'checkpoints'), restore.meta):
        _shapes(recipe, *newest)


def _shapes(recipe, step, meta):
    """Returns the abstract state of a checkpoint. Raises ValueError if it was trained on
    other rows, batches or seed than those of the recipe."""
    data_position.check_fingerprint(meta['fingerprint'], recipe.fingerprint)
    return recipe.abstract_state(recipe.phases[meta['phase']])


class Tools(NamedTuple):
    """What the training loop uses besides the recipe."""

    store: checkpoint.Checkpointer
    report: reporter.Reporter
    trace: reporter.Trace  # of selected steps
    stop: Any  # tells whether a signal asked to stop
    send: Any  # sends the other files of a workdir at an address


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
            keep_at_steps=frozenset(config.checkpoint.keep_at_steps),
        )
    )
    if newest := store.restore(functools.partial(_shapes, recipe)):
        state, meta = newest
    elif trunk:
        state, meta = init_from.trunk(recipe, folder, *trunk)
    else:
        state, meta = states.first(recipe, recipe.phases[0]), {}
        if config.init_from:
            state = init_from.initialize(recipe, state, folder)
    processes.on_first(
        lambda: recipe.tokenizer.save(f'{folder}/tokenizer.json'), 'the tokenizer'
    )
    report = stack.enter_context(
        reporter.Reporter(
            folder,
            config.name,
            descriptions.costs(recipe),
            peak=hardware.peak(jax.devices()[0].device_kind),
            resumed=int(state.step) if meta else None,
            logged=meta.get('logged'),
        )
    )
    for line in (*descriptions.introduction(recipe), *numerics.changes(meta)):
        report.log(line)
    trace = reporter.Trace(f'{folder}/profile', config.profile_steps)
    stack.enter_context(trace)
    return Tools(store, report, trace, stop, place.send), state, meta
