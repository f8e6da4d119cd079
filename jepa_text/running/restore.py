"""Reading checkpoints: the state of a run, or parts of it, verified by value checksums.

    <folder>/<step>/state    the arrays (Orbax)
    <folder>/<step>/meta     JSON: the caller's dict, the kind and the checksums of every
                             array (value_checksums.py), and a sha256 of all this

Orbax returns flipped bits without an error, and offers steps that lack a part. Here a
step is used only if all that is read of it has the checksums it was saved with.

Only reads, so it is safe next to a live run; `checkpoint.Checkpointer` writes. A folder
may be an address on gs://. Checkpoints of version 0.1 have a CHECKSUMS.json instead, with
a sha256 of each file.
"""

import contextlib
import errno
import functools
import json
import logging
import math
import os
import re
from typing import NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils import epath

from jepa_text.files import addresses, checksums
from jepa_text.parallel import leaves
from jepa_text.running import value_checksums

_log = logging.getLogger(__name__)
STEPS = 'checkpoints'
_MAX_SHOWN = 10
_VERSION_0_1 = 'CHECKSUMS.json'
# Errors of disks, networks and permissions: the step may be whole. Code 2: no such file.
_OF_MACHINE = re.compile(
    "os_error_code='(?!2')|PERMISSION_DENIED|UNAVAILABLE|DEADLINE_EXCEEDED"
    '|UNAUTHENTICATED|RESOURCE_EXHAUSTED|ABORTED|CANCELLED'
)
# What Orbax and TensorStore raise for files that are damaged or missing.
_OF_DAMAGE = (
    *(ValueError, LookupError, TypeError, AttributeError, AssertionError, EOFError),
    *(ArithmeticError, RecursionError, NotImplementedError),
)


class DamagedError(ValueError):
    """A checkpoint is not as it was saved; `reason` says how."""

    def __init__(self, path, reason):
        super().__init__(
            f'The checkpoint {path} cannot be trusted: {reason}. Use another step: '
            'restore.newest_good names the newest intact one.'
        )
        self.reason = reason


class Record(NamedTuple):
    """What a checkpoint says about itself: the caller's meta, and {path of a leaf: its
    kind, as float32[8,4]} and {path: checksums} of its arrays."""

    meta: dict
    kinds: dict
    sums: dict


def folder_of(folder, step=''):
    """The absolute epath.Path of a folder of checkpoints, or of one step in it.

    A file called checkpoints has the address of the folder (places.py).
    """
    text = os.fspath(folder)
    if not addresses.is_address(text):
        text = os.path.abspath(os.path.expanduser(text))
    else:
        addresses.check(text)
    if os.path.isfile(text) and os.path.basename(text) == STEPS:
        text = epath.Path(text).read_text()
    return epath.Path(text) / str(step)


def steps(folder):
    """The steps that were saved, damaged or not, in increasing order."""
    folder = folder_of(folder)
    if addresses.is_address(os.fspath(folder)):
        # An object store cannot rename: there, Orbax writes this file at the end.
        system, path = addresses.filesystem(os.fspath(folder))
        system.invalidate_cache()
        numbered = [x.split('/')[-2] for x in system.glob(f'{path}/*/commit_success.txt')]
        return sorted(int(name) for name in numbered if name.isdecimal())
    if not folder.is_dir():
        return []
    numbered = [path for path in folder.iterdir() if path.name.isdecimal()]
    return sorted(int(path.name) for path in numbered if path.is_dir())


def newest_good(folder, last=math.inf):
    """(step, meta) of the newest intact step, up to step `last`; None if there is none.

    Logs a warning with the reason for each newer step that is skipped.
    """
    return newest(folder, verified_meta, last)


def newest(folder, read, last=math.inf):
    """(step, read(folder, step)) of the newest step for which it finds no damage."""
    tried = set()
    while left := [x for x in steps(folder) if x <= last and x not in tried]:
        step = left[-1]
        tried.add(step)
        try:
            return step, read(folder, step)
        except (DamagedError, FileNotFoundError) as error:
            if step not in steps(folder):
                continue  # the run has removed it, so there is a newer one
            if not isinstance(error, DamagedError):
                raise
            warn(folder_of(folder, step), error)
    return None


def warn(path, error):
    """Logs that a step is skipped because of a DamagedError."""
    _log.warning('Checkpoint %s is skipped: %s.', path, error.reason)


def meta(folder, step):
    """The meta of one step. Raises as `part` does."""
    return record(_existing(folder, step)).meta


def identity(folder, step):
    """A checksum that changes with the values of a step."""
    path = _existing(folder, step)
    old = path / _VERSION_0_1
    return checksums.checksum((old if old.exists() else _meta_file(path)).read_text())


def verified_meta(folder, step):
    """The meta of a step, after all of it was read. Raises as `part` does.

    An unchanged local folder is read once.
    """
    path = _existing(folder, step)
    is_local = not addresses.is_address(os.fspath(path))
    with explained(path):
        return _verified_meta(path, checksums.stamp(path) if is_local else object())


def part(folder, step, abstract):
    """A part of the state of a step, such as {'params': {'encoder': ...}}.

    `abstract` contains a jax.ShapeDtypeStruct for every wanted array; one without a
    sharding is placed on the first device. Raises FileNotFoundError for a missing step,
    DamagedError for a damaged one, ValueError if a path, shape or dtype differs, and
    OSError if it cannot be read.
    """
    path = _existing(folder, step)
    saved = record(path)
    compare(path, saved.kinds, describe(abstract))
    arrays = read(path, abstract, _as_numpy)
    check(path, saved, arrays)
    return jax.tree.map(_placed, abstract, arrays)


def record(path):
    """The Record of a step; its JSON is verified. Raises as `part` does."""
    with explained(path):
        if (path / _VERSION_0_1).exists():
            return _record_of_0_1(path)
        saved = json.loads(_meta_file(path).read_text())
        content = {key: saved[key] for key in ('meta', 'leaves')}
        if checksums.checksum(content) != saved['sha256']:
            raise DamagedError(path, 'the content of meta has changed')
        each = saved['leaves'].items()
        kinds = {key: leaf['kind'] for key, leaf in each}
        return Record(saved['meta'], kinds, {key: leaf['sums'] for key, leaf in each})


def to_json(meta, state):
    """The content of the item meta: `meta` and the checksums of a state. A collective.

    Raises ValueError for a leaf that is not an array.
    """
    kinds, sums = describe(state), value_checksums.of_leaves(leaves.by_name(state))
    each = {key: {'kind': kind, 'sums': sums[key]} for key, kind in kinds.items()}
    content = {'meta': meta, 'leaves': each}
    return content | {'sha256': checksums.checksum(content)}


def read(path, abstract, restore_args):
    """The unverified arrays of a step that `abstract` names, by restore_args(leaf).

    Each process reads what it needs by itself, so that none waits for one that fails.
    Raises DamagedError and OSError.
    """
    with explained(path), quiet():
        # Not needed, but damage of it is found whatever is read.
        ocp.PyTreeCheckpointHandler().metadata(path / 'state')
        return _read(path, abstract, restore_args)


def _read(path, abstract, restore_args):
    request = ocp.args.PyTreeRestore(
        abstract, restore_args=jax.tree.map(restore_args, abstract), partial_restore=True
    )
    arrays = ocp.PyTreeCheckpointHandler().restore(path / 'state', args=request)
    # Orbax leaves placeholders for missing arrays and casts dtypes: both are no arrays of
    # this step.
    kinds = (jax.Array, np.ndarray)
    absent = [x for x in jax.tree.leaves(arrays) if not isinstance(x, kinds)]
    if absent or describe(arrays) != describe(abstract):
        raise DamagedError(path, f'{len(absent) or "some"} arrays are not read as saved')
    return arrays


def check(path, saved, arrays):
    """Raises DamagedError unless the arrays have the checksums of the Record. For global
    arrays, a collective."""
    if not saved.sums:  # of version 0.1, whose files were verified
        return
    for key, sums in value_checksums.of_leaves(leaves.by_name(arrays)).items():
        if sums != saved.sums[key]:
            raise DamagedError(path, f'the values of {key} have changed')


def compare(path, kinds, wanted, exactly=False):
    """Raises ValueError that lists every leaf in which two states differ."""
    if found := mismatches(kinds, wanted, 'in the checkpoint', exactly):
        raise ValueError(
            f'The checkpoint {path} does not match this state: {found}. Use the config '
            'that it was saved with, or another folder.'
        )


def mismatches(kinds, wanted, where, exactly=True):
    """Text on the leaves of two states {path: kind} that differ, '' if none does."""
    extra = sorted(kinds.keys() - wanted.keys()) if exactly else ()
    lines = [f'{key} is {kinds[key]} {where}, not expected' for key in extra]
    for key, kind in wanted.items():
        if kinds.get(key) != kind:
            lines.append(f'{key} is {kinds.get(key, "not")} {where}, {kind} is expected')
    more = f'; and {len(lines) - _MAX_SHOWN} more' if len(lines) > _MAX_SHOWN else ''
    return '; '.join(lines[:_MAX_SHOWN]) + more


def describe(state):
    """{'params/encoder/...': 'float32[8,4]'} for every leaf.

    Raises ValueError for a leaf that is not an array.
    """
    named = leaves.by_name(state)
    for key, leaf in named.items():
        if not (hasattr(leaf, 'shape') and hasattr(leaf, 'dtype')):
            raise ValueError(
                f'The leaf {key} of the state is {leaf!r}, a {type(leaf).__name__} and '
                'not an array, so its dtype would not survive a restart. Convert it to '
                'an array, or put it into the meta.'
            )
    return {k: f'{x.dtype}[{",".join(map(str, x.shape))}]' for k, x in named.items()}


@contextlib.contextmanager
def explained(path):
    """Turns errors while a step is read into DamagedError, or OSError if the machine,
    the network or permissions are the cause. Others, as of a server, are passed on."""
    try:
        yield
    except DamagedError:
        raise
    except (OSError, *_OF_DAMAGE) as error:
        is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        is_system = isinstance(error, OSError)
        if is_missing or not (is_system or _OF_MACHINE.search(str(error))):
            raise DamagedError(path, f'{type(error).__name__}: {error}') from error
        raise (type(error) if is_system else OSError)(
            getattr(error, 'errno', None) or errno.EIO,
            f'The checkpoint {path} cannot be read ({error}), so it is unknown whether '
            'it is intact. Fix the disk or the permissions and run the same command '
            'again; or move this folder away, and the run resumes from the checkpoint '
            'before it',
        ) from error


@contextlib.contextmanager
def quiet():
    """Context manager: drops Orbax's log messages, except for errors.

    Also the tracebacks of a failed background save (some 200 lines, three times), because
    the Checkpointer raises or logs that error.
    """

    def is_shown(record):
        is_error = record.levelno >= logging.ERROR and not record.exc_info
        return is_error or os.path.join('orbax', 'checkpoint') not in record.pathname

    absl = logging.getLogger('absl')
    absl.addFilter(is_shown)
    try:
        yield
    finally:
        absl.removeFilter(is_shown)


@functools.lru_cache(maxsize=16)
def _verified_meta(path, stamp):
    """The meta of a step; one array at a time is in memory."""
    del stamp  # only part of the cache key
    saved = record(path)
    with quiet():
        tree = ocp.PyTreeCheckpointHandler().metadata(path / 'state').tree
        whole, structure = jax.tree.flatten(tree)
        shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in whole]
        kinds = describe(structure.unflatten(shapes))
        compare(path, kinds, saved.kinds, exactly=True)
        for number, shape in enumerate(shapes if saved.sums else ()):
            one = [None] * len(shapes)  # None: no leaf there
            one[number] = shape
            check(path, saved, _read(path, structure.unflatten(one), _as_numpy))
    return saved.meta


def _as_numpy(leaf):
    return ocp.RestoreArgs(restore_type=np.ndarray)


def _record_of_0_1(path):
    entries = json.loads((path / _VERSION_0_1).read_text())['files']
    for name, entry in entries.items():
        if checksums.sha256(path / name) != entry['sha256']:
            raise DamagedError(path, f'the content of {name} has changed')
    kinds = json.loads((path / 'leaves' / 'metadata').read_text())
    return Record(json.loads(_meta_file(path).read_text()), kinds, {})


def _meta_file(path):
    return path / 'meta' / 'metadata'  # as Orbax names it


def _existing(folder, step):
    path = folder_of(folder, step)
    if not path.is_dir():
        raise FileNotFoundError(
            f'There is no checkpoint of step {step} in {folder}. There are: '
            f'{", ".join(map(str, steps(folder))) or "none"}.'
        )
    return path


def _placed(abstract, array):
    sharding = getattr(abstract, 'sharding', None)
    sharding = sharding or jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    return jax.make_array_from_callback(array.shape, sharding, lambda part: array[part])
