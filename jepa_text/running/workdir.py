"""Workdirs: one folder, one config and one process per run, so that reruns can resume."""

import contextlib
import fnmatch
import json
import logging
from pathlib import Path

import jax

from jepa_text.files import atomic, checksums, locks, paths
from jepa_text.running import metrics, restore

_log = logging.getLogger(__name__)
CONFIG, LOCK = 'config.json', 'lock'
_MAX_SHOWN = 10


@contextlib.contextmanager
def open_workdir(workdir, config, may_change=(), whole=dict, accept=lambda: None):
    """Locks a run's folder for this process and checks that it belongs to this config.

    Yields the absolute path. The first use creates the folder and writes config.json;
    later uses compare. Dotted keys that match, or are below, one of the patterns
    `may_change` may differ between resumes (config.json then takes the new values); '*'
    stands for any text. All keys may differ while there is no complete checkpoint: such a
    run has nothing to lose, and may have written its config just before it failed to
    start. `whole` adds missing keys to the saved config, or raises ValueError for unknown
    ones. `accept()` may reject new values before they are written. The kernel releases
    the lock when the process dies, for whatever reason. In a job of several processes
    only process 0 locks and writes. Raises RuntimeError if another process holds it.
    """
    path = Path(paths.local('The workdir', workdir)).absolute()
    if jax.process_index() > 0:
        yield path
        return
    config = json.loads(json.dumps(config))  # tuples become lists
    with contextlib.ExitStack() as stack:
        try:
            path.mkdir(parents=True, exist_ok=True)
            check(path)
            stack.enter_context(locks.held(path / LOCK, f'The workdir {path}'))
            steps = path / restore.STEPS
            if restore.steps(steps):
                _agree(path, config, may_change, whole, accept)
            else:
                _check_not_lost(path, steps)
                _write(path, config)
        except OSError as error:
            if error.errno is None:  # already has a clear message
                raise
            raise type(error)(
                error.errno,
                f'The workdir {path} cannot be used ({error.strerror}): make it a folder '
                'that can be written to, or give another --workdir.',
            ) from error
        yield path


def is_locked(path):
    """Whether another process holds the lock of a folder; False if it does not exist."""
    path = Path(path, LOCK)
    try:
        with locks.held(path, path) if path.exists() else contextlib.nullcontext():
            return False
    except RuntimeError:
        return True


def differences(old, new):
    """{dotted path: (old, new)} of every value that differs; '(none)' if absent."""
    old, new = _flatten(old), _flatten(new)
    absent = '(none)'
    pairs = {key: (old.get(key, absent), new.get(key, absent)) for key in old | new}
    return {key: pair for key, pair in sorted(pairs.items()) if pair[0] != pair[1]}


def disallowed(changed, may_change):
    """The `differences` that match none of the patterns `may_change`, as open_workdir."""
    allowed = [end for pattern in may_change for end in (pattern, f'{pattern}.*')]
    return {
        key: pair
        for key, pair in changed.items()
        if not any(fnmatch.fnmatchcase(key, one) for one in allowed)
    }


def describe(changed):
    """`differences` as text, at most ten of them."""
    lines = [f'{key}: {old!r} -> {new!r}' for key, (old, new) in changed.items()]
    more = f', and {len(lines) - _MAX_SHOWN} more' if len(lines) > _MAX_SHOWN else ''
    return ', '.join(lines[:_MAX_SHOWN]) + more


def _check_not_lost(path, steps):
    log = path / metrics.FILE
    if log.is_file() and log.stat().st_size and not steps.exists():
        raise ValueError(
            f'{log} records a run, but its folder {steps} is missing. The run would '
            'start again at step 0 and overwrite its metrics, so it was not started. '
            'Restore the folder from a backup, or give another --workdir.'
        )


def check(path):
    """Raises ValueError if a folder has files that are not of a run, and PermissionError
    if it, or the one to make it in, cannot be written to."""
    atomic.check_writable(path)
    # A run that died immediately leaves only a lock or a partial config.json.
    files = path.iterdir() if path.exists() else ()
    names = {p.name for p in files if not fnmatch.fnmatch(p.name, f'{CONFIG}.*.tmp')}
    # At an address, the folder is new, and has a file with the address of checkpoints.
    pointer = {restore.STEPS} if (path / restore.STEPS).is_file() else set()
    others = sorted(names - {LOCK} - pointer)
    if others and not (_is_of_run(path / CONFIG) or restore.steps(path / restore.STEPS)):
        raise ValueError(
            f'The folder {path} is not empty and has no {CONFIG} of a run, so it is not '
            f'the workdir of one (it contains {", ".join(others[:5])}). Nothing was '
            'written. Give an empty or new folder as --workdir.'
        )


def _is_of_run(file):
    """Whether a file is the config of a run; exported models have a config.json too."""
    try:
        return 'phases' in json.loads(file.read_text(encoding='utf-8'))
    except (FileNotFoundError, ValueError, RecursionError):
        return False


def _write(path, config):
    text = json.dumps(config, indent=2, sort_keys=True) + '\n'
    atomic.write(path / CONFIG, text)


def _agree(path, config, may_change, whole, accept):
    """Updates config.json, or raises ValueError if the existing one differs."""
    file = path / CONFIG
    if not file.exists():
        raise ValueError(
            f'{path} has checkpoints, but no {CONFIG}: copy it again, or restore it from '
            'a backup.'
        )
    saved = checksums.read_json(file)
    try:
        old = whole(saved)
    except ValueError as error:
        raise ValueError(
            f'{file}: {error} If an earlier version wrote this folder, finish it with '
            'that version, or give another --workdir (docs/upgrading.md).'
        ) from error
    changed = differences(old, config)
    if forbidden := disallowed(changed, may_change):
        how = ', with init_from from a step of this one' if 'steps' in forbidden else ''
        raise ValueError(
            f'The workdir {path} belongs to a run with another config: '
            f'{describe(forbidden)}. Use the same config to resume that run, or give '
            f'another --workdir to start a new one{how}. The saved config is {file}.'
        )
    if changed:
        accept()
        _log.info('%s: changed since the last start: %s', path, describe(changed))
        _write(path, config)


def _flatten(value, path=''):
    """{'a': {'b': 1}, 'c': [2]} -> {'a.b': 1, 'c.0': 2}."""
    if not value or not isinstance(value, dict | list):
        return {path: value}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    flat = {}
    for key, inner in items:
        flat |= _flatten(inner, f'{path}.{key}' if path else str(key))
    return flat
