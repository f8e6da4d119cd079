"""State and meta -> complete steps on disk, in the background; and back after a crash.

What a step's folder holds, and reading it without a writer, is in `restore`. Not Orbax's
CheckpointManager: it calls nobody between naming a step and removing the ones before it,
where a seal belongs.
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
# Seconds that a process which failed waits for the end of its last save.
_PATIENCE = 20
# How a save ended, the worst of all processes: well, failed, or for want of room.
_WELL, _FAILED, _FULL = range(3)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `checkpoint`."""

    every: int = schema.field(1000, 'steps; 0: none but by a signal', minimum=0)
    keep: int = schema.field(3, 'so many of the newest stay', minimum=1)
    keep_every: int | None = schema.field(
        None, 'and each of a step that is a multiple of it', minimum=1
    )
    keep_at: tuple[int, ...] = schema.field(
        (), 'and those of these steps, at which it saves, logs and evaluates', minimum=1
    )


class Checkpointer:
    """Saves and restores the state of one run; a context manager.

    Keeps the `keep` newest complete steps and, with `keep_every`, every complete step
    that is a multiple of it, and those of `keep_at`. Opening cleans up after a crash:
    temporary folders are removed; incomplete steps, and damaged ones newer than the
    newest good one, are moved aside to `damaged-<step>`, so that their numbers are free
    again and nothing is lost. Hence one Checkpointer for a folder at a time (`workdir`
    sees to that). Every process of a distributed job calls every method; process 0 writes
    checksums and cleans, and then calls `saved(keep, keep_every, keep_at)`, in the
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
        if keep < 1 or (keep_every is not None and keep_every < 1):
            raise ValueError(
                f'keep={keep} and keep_every={keep_every} must be at least 1 '
                '(keep_every may be None): the newest checkpoint is always kept.'
            )
        folder = paths.local('The folder of checkpoints', folder)
        self.folder = Path(folder).expanduser().absolute()
        self._kept, self._saved = (keep, keep_every, frozenset(keep_at)), saved
        self._thread = self._failure = self._saving = None
        newest = processes.first(lambda: retention.opened(self.folder), 'the checkpoints')
        self._newest = _from_first(newest)
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(restore.quiet())
        # Folders made in the background leave its other threads, when one cannot be made,
        # to wait for it for five minutes, in which the process cannot end.
        options = ocp.options.AsyncOptions(create_directories_asynchronously=False)
        self._orbax = ocp.AsyncCheckpointer(
            ocp.CompositeCheckpointHandler(), async_options=options
        )
        self._stack.callback(self._orbax.close)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None and jax.process_count() > 1 and self._thread:
            # To end a save, all processes meet, and those that are gone never come.
            self._thread.join(_PATIENCE)
            if self._thread.is_alive():
                _log.warning('The last save in %s was left unfinished.', self.folder)
                return
        try:
            self.close()
        except (OSError, RuntimeError):
            # The error that ended the run matters more than that of its last save.
            if kind is None:
                raise
            _log.exception('The last save failed as well, in %s.', self.folder)

    @property
    def last_step(self):
        """The newest step that is complete or being saved; None when there is none."""
        return self._newest if self._saving is None else self._saving

    def save(self, state, meta, *, wait=False):
        """Starts to save `state` as step `state.step`, with a dict `meta` of JSON values.

        Blocks for the copy to the host and for the rest of the save before; writing and
        sealing go on in the background. Returns True, or False when there is no room on
        the disk, with a warning: training goes on. With `wait=True` (the final save)
        returns when the step has its checksums, and a full disk raises OSError. Raises
        ValueError for a step that is not newer than `last_step`, a leaf that is no array,
        and a meta that is not JSON; RuntimeError when this save or the one before failed
        for another reason than a full disk.
        """
        step = int(state.step)
        self.wait()
        if self.last_step is not None and step <= self.last_step:
            raise ValueError(
                f'Step {step} cannot be saved in {self.folder}: step {self.last_step} is '
                'there already, and saves must go forward. To go back, move the newer '
                'steps away or use another folder.'
            )
        parts = self._parts(state, meta, step)
        error = self._room(state, step)
        if not error:
            self._start(step, parts)
            # Of several processes one may have failed alone: they agree at the next call.
            if wait or (self._failure and jax.process_count() == 1):
                error = self._settle()
        if wait and error:
            raise error
        return self._tell(error)

    def newest_good(self):
        """(step, meta) of the newest step whose checksums fit, or None.

        Warns once for each newer step that it passes over, with the reason.
        """
        self.wait()
        find = functools.partial(restore.newest_good_step, self.folder)
        step = _from_first(processes.first(find, 'the checkpoints'))
        if step is None:
            return None
        return step, restore.read_json(self.folder / str(step), 'meta')

    def restore(self, step, abstract_state):
        """The state of a step, bit for bit and placed as asked; see `restore.state`."""
        self.wait()
        path = self.folder / str(step)
        first = jax.process_index() == 0 and path.is_dir()
        reason = restore.why_not(path) if first else None
        if _from_first(int(reason is not None)):
            raise restore.distrust(path, reason or 'process 0 says why')
        return restore.read_state(path, abstract_state)

    def wait(self):
        """Returns when the last save has its checksums; only warns when the disk was
        full.

        Raises RuntimeError when the save failed for another reason.
        """
        self._tell(self._settle())

    def close(self):
        """Waits for the last save and lets go of everything; may be called twice."""
        with self._stack:
            self.wait()

    def _parts(self, state, meta, step):
        try:
            meta = json.loads(json.dumps(meta))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f'The meta of step {step} in {self.folder} is not JSON: {error}. Use '
                'only numbers, texts, booleans, None, lists and dicts.'
            ) from error
        return ocp.args.Composite(
            state=ocp.args.StandardSave(state),
            leaves=ocp.args.JsonSave(restore.describe(state)),
            meta=ocp.args.JsonSave(meta),
        )

    def _room(self, state, step):
        """None, or the OSError that says how much room is missing."""
        needed = int(_HEADROOM * sum(leaf.nbytes for leaf in jax.tree.leaves(state)))
        try:
            free = shutil.disk_usage(self.folder).free
        except OSError as error:  # the save will say whether it matters
            _log.warning('The room in %s is not known: %s.', self.folder, error)
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
        """In the background: awaits the end of the writing, writes checksums, removes old
        steps."""
        try:
            self._orbax.wait_until_finished()
            if jax.process_index() == 0:
                checksums.write(self.folder / str(step))
                retention.retain(self.folder, *self._kept)
                if self._saved:
                    self._saved(*self._kept)
        except Exception as error:  # raised or told by the next call
            self._failure = error

    def _settle(self):
        """Joins the background thread; None, or the error of its save as a paragraph."""
        if self._thread:
            self._thread.join()
        step, failure = self._saving, self._failure
        self._thread = self._failure = self._saving = None
        if step is None:
            return None
        mine = (_FULL if _is_full(failure) else _FAILED) if failure else _WELL
        ended = processes.highest(mine)
        if ended == _WELL:
            self._newest = step
            return None
        if jax.process_index() == 0:
            retention.discard(self.folder, step)
        if failure is None:
            failure = RuntimeError('it failed on another process, whose log says why')
        if ended == _FULL:
            error = _full(
                f'The disk was full while step {step} was saved in {self.folder}.'
            )
        else:
            error = RuntimeError(
                f'Step {step} could not be saved in {self.folder}: '
                f'{type(failure).__name__}: {failure}. The checkpoints before it are '
                'untouched. Remove the cause and run the same command again to resume.'
            )
        error.__cause__ = failure
        return error

    def _tell(self, error):
        """True when there is no error; warns of a full disk; raises any other error."""
        if error is None:
            return True
        if not isinstance(error, OSError):
            raise error
        _log.warning('%s Training goes on without this checkpoint.', error.strerror)
        return False


def _full(text):
    remedy = (
        'Free some space there (old runs, damaged-* folders), lower checkpoint.keep, or '
        'use a folder on a larger disk.'
    )
    return OSError(errno.ENOSPC, f'{text} {remedy}')


def _is_full(error):
    """Whether a full disk or quota is the cause, also behind Orbax's ValueError."""
    codes = (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, 'errno', None) in codes or any(
        f"os_error_code='{code}'" in str(error) for code in codes
    )


def _from_first(number):
    """Every process gets the number of process 0; None stays None."""
    number = int(processes.from_first(np.int32(-1 if number is None else number)))
    return None if number < 0 else number
