"""Checkpoint writing: state and metadata, saved asynchronously with checksums.

The layout of a step's folder, and reading it without a writer, are in `restore`. Orbax's
CheckpointManager is not used: it has no hook between finalizing a step and removing older
ones, where the checksums have to be written.
"""

import contextlib
import dataclasses
import errno
import functools
import json
import logging
import shutil
import threading
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp

from jepa_text.config import schema
from jepa_text.files import checksums, paths
from jepa_text.parallel import processes
from jepa_text.running import restore, retention

_log = logging.getLogger(__name__)
_HEADROOM = 1.2
# Seconds that a failing process waits for the end of its last save.
_EXIT_TIMEOUT = 20
# Outcomes of a save; of several processes the highest counts.
_OK, _FAILED, _FULL = range(3)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `checkpoint`."""

    every: int = schema.field(1000, 'steps between saves; 0: only on signals', minimum=0)
    keep: int = schema.field(3, 'number of newest checkpoints to keep', minimum=1)
    keep_every: int | None = schema.field(
        None, 'also keep every step that is a multiple of this', minimum=1
    )
    keep_at: tuple[int, ...] = schema.field(
        (), 'also keep these steps; each is saved, logged and evaluated', minimum=1
    )


class Checkpointer:
    """Saves and restores the state of one run; a context manager.

    Keeps the `keep` newest complete steps, with `keep_every` also every complete step
    that is a multiple of it, and the steps `keep_at`. Opening cleans up after a crash:
    temporary folders are removed; incomplete steps, and damaged steps newer than the
    newest good one, are moved to `damaged-<step>`, which frees their numbers and loses
    nothing. Only one Checkpointer may be open per folder (`workdir` locks it). In a
    distributed job every process calls every method. Process 0 cleans up and writes
    checksums, and after each save calls `saved(keep, keep_every, keep_at)` in the
    background.
    """

    def __init__(
        self,
        folder,
        *,
        keep=Config.keep,
        keep_every=Config.keep_every,
        keep_at=Config.keep_at,
        saved=None,
    ):
        folder = paths.local('The folder of checkpoints', folder)
        self.folder = Path(folder).expanduser().absolute()
        self._policy, self._saved = (keep, keep_every, frozenset(keep_at)), saved
        self._thread = self._failure = self._saving = None
        prepare = functools.partial(retention.prepare, self.folder)
        self._newest = _from_first(processes.on_first(prepare, 'the checkpoints'))
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(restore.quiet())
        # If a folder cannot be created in the background, Orbax's other threads wait five
        # minutes for it, and the process cannot exit in the meantime.
        options = ocp.options.AsyncOptions(create_directories_asynchronously=False)
        self._orbax = ocp.AsyncCheckpointer(
            ocp.CompositeCheckpointHandler(), async_options=options
        )
        self._stack.callback(self._orbax.close)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None and jax.process_count() > 1 and self._thread:
            # Ending a save needs all processes, and those that died never join.
            self._thread.join(_EXIT_TIMEOUT)
            if self._thread.is_alive():
                _log.warning('The last save in %s did not finish.', self.folder)
                return
        try:
            self.close()
        except (OSError, RuntimeError):
            # Do not hide the error that ended the run.
            if kind is None:
                raise
            _log.exception('The last save failed as well, in %s.', self.folder)

    @property
    def last_step(self):
        """The newest step that is complete or being saved; None if there is none."""
        return self._newest if self._saving is None else self._saving

    def save(self, state, meta, *, wait=False):
        """Starts saving `state` as step `state.step`, with a dict `meta` of JSON values.

        Blocks until the previous save is complete and this state is copied to the host;
        files and checksums are written in the background. Returns True, or False with a
        warning if the disk has too little space, so that training can continue. With
        `wait=True` (the final save) it returns when the checksums are written, and a full
        disk raises OSError. Raises ValueError if the step is not newer than `last_step`,
        a leaf is not an array, or `meta` is not JSON; RuntimeError if this save or the
        one before failed for another reason than a full disk.
        """
        step = int(state.step)
        self.wait()
        if self.last_step is not None and step <= self.last_step:
            raise ValueError(
                f'Step {step} cannot be saved in {self.folder}: step {self.last_step} '
                'exists already, and steps must increase. To go back, move the newer '
                'steps away or use another folder.'
            )
        parts = self._parts(state, meta, step)
        error = self._space_error(state, step)
        if not error:
            self._start(step, parts)
            # With several processes the outcome is agreed on in the next call.
            if wait or (self._failure and jax.process_count() == 1):
                error = self._settle()
        if wait and error:
            raise error
        return self._report(error)

    def newest_good(self):
        """(step, meta) of the newest step whose checksums match, or None.

        Logs a warning with the reason for each newer step that is skipped.
        """
        self.wait()
        find = functools.partial(restore.newest_good_step, self.folder)
        step = _from_first(processes.on_first(find, 'the checkpoints'))
        if step is None:
            return None
        return step, restore.read_json(self.folder / str(step), 'meta')

    def restore(self, step, abstract_state):
        """The state of a step, bit for bit; see restore.read_state."""
        self.wait()
        path = self.folder / str(step)
        first = jax.process_index() == 0 and path.is_dir()
        reason = restore.problem(path) if first else None
        if _from_first(int(reason is not None)):
            raise restore.unusable_error(path, reason or 'process 0 reports the reason')
        return restore.read_state(path, abstract_state)

    def wait(self):
        """Waits until the last save is complete; logs a warning if the disk was full.

        Raises RuntimeError if the save failed for another reason.
        """
        self._report(self._settle())

    def close(self):
        """Waits for the last save and releases all resources; can be called twice."""
        with self._stack:
            self.wait()

    def _parts(self, state, meta, step):
        try:
            meta = json.loads(json.dumps(meta))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f'The meta of step {step} in {self.folder} is not JSON: {error}. Use '
                'only numbers, strings, booleans, None, lists and dicts.'
            ) from error
        return ocp.args.Composite(
            state=ocp.args.StandardSave(state),
            leaves=ocp.args.JsonSave(restore.describe(state)),
            meta=ocp.args.JsonSave(meta),
        )

    def _space_error(self, state, step):
        """An OSError with the missing disk space, or None if there is enough."""
        needed = int(_HEADROOM * sum(leaf.nbytes for leaf in jax.tree.leaves(state)))
        try:
            free = shutil.disk_usage(self.folder).free
        except OSError as error:  # saving shows whether this matters
            _log.warning('The free space in %s is unknown: %s.', self.folder, error)
            free = needed
        if not _from_first(int(free < needed)):
            return None
        return _full(
            f'Step {step} cannot be saved in {self.folder}: it needs '
            f'{needed / 1e6:.1f} MB and the disk has {free / 1e6:.1f} MB free.'
        )

    def _start(self, step, parts):
        """Copies to the host and starts the background thread."""
        self._saving = step
        try:
            self._orbax.save(self.folder / str(step), args=parts)
        except (OSError, ValueError, RuntimeError) as error:
            self._failure = error
            return
        # Not a daemon: a program that ends at once still writes its last step's
        # checksums.
        self._thread = threading.Thread(
            target=self._finish, args=(step,), name='checksums'
        )
        self._thread.start()

    def _finish(self, step):
        """Background thread: waits for the files, writes checksums, removes old steps."""
        try:
            self._orbax.wait_until_finished()
            if jax.process_index() == 0:
                checksums.write(self.folder / str(step))
                retention.retain(self.folder, *self._policy)
                if self._saved:
                    self._saved(*self._policy)
        except Exception as error:  # raised or logged by the next call
            self._failure = error

    def _settle(self):
        """Joins the background thread; returns the error of its save, or None."""
        if self._thread:
            self._thread.join()
        step, failure = self._saving, self._failure
        self._thread = self._failure = self._saving = None
        if step is None:
            return None
        mine = (_FULL if _is_full(failure) else _FAILED) if failure else _OK
        outcome = processes.maximum(mine)
        if outcome == _OK:
            self._newest = step
            return None
        if jax.process_index() == 0:
            retention.discard(self.folder, step)
        if failure is None:
            failure = RuntimeError('it failed on another process; see its log')
        if outcome == _FULL:
            error = _full(
                f'The disk was full while step {step} was saved in {self.folder}.'
            )
        else:
            error = RuntimeError(
                f'Step {step} could not be saved in {self.folder}: '
                f'{type(failure).__name__}: {failure}. Earlier checkpoints are intact. '
                'Fix the cause and run the same command again to resume.'
            )
        error.__cause__ = failure
        return error

    def _report(self, error):
        """True if there is no error; logs a full disk; raises any other error."""
        if error is None:
            return True
        if not isinstance(error, OSError):
            raise error
        _log.warning('%s Training continues without this checkpoint.', error.strerror)
        return False


def _full(message):
    remedy = (
        'Free some space there (old runs, damaged-* folders), lower checkpoint.keep, or '
        'use a folder on a larger disk.'
    )
    return OSError(errno.ENOSPC, f'{message} {remedy}')


def _is_full(error):
    """Whether a full disk or quota is the cause, including in Orbax's ValueError."""
    codes = (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, 'errno', None) in codes or any(
        f"os_error_code='{code}'" in str(error) for code in codes
    )


def _from_first(number):
    """Broadcasts the number of process 0; None stays None."""
    number = int(processes.from_first(np.int32(-1 if number is None else number)))
    return None if number < 0 else number
