"""Workdirs at an address (gs://, s3://): local copies, uploaded after each save.

    gs://bucket/run    <--- after a save ---    cache/run-<hash>/run    on this machine
                       ---- at the start -->

The run works in the copy. Its complete checkpoints, metrics and other files are uploaded
after each save and at the end.

Orbax can write to gs://, but not to s3://. Object stores can neither append, as metrics
do, nor rename, as damaged checkpoints are. The local copy can, so a run at an address
equals a run in a folder bit by bit. The address is authoritative: the copy may be
deleted, and another machine can resume the run. A step counts once its CHECKSUMS.json,
which is uploaded last, exists.

Not uploaded are the lock, temporary files, damaged checkpoints and the compilation cache.
If two machines work at one address, the one that started later continues, and the other
stops at its next save; for a Part, the one that holds the claim continues.
"""

import contextlib
import json
import logging
import os
import posixpath
import shutil
import socket
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import jax

from jepa_text.files import addresses, cache, checksums, transfer
from jepa_text.parallel import processes
from jepa_text.running import download, restore, retention, sync, workdir

_log = logging.getLogger(__name__)
OWNER = 'owner.json'
STEPS = download.STEPS


class Local:
    """A workdir on this machine."""

    save = None

    def __init__(self, folder):
        self.folder, self.name = Path(folder), str(folder)

    def begin(self):
        """Does nothing: the folder itself is the workdir."""


class Part(NamedTuple):
    """A run at `address`, copied to `folder`, which only this process uses.

    `check()` raises RuntimeError if another worker has taken over the run.
    """

    address: str
    folder: Path
    check: Any


@contextlib.contextmanager
def opened(place):
    """Yields a Local or a Mirror, whose `folder` is locked and up to date.

    `place`: a folder, an address or a Part. On exit, also after an error, the files of a
    Mirror on which `begin` was called are uploaded. In a job of several processes all
    make this call, and process 0 does the work. Raises ValueError for an address that
    cannot be written, or if the processes do not share the folder of copies; RuntimeError
    if another process of this machine uses it; and as addresses.with_retries does.
    """
    part = place if isinstance(place, Part) else None
    place = addresses.location('The workdir', part.address if part else place)
    if not addresses.is_address(place):
        yield Local(place)
        return
    mirror = Mirror(place, part)
    with contextlib.ExitStack() as stack:
        what = f'the copy of {mirror.name}'
        processes.on_first(lambda: mirror.download(stack), what)
        _check_shared(mirror, what)
        try:
            yield mirror
        except BaseException:
            try:
                mirror.finish()
            except (OSError, RuntimeError):
                # Do not hide the error that ended the run.
                _log.exception('The newest files were not sent to %s.', mirror.name)
            raise
        processes.on_first(mirror.finish, f'sending to {mirror.name}')


def folder_of(address):
    """Where the local copy of a workdir at an address is or would be."""
    name = posixpath.basename(address.rstrip('/'))
    digest = checksums.checksum(address.rstrip('/'))[:16]
    return cache.root() / f'run-{digest}' / name


class Mirror:
    """The local copy of a workdir at an address."""

    def __init__(self, address, part=None):
        self.name, self._part = address.rstrip('/'), part
        self.folder = part.folder if part else folder_of(self.name)
        known = self.folder.with_name(f'.{self.folder.name}.json') if part else None
        self._copy = sync.Copy(self.name, self.folder, is_left_out, known)
        self._owner, self._damaged = None, set()

    def download(self, stack):
        """Locks the copy until the stack closes, and downloads the current state.

        That is all files, but of the checkpoints of a run only the newest good one and
        any damaged ones after it.
        """
        if not self._part:
            cache.hold(self.folder.parent.name)
            stack.enter_context(workdir.locked(self.folder.parent))
        remote = transfer.list_files(self.name)
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_stubs(self.folder)
        self._copy.delete_unlisted(remote)
        self._copy.download(remote)
        if any(name.startswith(f'{STEPS}/') for name in remote):
            # After a kill in the first save no checkpoint is complete, but none was lost.
            (self.folder / STEPS).mkdir(parents=True, exist_ok=True)
        self._download_steps(remote)
        if not self._part:
            print(
                f'{self.name}: working in {self.folder}; complete checkpoints are '
                'uploaded after each save. The lock applies to this machine only.'
            )

    def _download_steps(self, remote):
        for step in reversed(download.steps(remote)):
            at = f'{STEPS}/{step}'
            files = {
                name.removeprefix(f'{at}/'): file
                for name, file in remote.items()
                if name.startswith(f'{at}/')
            }
            download_step(f'{self.name}/{at}', self.folder / at, files)
            reason = checksums.verify(self.folder / at)
            if reason is None:
                break
            _log.warning('%s: step %d is damaged: %s.', self.name, step, reason)
            self._damaged.add(step)

    def begin(self):
        """Makes this process the only one that writes to the address, from now on."""
        processes.on_first(self._begin, f'sending to {self.name}')

    def _begin(self):
        if not self._owner:
            owner = {
                'id': uuid.uuid4().hex,
                'machine': socket.gethostname(),
                'process': os.getpid(),
            }
            if not self._part:
                transfer.write(f'{self.name}/{OWNER}', json.dumps(owner).encode())
            self._owner = owner
        self.push()

    def finish(self):
        """Uploads what is left, if the run has begun."""
        if self._owner:
            self.push()
            self._copy.record(transfer.list_files(self.name))

    def save(self, *policy):
        """Uploads a new checkpoint.

        A network failure is only logged; the next save then uploads both.
        """
        try:
            self.push(*policy)
        except addresses.AddressError as error:
            _log.warning(
                '%s lacks the newest checkpoint, which is in %s; training continues. %s',
                self.name,
                self.folder,
                error,
            )

    def push(self, *policy):
        """Uploads changed files and complete steps that the address lacks.

        With `policy`, the arguments of `retention.old`, also removes old steps at the
        address. Raises RuntimeError if another process has begun at the address since.
        """
        self._check_owner()
        remote = transfer.list_files(self.name)
        complete = {*download.steps(remote)}
        for step in self._damaged & complete:
            self._remove(step, remote)
            complete.remove(step)
        self._damaged = set()
        for step in self._steps():
            if step not in complete:
                self._remove(step, remote)  # remains of a killed process
                name = f'{STEPS}/{step}'
                # Metrics are uploaded before the step is complete, as on a disk, and
                # after some of its files: a kill in the first save must not leave metrics
                # alone, which would look as if their checkpoints were lost.
                address = f'{self.name}/{name}'
                transfer.upload_folder(
                    self.folder / name, address, checksums.NAME, self._copy.upload
                )
                complete.add(step)
        self._copy.upload()
        for step in retention.old(sorted(complete), *policy) if policy else ():
            self._remove(step, remote)

    def _steps(self):
        """Complete local steps, in increasing order."""
        return download.steps(
            path.relative_to(self.folder).as_posix()
            for path in self.folder.glob(f'{STEPS}/*/{checksums.NAME}')
        )

    def _check_owner(self):
        if self._part:
            self._part.check()
            return
        owner = json.loads(transfer.read(f'{self.name}/{OWNER}'))
        if owner != self._owner:
            raise RuntimeError(
                f'{self.name} was taken over by process {owner.get("process")} on '
                f'{owner.get("machine")}, which started later: this run stops. Use only '
                'one machine per workdir at a time.'
            )

    def _remove(self, step, remote):
        prefix = f'{STEPS}/{step}/'
        names = [name for name in remote if name.startswith(prefix)]
        remove_step(self.name, prefix, names)
        for name in names:
            del remote[name]


def download_step(address, place, files):
    """Downloads a step into the folder `place`, unless it has an intact copy.

    `files` {name: addresses.File} are those of the step. Raises FileNotFoundError if
    the step is removed meanwhile, and OSError if the disk is full.
    """
    sums = transfer.read(f'{address}/{checksums.NAME}')
    recorded = place / checksums.NAME
    same = recorded.is_file() and recorded.read_bytes() == sums
    if same and not restore.is_remote(place) and checksums.verify(place) is None:
        return
    # If killed, it leaves no incomplete step under the step's name.
    partial = place.with_name(f'{place.name}.orbax-checkpoint-tmp-brought')
    shutil.rmtree(partial, ignore_errors=True)
    cache.make_room(sum(file.size for file in files.values()))
    transfer.download_files(address, partial, list(files))
    shutil.rmtree(place, ignore_errors=True)
    os.rename(partial, place)


def remove_step(address, prefix, names):
    """Deletes a step at an address: `names` are its files, which begin with `prefix`.

    Deletes the checksums first, so that a partly deleted step does not count.
    """
    first = prefix + checksums.NAME
    transfer.delete_files(address, sorted(names, key=lambda name: name != first))


def remove_stubs(folder):
    """Deletes the steps of runs below a folder whose arrays are only at an address."""
    for path in list(folder.glob(f'**/{STEPS}/*/{restore.REMOTE}')):
        shutil.rmtree(path.parent)


def _check_shared(mirror, what):
    """Raises ValueError unless all processes see the folder of process 0."""
    folder = mirror.folder.parent
    is_seen = processes.shares_folder(folder, what)
    with processes.fail_together(what):
        if not is_seen:
            raise ValueError(
                f'The workdir {mirror.name!r} is an address, and process '
                f'{jax.process_index()} does not see its copy in {folder}, which process '
                '0 has made: all processes write checkpoints together, into one folder. '
                'Set JEPA_TEXT_CACHE to a folder that they share (NFS), or mount the '
                'bucket on each machine (gcsfuse, mountpoint-s3) and give that path.'
            )


def is_left_out(name):
    """Whether sync skips a file: a checkpoint's (transferred as a whole step), the owner
    file (of one process) or the lock (of one machine)."""
    parts = Path(name).parts
    return STEPS in parts[:-1] or name == OWNER or parts[-1] == workdir.LOCK
