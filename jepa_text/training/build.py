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

# Keys that may differ when a run is resumed.
MAY_CHANGE = (
    'metrics',
    'log_every',
    'checkpoint',
    'evaluate.every',
    'evaluate.tasks',
    'geometry',
    'mesh',
    # The folder may have moved; its fingerprint is compared instead.
    'data.folder',
    'data.repeat',
    'data.threads',
    'accumulate',
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
        may_change = (
            *changeable_keys(config),
            *completion.extension_may_change(config, folder),
        )
        recipe = assemble.make(config, evaluations)
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


def changeable_keys(config):
    """Dotted keys that do not affect what a run learns.

    These are MAY_CHANGE, the folders of the rows, and their names in metrics.
    """
    return (*MAY_CHANGE, *_places(config))


def _places(config):
    """Yields the dotted keys of the folders of rows and of their names."""
    sections = {'data': config['data']}
    for number, phase in enumerate(config['phases']):
        sections[f'phases.{number}.data'] = phase.get('data') or {}
    for path, data in sections.items():
        yield f'{path}.folder'
        for number in range(len(data.get('mixture') or ())):
            yield from (f'{path}.mixture.{number}.{key}' for key in ('folder', 'name'))


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
