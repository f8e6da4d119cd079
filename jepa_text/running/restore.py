"""Complete steps on disk -> state, part of a state, or meta. Only reads.

    <folder>/<step>/state     the arrays (Orbax)
    <folder>/<step>/leaves    path -> dtype and shape of every array
    <folder>/<step>/meta      the caller's dict: data cursor, phases
    <folder>/<step>/CHECKSUMS.json sizes and checksums; a step without it does not count
    <folder>/<step>/away     its other files lie at an address (running/shared_runs.py),
                             where it is whole; of them only the meta is here

Safe next to a run that is alive. `checkpoint.Checkpointer` writes these folders.
"""

import contextlib
import functools
import logging
from pathlib import Path

import jax
import orbax.checkpoint as ocp

from jepa_text.files import checksums

_log = logging.getLogger(__name__)
AWAY = 'away'
_SHOWN = 10
# What Orbax calls the file of a JSON item.
_JSON = 'metadata'


def newest_good(folder):
    """(step, meta) of the newest step whose checksums fit, or None.

    Warns once for each newer step that it passes over, with the reason.
    """
    step = newest_good_step(folder)
    return None if step is None else (step, read_json(_path(folder, step), 'meta'))


def newest_good_step(folder):
    """The number alone; see `newest_good`."""
    for step in reversed(steps(folder)):
        reason = why_not(_path(folder, step))
        if reason is None:
            return step
        _log.warning('Checkpoint %s is passed over: %s.', _path(folder, step), reason)
    return None


def meta(folder, step):
    """The meta of one step. Raises as `state` does."""
    return read_json(_trusted(folder, step), 'meta')


def leaves(folder, step):
    """{'params/encoder/...': 'float32[8,4]'} of every array in a step."""
    return read_json(_trusted(folder, step), 'leaves')


def state(folder, step, abstract_state):
    """The whole state of a step: every leaf bit for bit, with its dtype and sharding.

    `abstract_state` holds a jax.ShapeDtypeStruct for every array (one without a sharding
    goes to the first device). Raises FileNotFoundError for a step that is not there, and
    ValueError when it is damaged or when any path, shape or dtype differs.
    """
    return read_state(_trusted(folder, step), abstract_state)


def part(folder, step, abstract_part):
    """Like `state`, for some subtrees only, such as {'params': {'encoder': ...}}."""
    path = _trusted(folder, step)
    _compare(path, read_json(path, 'leaves'), describe(abstract_part), extra=())
    return _read_arrays(path, abstract_part)


def steps(folder):
    """The steps that have a folder, complete or not, in rising order."""
    folder = Path(folder)
    if not folder.is_dir():
        return []
    named = [path for path in folder.iterdir() if path.name.isdecimal()]
    return sorted(int(path.name) for path in named if path.is_dir())


def is_away(path):
    """Are the arrays of a step at an address, and not here?"""
    return (path / AWAY).exists()


def why_not(path):
    """The reason why a step does not count, or None; hashes no unchanged folder twice.

    Raises OSError when the disk does not let it be read, which is no reason: it may be
    whole.
    """
    if is_away(path):
        return None
    try:
        return _verdict(path, checksums.stamp(path))
    except FileNotFoundError as error:  # removed meanwhile by the run that it is of
        return f'it cannot be read ({error})'
    except OSError as error:
        raise type(error)(
            error.errno,
            f'The checkpoint {path} cannot be read ({error.strerror}: {error.filename}), '
            'so nobody knows whether it is whole. Mend the disk or the permissions and '
            'run the same command again; or move this folder away, and the run goes on '
            'from the checkpoint before it',
        ) from error


def distrust(path, reason):
    """The error for a step that is not to be restored."""
    return ValueError(
        f'The checkpoint {path} cannot be trusted: {reason}. Restore another step: '
        'newest_good finds the newest one that is whole.'
    )


def read_state(path, abstract_state):
    """`state` without the checksums, for a caller that has verified it."""
    found, wanted = read_json(path, 'leaves'), describe(abstract_state)
    _compare(path, found, wanted, extra=found.keys() - wanted.keys())
    return _read_arrays(path, abstract_state)


def read_json(path, item):
    """One of the JSON items of a step. Raises FileNotFoundError when it is not there."""
    if not (path / item).is_dir():
        raise FileNotFoundError(
            f'There is no checkpoint of step {path.name} in {path.parent}. There are: '
            f'{", ".join(map(str, steps(path.parent))) or "none"}.'
        )
    # As Orbax wrote it, but without Orbax, for which all processes must read at once.
    return checksums.read_json(path / item / _JSON)


def describe(state):
    """{'params/encoder/...': 'float32[8,4]'} of every leaf.

    Raises ValueError for a leaf that is no array.
    """
    described = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        key = jax.tree_util.keystr(path, simple=True, separator='/')
        if not (hasattr(leaf, 'shape') and hasattr(leaf, 'dtype')):
            raise ValueError(
                f'The leaf {key} of the state is {leaf!r}, a {type(leaf).__name__} and '
                'not an array, so its dtype would not survive a restart. Make it an '
                'array, or put it into the meta.'
            )
        described[key] = f'{leaf.dtype}[{",".join(map(str, leaf.shape))}]'
    return described


@contextlib.contextmanager
def quiet():
    """Keeps Orbax's chatter off the terminal meanwhile, without hiding an error.

    Its notes go to DEBUG here. So do the traces of a failed background save (three times
    the same, some 200 lines), since the Checkpointer raises or reports that very error.
    Every other error passes.
    """
    absl, screen = logging.getLogger('absl'), _Screen()
    absl.addFilter(screen)
    try:
        yield
    finally:
        absl.removeFilter(screen)


class _Screen(logging.Filter):
    def filter(self, record):
        if str(Path('orbax', 'checkpoint')) not in record.pathname:
            return True
        repeated = bool(record.exc_info) and record.funcName in ('run', '_thread_func')
        if record.levelno >= logging.ERROR and not repeated:
            return True
        _log.debug('%s', record.getMessage(), exc_info=record.exc_info)
        return False


@functools.lru_cache(maxsize=16)
def _verdict(path, stamp):
    del stamp  # only a key of the cache
    return checksums.verify(path)


def _path(folder, step):
    return Path(folder).expanduser().absolute() / str(step)


def _trusted(folder, step):
    path = _path(folder, step)
    reason = why_not(path) if path.is_dir() else None
    if reason:
        raise distrust(path, reason)
    return path


def _compare(path, found, wanted, extra):
    """Raises ValueError that lists every leaf in which two states differ."""
    lines = [f'{k} is {found[k]} in the checkpoint, not wanted' for k in sorted(extra)]
    for key, kind in wanted.items():
        if key not in found:
            lines.append(f'{key} is not in the checkpoint, {kind} is wanted')
        elif found[key] != kind:
            lines.append(f'{key} is {found[key]} in the checkpoint, {kind} is wanted')
    if lines:
        more = f'; and {len(lines) - _SHOWN} more' if len(lines) > _SHOWN else ''
        raise ValueError(
            f'The checkpoint {path} does not fit this state: {"; ".join(lines[:_SHOWN])}'
            f'{more}. Use the config that it was saved with, or another folder.'
        )


def _read_arrays(path, abstract):
    abstract = jax.tree.map(_placed, abstract)
    given = ocp.checkpoint_utils.construct_restore_args(abstract)
    wanted = ocp.args.PyTreeRestore(abstract, restore_args=given, partial_restore=True)
    try:
        with quiet(), ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as reader:
            arrays = reader.restore(path, args=ocp.args.Composite(state=wanted)).state
    except (ValueError, OSError) as error:  # TensorStore calls a broken disk a ValueError
        raise RuntimeError(
            f'The checkpoint {path} is whole by its checksums but could not be read: '
            f'{error}. Run the same command again; if it stays so, move this folder '
            'away, and the run goes on from the checkpoint before it.'
        ) from error
    # Orbax leaves a placeholder where it finds nothing, and casts; neither may pass.
    holes = sum(not isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(arrays))
    if holes or describe(arrays) != describe(abstract):
        raise RuntimeError(
            f'The checkpoint {path} is whole but was not read back as it was saved '
            f'({holes} arrays are missing). Please report this with the versions of jax '
            'and orbax-checkpoint.'
        )
    return arrays


def _placed(leaf):
    sharding = getattr(leaf, 'sharding', None)
    sharding = sharding or jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
