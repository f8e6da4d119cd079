"""The builder: a config becomes a Recipe, and nothing after it sees the config."""

import functools
from pathlib import Path

import jax

from jepa_text.data import stream
from jepa_text.files import paths
from jepa_text.parallel import processes
from jepa_text.running import compilation, restore, self_test, watchdog, workdir
from jepa_text.training import assemble, completion, init_from, prepare, switches
from jepa_text.training import config as settings

# What a resumed run may set differently without becoming another run.
MAY_CHANGE = (
    'metrics',
    'log_every',
    'checkpoint',
    'evaluate.every',
    'evaluate.tasks',
    'geometry',
    'mesh',
    # Moved, not other: by their fingerprint.
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
    """(Recipe, Watchdog) of the run in a workdir, which is locked, and has the config.

    What is refused is refused here. The watchdog starts first, as all that follows may
    wait for other processes; it and the lock are entered into the stack. `evaluations`
    are as `assemble.make` takes them.
    """
    config = settings.plain(config)
    paths.local('The workdir', folder)
    guard = stack.enter_context(_guard(folder, **config['watchdog']))
    with processes.together('the config'):
        compilation.use_cache(config['compilation_cache'])
        config = completion.completed(config, folder)
        section, place = config.get('prepare') or {}, config['data']['folder']
        source = config.get('init_from')
        init_from.check_rows(source, section.get('tokenizer'), place, folder)
    guard.expect('prepare')
    processes.first(
        lambda: prepare.if_missing(section, place, source), 'preparing the rows'
    )
    guard.expect('compile')
    config = completion.matched(config, folder)
    with processes.together('the recipe'):
        config = completion.extended(config, folder)
        may_change = (*free(config), *completion.grows(config, folder))
        recipe = assemble.make(config, evaluations)
        switches.check(recipe)
    with processes.together('the arithmetic of this machine'):
        self_test.check()
    processes.same('The rows or the seeds', recipe.fingerprint)
    with processes.together('the workdir'):
        stack.enter_context(
            workdir.open_workdir(
                folder,
                config,
                may_change,
                steps=settled(config),
                whole=settings.plain,
                accept=functools.partial(_check_stream, recipe, folder),
            )
        )
    return recipe, guard


def free(config):
    """Dotted keys that say nothing of what a run learns: MAY_CHANGE, where its rows lie,
    and what these are called in metrics."""
    return (*MAY_CHANGE, *_places(config))


def _places(config):
    sections = {'data': config['data']}
    for number, phase in enumerate(config['phases']):
        sections[f'phases.{number}.data'] = phase.get('data') or {}
    for path, data in sections.items():
        yield f'{path}.folder'
        for number in range(len(data.get('mixture') or ())):
            yield from (f'{path}.mixture.{number}.{key}' for key in ('folder', 'name'))


def _check_stream(recipe, folder):
    """Raises ValueError where the newest checkpoint was trained on other rows, before the
    config says so."""
    newest = restore.newest_good(Path(folder, 'checkpoints'))
    if newest:
        stream.check_fingerprint(newest[1]['fingerprint'], recipe.fingerprint)


def settled(config):
    """Where a step must lie before the config is settled; None if it is at once."""
    matched = config['baseline']
    # Times measured for one config are read from the folder, and are none of another's.
    timed = matched != 'none' and matched['by'] == 'time'
    return None if timed else 'checkpoints'


def _guard(folder, **seconds):
    """The watchdog of this process, with a file of its own."""
    index = jax.process_index()
    name = watchdog.FILE if index == 0 else f'{index}-{watchdog.FILE}'
    return watchdog.Watchdog(f'{folder}/{name}', **seconds)
