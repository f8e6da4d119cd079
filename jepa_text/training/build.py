"""Builds a training run: turns a config into a Recipe and locks the workdir."""

import functools
from pathlib import Path

import jax

from jepa_text.files import paths
from jepa_text.parallel import processes
from jepa_text.running import compilation, numerics, restore, self_test, watchdog, workdir
from jepa_text.training import assemble, completion, init_from, prepare, switches
from jepa_text.training import config as settings
from jepa_text.training import recipe as recipes

# Keys that may differ when a run is resumed: they do not change what it learns, except by
# rounding. '*' stands for any text.
MAY_CHANGE = (
    'name',
    'metrics',
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
    'data.threads',
    'model.attention',
    'model.remat',
    'phases.*.objective.*logits_mib',
    'stop_after_skips',
    'telemetry.on_collapse',
    'offload',
    'watchdog',
    'profile_steps',
    'compilation_cache',
    'plan',
)


def build(config, folder, stack, evaluations=()):
    """Returns the (Recipe, Watchdog) of a run. Locks its workdir, and writes the config.

    All checks of the config happen here; later code only sees the Recipe. The watchdog
    starts first, because everything after it may wait for other processes. The watchdog
    and the lock are entered into `stack`. `evaluations` are as in assemble.make.

    Raises ValueError for an invalid config and for a workdir of another config.
    """
    config = settings.plain(config)
    paths.local('The workdir', folder)
    guard = stack.enter_context(_watchdog(folder, **config['watchdog']))
    with processes.fail_together('the config'):
        numerics.check()
        compilation.use_cache(config['compilation_cache'])
        config = completion.with_init_from(config, folder)
        section, rows = config.get('prepare') or {}, config['data']['folder']
        source = config.get('init_from')
        init_from.check_rows(source, section.get('tokenizer'), rows, folder)
        if section and prepare.is_missing(rows):
            # An invalid config fails before the rows are prepared, which may take hours.
            # If the tokenizer does not exist, `prepare` raises the clearer error.
            assemble.outline(config, assemble.mesh(config), vocab_size=2**15)
    guard.expect('prepare')
    processes.on_first(
        lambda: prepare.if_missing(section, rows, source), 'preparing the rows'
    )
    guard.expect('compile')
    config = completion.with_baseline(config, folder)
    with processes.fail_together('the recipe'):
        config = completion.with_extension(config, folder)
        recipe = assemble.make(config, evaluations)
        may_change = (
            *changeable_keys(phase.objective for phase in recipe.phases),
            *completion.extension_may_change(config, folder),
        )
        switches.check(recipe)
    with processes.fail_together('the arithmetic of this machine'):
        self_test.check()
    processes.check_equal('The rows or the seeds', recipe.fingerprint)
    with processes.fail_together('the workdir'):
        stack.enter_context(
            workdir.open_workdir(
                folder,
                config,
                may_change,
                steps='checkpoints',
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
    newest = restore.newest_good(Path(folder, 'checkpoints'))
    if newest:
        recipes.check_resumed(recipe, *newest)


def _watchdog(folder, **seconds):
    """The watchdog of this process, with a file of its own."""
    index = jax.process_index()
    name = watchdog.FILE if index == 0 else f'{index}-{watchdog.FILE}'
    return watchdog.Watchdog(f'{folder}/{name}', **seconds)
