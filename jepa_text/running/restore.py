"""Checkpoint reading: the full state, parts of it, or the metadata of a complete step.

    <folder>/<step>/state     the arrays (Orbax)
    <folder>/<step>/leaves    path -> dtype and shape of every array
    <folder>/<step>/meta      the caller's dict: data cursor, phases
    <folder>/<step>/CHECKSUMS.json sizes and checksums; steps without it do not count
    <folder>/<step>/away      exists if the other files are only at an address
                              (running/shared_runs.py), except for the meta

Only reads, so it is safe next to a live run; `checkpoint.Checkpointer` writes the
folders.
"""

import contextlib
import functools
import logging
from pathlib import Path

import jax
import orbax.checkpoint as ocp

from jepa_text.files import checksums

_log = logging.getLogger(__name__)
REMOTE = 'away'
_MAX_SHOWN = 10
# Orbax's file name for a JSON item.
_JSON = 'metadata'


def newest_good(folder):
    """(step, meta) of the newest step whose checksums match, or None.

    Logs a warning with the reason for each newer step that is skipped.
    """
    step = newest_good_step(folder)
    return None if step is None else (step, read_json(_path(folder, step), 'meta'))


def newest_good_step(folder):
    """The step number alone; see `newest_good`."""
    for step in reversed(steps(folder)):
        reason = problem(_path(folder, step))
        if reason is None:
            return step
        _log.warning('Checkpoint %s is skipped: %s.', _path(folder, step), reason)
    return None


def meta(folder, step):
    """The meta of one step. Raises as `part` does."""
    return read_json(_trusted(folder, step), 'meta')


def part(folder, step, abstract_part):
    """A part of the state of a step, such as {'params': {'encoder': ...}}.

    As `read_state`, but raises ValueError also if the step is damaged.
    """
    path = _trusted(folder, step)
    _compare(path, read_json(path, 'leaves'), describe(abstract_part), extra=())
    return _read_arrays(path, abstract_part)


def steps(folder):
    """The steps that have a folder, complete or not, in increasing order."""
    folder = Path(folder)
    if not folder.is_dir():
        return []
    numbered = [path for path in folder.iterdir() if path.name.isdecimal()]
    return sorted(int(path.name) for path in numbered if path.is_dir())


def is_remote(path):
    """Whether the arrays of a step are only at an address, not on this machine."""
    return (path / REMOTE).exists()


def problem(path):
    """The reason why a step is unusable, or None; an unchanged folder is hashed once.

    Raises OSError if the disk does not let it be read: then it may be intact.
    """
    if is_remote(path):
        return None
    try:
        return _verified(path, checksums.stamp(path))
    except FileNotFoundError as error:  # removed meanwhile by its run
        return f'it cannot be read ({error})'
    except OSError as error:
        raise type(error)(
            error.errno,
            f'The checkpoint {path} cannot be read ({error.strerror}: {error.filename}), '
            'so it is unknown whether it is intact. Fix the disk or the permissions and '
            'run the same command again; or move this folder away, and the run resumes '
            'from the checkpoint before it',
        ) from error


def unusable_error(path, reason):
    """The ValueError for a step that has a `problem`."""
    return ValueError(
        f'The checkpoint {path} cannot be trusted: {reason}. Restore another step: '
        'newest_good returns the newest intact one.'
    )


def read_state(path, abstract_state):
    """The full state of a step: every leaf bit for bit, with its dtype and sharding.

    `abstract_state` contains a jax.ShapeDtypeStruct for every array (one without a
    sharding is placed on the first device). The caller has verified the checksums. Raises
    FileNotFoundError for a missing step, and ValueError if any path, shape or dtype
    differs.
    """
    found, wanted = read_json(path, 'leaves'), describe(abstract_state)
    _compare(path, found, wanted, extra=found.keys() - wanted.keys())
    return _read_arrays(path, abstract_state)


def read_json(path, item):
    """One of the JSON items of a step. Raises FileNotFoundError if it is missing."""
    if not (path / item).is_dir():
        raise FileNotFoundError(
            f'There is no checkpoint of step {path.name} in {path.parent}. There are: '
            f'{", ".join(map(str, steps(path.parent))) or "none"}.'
        )
    # Orbax itself would require all processes to read at the same time.
    return checksums.read_json(path / item / _JSON)


def describe(state):
    """{'params/encoder/...': 'float32[8,4]'} for every leaf.

    Raises ValueError for a leaf that is not an array.
    """
    described = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        key = jax.tree_util.keystr(path, simple=True, separator='/')
        if not (hasattr(leaf, 'shape') and hasattr(leaf, 'dtype')):
            raise ValueError(
                f'The leaf {key} of the state is {leaf!r}, a {type(leaf).__name__} and '
                'not an array, so its dtype would not survive a restart. Convert it to '
                'an array, or put it into the meta.'
            )
        described[key] = f'{leaf.dtype}[{",".join(map(str, leaf.shape))}]'
    return described


@contextlib.contextmanager
def quiet():
    """Context manager: keeps Orbax's log messages off the terminal, except for errors.

    They are logged here at DEBUG level. So are the tracebacks of a failed background save
    (some 200 lines, three times), because the Checkpointer raises or logs that error.
    Every other error is passed on.
    """
    absl, demote = logging.getLogger('absl'), _DemoteOrbax()
    absl.addFilter(demote)
    try:
        yield
    finally:
        absl.removeFilter(demote)


class _DemoteOrbax(logging.Filter):
    def filter(self, record):
        if str(Path('orbax', 'checkpoint')) not in record.pathname:
            return True
        repeated = bool(record.exc_info) and record.funcName in ('run', '_thread_func')
        if record.levelno >= logging.ERROR and not repeated:
            return True
        _log.debug('%s', record.getMessage(), exc_info=record.exc_info)
        return False


@functools.lru_cache(maxsize=16)
def _verified(path, stamp):
    del stamp  # only part of the cache key
    return checksums.verify(path)


def _path(folder, step):
    return Path(folder).expanduser().absolute() / str(step)


def _trusted(folder, step):
    path = _path(folder, step)
    reason = problem(path) if path.is_dir() else None
    if reason:
        raise unusable_error(path, reason)
    return path


def _compare(path, found, wanted, extra):
    """Raises ValueError that lists every leaf in which two states differ."""
    lines = [f'{k} is {found[k]} in the checkpoint, not expected' for k in sorted(extra)]
    for key, kind in wanted.items():
        if key not in found:
            lines.append(f'{key} is not in the checkpoint, {kind} is expected')
        elif found[key] != kind:
            lines.append(f'{key} is {found[key]} in the checkpoint, {kind} is expected')
    if lines:
        more = f'; and {len(lines) - _MAX_SHOWN} more' if len(lines) > _MAX_SHOWN else ''
        raise ValueError(
            f'The checkpoint {path} does not match this state: '
            f'{"; ".join(lines[:_MAX_SHOWN])}{more}. Use the config that it was saved '
            'with, or another folder.'
        )


def _read_arrays(path, abstract):
    abstract = jax.tree.map(_placed, abstract)
    restore_args = ocp.checkpoint_utils.construct_restore_args(abstract)
    request = ocp.args.PyTreeRestore(
        abstract, restore_args=restore_args, partial_restore=True
    )
    try:
        with quiet(), ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as reader:
            arrays = reader.restore(path, args=ocp.args.Composite(state=request)).state
    except (ValueError, OSError) as error:  # TensorStore: ValueError on disk errors
        raise RuntimeError(
            f'The checkpoint {path} has valid checksums but could not be read: '
            f'{error}. Run the same command again; if the error persists, move this '
            'folder away, and the run resumes from the checkpoint before it.'
        ) from error
    # Orbax leaves placeholders for missing arrays and casts dtypes; both are errors here.
    missing = sum(not isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(arrays))
    if missing or describe(arrays) != describe(abstract):
        raise RuntimeError(
            f'The checkpoint {path} is intact but was not read back as it was saved '
            f'({missing} arrays are missing). Please report this with your versions of '
            'jax and orbax-checkpoint.'
        )
    return arrays


def _placed(leaf):
    sharding = getattr(leaf, 'sharding', None)
    sharding = sharding or jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
