"""Writing checkpoints with Orbax's CheckpointManager, and resuming from the newest good.

The manager saves in the background, commits a step at once, and removes old ones; each
process writes its own part, also to gs://. It does not see damage: `restore` describes
the checksums that this package adds to each step.
"""

import contextlib
import dataclasses
import errno
import logging
import shutil
import threading

import jax
import orbax.checkpoint as ocp

from jepa_text.files import addresses, atomic, checksums
from jepa_text.parallel import exits, processes
from jepa_text.running import restore
from jepa_text.settings import schema

_log = logging.getLogger(__name__)
_HEADROOM = 1.2
# Seconds within which all processes must have written their parts of a step.
_TIMEOUT = 600
# Seconds that a failing process waits for the end of its last save.
_EXIT_TIMEOUT = 20
# Outcomes of a save; of several processes the highest counts.
_OK, _FAILED, _FULL = range(3)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `checkpoint`."""

    every_steps: int = schema.field(
        1000, 'steps between saves; 0: only at the end and on signals', minimum=0
    )
    keep: int = schema.field(3, 'number of newest checkpoints to keep', minimum=1)
    keep_at_steps: tuple[int, ...] = schema.field(
        (), 'also keep these steps; each is saved, logged and evaluated', minimum=1
    )


class Checkpointer:
    """Saves and restores the state of one run; a context manager.

    Keeps the `keep` newest steps and `keep_at_steps`. Only one Checkpointer may be open
    per folder (`workdir` locks it). In a distributed job every process calls every
    method. Raises OSError if the folder cannot be used.
    """

    def __init__(self, folder, *, keep=Config.keep, keep_at_steps=Config.keep_at_steps):
        self.folder = restore.folder_of(folder)
        self._is_local = not addresses.is_address(self.folder)
        self._saving = self._failure = None
        kept = [
            ocp.checkpoint_managers.LatestN(keep),
            ocp.checkpoint_managers.CustomSteps(sorted(keep_at_steps)),
        ]
        options = ocp.CheckpointManagerOptions(
            preservation_policy=ocp.checkpoint_managers.AnyPreservationPolicy(kept),
            cleanup_tmp_directories=True,
            # Without it, if a folder cannot be created, Orbax's other threads wait five
            # minutes for it, and the process cannot exit.
            async_options=ocp.options.AsyncOptions(
                create_directories_asynchronously=False, timeout_secs=_TIMEOUT
            ),
        )
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(restore.quiet())
        self._manager = ocp.CheckpointManager(
            self.folder, options=options, item_names=('state', 'meta')
        )
        self._stack.callback(self._manager.close)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None and jax.process_count() > 1:
            # Ending a save needs all processes, and those that died never join.
            waiting = threading.Thread(target=self._finish, daemon=True)
            waiting.start()
            waiting.join(_EXIT_TIMEOUT)
            if waiting.is_alive():
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
        return self._manager.latest_step()

    def restore(self, abstract_of):
        """(state, meta) of the newest intact step, bit for bit; None if there is no step.

        abstract_of(step, meta) returns the state to read, with a jax.ShapeDtypeStruct,
        with its sharding, for every array. Damaged steps after that one are reported,
        and moved to `damaged-<step>` (deleted at an address) to be saved again. Raises
        exits.ConfigError if there are steps but none is intact, and nothing is moved
        then; ValueError for a state of other leaves; OSError if a step cannot be read,
        which then may be intact.
        """
        self.wait()
        steps = processes.on_first(lambda: restore.steps(self.folder), 'the checkpoints')
        damaged, step = [], processes.from_first(max(steps or (), default=None))
        while step is not None:
            try:
                state, meta = read(self.folder, step, abstract_of)
                break
            except restore.DamagedError as error:
                restore.warn(self.folder / str(step), error)
                damaged.append(error)
            older = [s for s in steps or () if s < step]
            step = processes.from_first(max(older, default=None))
        else:
            if damaged:
                raise exits.ConfigError(
                    f'{self.folder} has {len(damaged)} saved checkpoints, and none is '
                    f'good ({damaged[0].reason}). The run would start again at step 0 '
                    'and overwrite its metrics, so it was not started. Restore the files '
                    'from a backup, move them away to start from scratch, or use another '
                    '--workdir.'
                )
            return None
        newer = [s for s in steps or () if s > step]
        processes.on_first(lambda: self._put_aside(newer), 'the damaged checkpoints')
        self._manager.reload()
        return state, meta

    def save(self, state, meta, *, wait=False):
        """Starts saving `state` as step `state.step`, with a dict `meta` of JSON values.

        Blocks until the previous save is complete and this state is copied to the host.
        Returns True, or False with a warning if the disk has too little space, so that
        training can continue (with several processes, only if that is known before). With
        `wait=True` (the final save) it returns when the step is complete, and a full disk
        raises OSError. Raises ValueError if the step is not newer than `last_step` or a
        leaf is not an array; RuntimeError if this save or the one before failed for
        another reason than a full disk.
        """
        step = int(state.step)
        self.wait()
        if self.last_step is not None and step <= self.last_step:
            raise ValueError(
                f'Step {step} cannot be saved in {self.folder}: step {self.last_step} '
                'exists already, and steps must increase. To go back, move the newer '
                'steps away or use another folder.'
            )
        items = ocp.args.Composite(
            meta=ocp.args.JsonSave(restore.to_json(meta, state)),
            state=ocp.args.StandardSave(state),
        )
        error = self._space_error(state, step)
        if not error:
            self._saving = step
            try:
                # Copies to the host and starts saving in the background.
                if not self._manager.save(step, args=items):
                    raise RuntimeError('Orbax declined to save it')
            except (OSError, ValueError, RuntimeError) as failure:
                self._failure = failure
            # With several processes the outcome is agreed on in the next call.
            if wait or (self._failure and jax.process_count() == 1):
                error = self._settle()
        if wait and error:
            raise error
        return self._report(error)

    def wait(self):
        """Waits until the last save is complete; logs a warning if the disk was full.

        Raises RuntimeError if the save failed for another reason.
        """
        self._report(self._settle())

    def close(self):
        """Waits for the last save and releases all resources; can be called twice."""
        with self._stack:
            self.wait()

    def _put_aside(self, steps):
        for step in steps:
            path = self.folder / str(step)
            if not self._is_local:
                path.rmtree()
                _log.warning('Checkpoint %s was deleted.', path)
                continue
            aside = checksums.free_name(self.folder / f'damaged-{step}')
            path.rename(aside)
            _log.warning('Checkpoint %s is now %s.', path, aside.name)

    def _space_error(self, state, step):
        """An OSError with the missing disk space, or None if there is enough."""
        needed = int(_HEADROOM * sum(leaf.nbytes for leaf in jax.tree.leaves(state)))
        free = needed  # unknown at an address; on a failing disk, saving shows it
        if self._is_local:
            try:
                free = shutil.disk_usage(self.folder).free
            except OSError as error:
                _log.warning('The free space in %s is unknown: %s.', self.folder, error)
        if not processes.from_first(int(free < needed)):
            return None
        return _full(
            f'Step {step} cannot be saved in {self.folder}: it needs '
            f'{needed / 1e6:.1f} MB and the disk has {free / 1e6:.1f} MB free.'
        )

    def _finish(self):
        """Waits for the background save; keeps its error."""
        try:
            self._manager.wait_until_finished()
        except Exception as error:  # raised or logged by `_settle`
            self._failure = self._failure or error

    def _settle(self):
        """Ends the last save; returns its error, or None."""
        step = self._saving
        if step is None:
            return None
        self._finish()
        failure, self._saving, self._failure = self._failure, None, None
        is_there = step in restore.steps(self.folder)
        if failure and is_there:
            _log.warning('An old checkpoint could not be removed: %s.', failure)
            failure = None
        elif not failure and not is_there:
            failure = RuntimeError('Orbax reports no error, but the step is missing')
        mine = (_FULL if _is_full(failure) else _FAILED) if failure else _OK
        outcome = processes.maximum(mine)
        if outcome == _OK:
            return None
        if jax.process_index() == 0 and self._is_local:
            partial = self.folder / f'{step}.orbax-checkpoint-tmp'
            shutil.rmtree(partial, ignore_errors=True)  # it takes up the space
        self._manager.reload()
        if failure is None:
            failure = RuntimeError('it failed on another process; see its log')
        # After a failure, Orbax's messages between processes match no longer.
        if outcome == _FULL and jax.process_count() == 1:
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


def read(folder, step, abstract_of):
    """(state, meta) of a step of a run, as `Checkpointer.restore`; a collective.

    All processes raise restore.DamagedError if one does.
    """
    path, damage = restore.folder_of(folder, step), None
    try:
        saved = restore.record(path)
        abstract = abstract_of(step, saved.meta)
        restore.compare(path, saved.kinds, restore.describe(abstract), exactly=True)
        state = restore.read(
            path,
            abstract,
            lambda x: ocp.ArrayRestoreArgs(sharding=x.sharding, dtype=x.dtype),
        )
    except restore.DamagedError as error:
        damage = error
    if processes.maximum(int(damage is not None)):
        reason = 'another process could not read its part'
        raise damage or restore.DamagedError(path, reason)
    restore.check(path, saved, state)
    return state, saved.meta


def _full(message):
    remedy = (
        'Free some space there (old runs, damaged-* folders), lower checkpoint.keep, or '
        'use a folder on a larger disk.'
    )
    return OSError(errno.ENOSPC, f'{message} {remedy}')


def _is_full(error):
    """Whether a full disk or quota is the cause, including in Orbax's ValueError."""
    return getattr(error, 'errno', None) in atomic.FULL or any(
        f"os_error_code='{code}'" in str(error) for code in atomic.FULL
    )
