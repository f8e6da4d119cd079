"""One folder, one config, one process: what makes "run it again to resume" safe."""

import contextlib
import errno
import json
import logging
import os
import socket
from pathlib import Path

import jax

from jepa_text.config import renamed
from jepa_text.files import atomic, checksums, locks, paths

_log = logging.getLogger(__name__)
CONFIG, LOCK = 'config.json', 'lock'
_SHOWN = 10


@contextlib.contextmanager
def open_workdir(workdir, config, may_change=(), steps=None, whole=None, accept=None):
    """Locks a run's folder for this process and checks that it belongs to this config.

    Yields the absolute path. The first use makes the folder and writes config.json; a
    later use compares. Keys under the dotted prefixes `may_change` may differ between
    resumes (config.json then takes the new values), and all may while its folder
    `steps` has no complete one: such a run has nothing to lose, and may have written its
    config only to learn that its start does not fit. `whole` makes of the config there
    one with all keys, or raises ValueError for what no config has. `accept()` may refuse
    other values, before they are written. The lock is the
    kernel's, so it goes when the process goes, by whatever death. In a job of several
    processes only process 0 locks and writes.

    Raises RuntimeError when another process holds the folder, ValueError for another
    config, a folder that is no workdir, or a config that is not JSON, and OSError
    (FileExistsError, PermissionError, ...) when the folder can't be made or written.
    """
    path = Path(paths.local('The workdir', workdir)).expanduser().absolute()
    if jax.process_index() > 0:
        yield path
        return
    config = _as_json(config)
    with _explained(path):
        _make(path)
    with locked(path):
        with _explained(path):
            begun = steps is None or has_step(path / steps)
            _agree(path, config, may_change if begun else None, whole, accept)
        yield path


def has_step(folder):
    """Does a folder of checkpoints hold a step that was recorded, damaged since or
    not?"""
    return any(Path(folder).glob(f'*/{checksums.NAME}'))


def differences(old, new):
    """Dotted path -> (old, new) of every value that differs; '(none)' where absent."""
    old, new = _flatten(old), _flatten(new)
    absent = '(none)'
    pairs = {key: (old.get(key, absent), new.get(key, absent)) for key in old | new}
    return {key: pair for key, pair in sorted(pairs.items()) if pair[0] != pair[1]}


def harming(changed, may_change):
    """Those of `differences` that are not under one of the dotted keys."""
    return {key: pair for key, pair in changed.items() if not _under(key, may_change)}


def listed(changed):
    """`differences` in words."""
    lines = [f'{key}: {old!r} -> {new!r}' for key, (old, new) in changed.items()]
    more = f', and {len(lines) - _SHOWN} more' if len(lines) > _SHOWN else ''
    return ', '.join(lines[:_SHOWN]) + more


def _make(path):
    """Makes the folder; refuses one that holds files but was not made by a run."""
    if path.exists() and not path.is_dir():
        raise FileExistsError(
            f'The workdir {path} is a file, not a folder. Give another --workdir, '
            'or move the file away.'
        )
    path.mkdir(parents=True, exist_ok=True)
    # A run that died at once leaves these two and no config.json.
    names = {p.name for p in path.iterdir() if not atomic.is_partial(p.name, CONFIG)}
    others = sorted(names - {LOCK})
    if others and not (path / CONFIG).exists():
        raise ValueError(
            f'The folder {path} is not empty and has no {CONFIG}, so it is not the '
            f'workdir of a run (it holds {", ".join(others[:5])}). Nothing was '
            'written. Give an empty or new folder as --workdir.'
        )


def _agree(path, config, may_change, whole, accept):
    """Writes config.json, or raises ValueError when the one there says otherwise."""
    renamed.check_folder(path)
    file = path / CONFIG
    text = json.dumps(config, indent=2, sort_keys=True) + '\n'
    if not file.exists():
        atomic.write(file, text)
        return
    try:
        old = json.loads(file.read_text(encoding='utf-8'))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f'{file} is not readable as JSON ({error}), so it cannot be checked that '
            'this run belongs here. Restore the file, or give another --workdir.'
        ) from error
    if whole and may_change is not None:
        try:
            old = whole(old)
        except ValueError as error:
            raise ValueError(f'{file}: {error}') from error
    renamed.check(old, str(file))
    changed = differences(old, config)
    harmful = {} if may_change is None else harming(changed, may_change)
    if harmful:
        raise ValueError(_other_config(path, harmful))
    if changed:
        if accept and may_change is not None:
            accept()
        _log.info('%s: changed since the last start: %s', path, listed(changed))
        atomic.write(file, text)


@contextlib.contextmanager
def locked(path):
    """Locks a folder for this process; RuntimeError when another holds it."""
    with _explained(path):
        descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _take(descriptor, path)
        with _explained(path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, _myself().encode(), 0)
        # The file stays: removed, a second process could hold the lock of a ghost.
        yield
    finally:
        os.close(descriptor)


def is_locked(path):
    """Does another process hold a folder, if there is one?"""
    if not Path(path, LOCK).exists():
        return False
    try:
        with locked(Path(path)):
            return False
    except RuntimeError:
        return True


def _take(descriptor, path):
    try:
        held = locks.take(descriptor, wait=False)
    except BlockingIOError:
        holder = os.pread(descriptor, 200, 0).decode(errors='replace').strip()
        own = ' That is this very process: leave the first run first.'
        raise RuntimeError(
            f'The workdir {path} is in use by {holder or "another process"}; two runs in '
            'one folder would destroy each other. Wait for it or stop it, or give '
            f'another --workdir.{own if holder == _myself() else ""}'
        ) from None
    if not held:
        _log.warning(
            'The filesystem of %s has no locks: make sure yourself that no second '
            'process runs in this folder.',
            path,
        )


@contextlib.contextmanager
def _explained(path):
    """Turns the system's errors into a paragraph of the same type."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # already a paragraph
            raise
        remedies = {
            errno.ENOSPC: 'The disk is full: free some space',
            errno.EDQUOT: 'Your quota is used up: free some space',
            errno.EACCES: 'You may not write there: change the permissions',
            errno.EPERM: 'You may not write there: change the permissions',
            errno.EROFS: 'The filesystem is read-only: mount it for writing',
            errno.ENOTDIR: 'A part of the path is a file: move it away',
        }
        remedy = remedies.get(error.errno, 'Make the folder usable')
        raise type(error)(
            error.errno,
            f'The workdir {path} cannot be used ({error.strerror}). {remedy}, or give '
            'another --workdir.',
        ) from error


def _as_json(config):
    """The config as JSON gives it back (tuples as lists), so that old and new compare."""
    try:
        return json.loads(json.dumps(config))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f'The config cannot be written as {CONFIG}: {error}. Use only numbers, '
            'texts, booleans, None, lists and dicts as values.'
        ) from error


def _flatten(value, path=''):
    """{'a': {'b': 1}, 'c': [2]} -> {'a.b': 1, 'c.0': 2}."""
    if not value or not isinstance(value, dict | list):
        return {path: value}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    flat = {}
    for key, inner in items:
        flat |= _flatten(inner, f'{path}.{key}' if path else str(key))
    return flat


def _under(key, prefixes):
    return any(key == prefix or key.startswith(f'{prefix}.') for prefix in prefixes)


def _other_config(path, changed):
    return (
        f'The workdir {path} belongs to a run with another config: {listed(changed)}. '
        'Start with the same config to resume that run, or give another --workdir to '
        f'start a new one. What it began with stands in {path / CONFIG}.'
    )


def _myself():
    return f'process {os.getpid()} on {socket.gethostname()}'
