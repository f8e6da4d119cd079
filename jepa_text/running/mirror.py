"""A workdir at an address: the run works in a copy on this machine, whose complete
checkpoints, metrics and other files go there after each save and at the end.

    gs://bucket/run    <--- after a save ---    cache/run-<hash>/run    on this machine
                       ---- at the start -->

Orbax writes to gs:// by itself, and to no s3://; object stores can neither append, which
metrics do, nor rename, as damage is moved aside. The copy can, so that a run at an
address is that of a folder, bit by bit. What counts is at the address: the copy may be
deleted, and another machine goes on. A step counts by its CHECKSUMS.json, which arrives
last.

What stays on this machine: the lock, temporary files, checkpoints that are damaged, the
compile cache. Of two machines at one address, the one that began later goes on, and the
other stops at its next save; of a Part, the one that holds the claim.
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


class Here:
    """A workdir of this machine."""

    save = None

    def __init__(self, folder):
        self.folder, self.name = Path(folder), str(folder)

    def begin(self):
        """Nothing is to be told to anyone."""


class Part(NamedTuple):
    """A run at an `address`, whose copy lies in a `folder` that this process has to
    itself; `check()` raises RuntimeError once the run is another worker's."""

    address: str
    folder: Path
    check: Any


@contextlib.contextmanager
def opened(place):
    """A Here or a Mirror, in whose `folder` a run works; locked, and brought up to date.
    `place`: a folder, an address or a Part.

    At the end, whatever it is, the files of a Mirror that has begun go to its address. In
    a job of several processes the first of them does all that, and all make this call.
    Raises ValueError for an address that no run can write to, and for processes that do
    not share the folder of copies; RuntimeError when another process of this machine
    works there; and as addresses.patiently does.
    """
    part = place if isinstance(place, Part) else None
    place = addresses.place('The workdir', part.address if part else place)
    if not addresses.is_address(place):
        yield Here(place)
        return
    mirror = Mirror(place, part)
    with contextlib.ExitStack() as stack:
        what = f'the copy of {mirror.name}'
        processes.first(lambda: mirror.take(stack), what)
        _check_shared(mirror, what)
        try:
            yield mirror
        except BaseException:
            try:
                mirror.finish()
            except (OSError, RuntimeError):
                # The error that ended the run matters more.
                _log.exception('%s lacks the newest files.', mirror.name)
            raise
        processes.first(mirror.finish, f'sending to {mirror.name}')


def folder_of(address):
    """Where the copy of a workdir at an address is, or would be."""
    name = posixpath.basename(address.rstrip('/'))
    digest = checksums.checksum(address.rstrip('/'))[:16]
    return cache.top() / f'run-{digest}' / name


class Mirror:
    """The copy of a workdir at an address."""

    def __init__(self, address, part=None):
        self.name, self._part = address.rstrip('/'), part
        self.folder = part.folder if part else folder_of(self.name)
        known = self.folder.with_name(f'.{self.folder.name}.json') if part else None
        self._copy = sync.Copy(self.name, self.folder, is_left_out, known)
        self._owner, self._damaged = None, set()

    def take(self, stack):
        """Locks the copy as long as the stack stays, and makes it what the address says:
        all files, and of the checkpoints of a run the newest that is whole, with those
        after it."""
        if not self._part:
            cache.hold(self.folder.parent.name)
            stack.enter_context(workdir.locked(self.folder.parent))
        there = transfer.listed(self.name)
        self.folder.mkdir(parents=True, exist_ok=True)
        drop_away(self.folder)
        self._copy.forget_others(there)
        self._copy.bring(there)
        if any(name.startswith(f'{STEPS}/') for name in there):
            # Of which a kill may have left no whole one: none was lost.
            (self.folder / STEPS).mkdir(parents=True, exist_ok=True)
        self._take_steps(there)
        if not self._part:
            print(
                f'{self.name}: works in {self.folder}; after each save, what is complete '
                'goes there. The lock holds on this machine alone.'
            )

    def _take_steps(self, there):
        for step in reversed(download.steps(there)):
            at = f'{STEPS}/{step}'
            files = {
                name.removeprefix(f'{at}/'): file
                for name, file in there.items()
                if name.startswith(f'{at}/')
            }
            bring_step(f'{self.name}/{at}', self.folder / at, files)
            reason = checksums.verify(self.folder / at)
            if reason is None:
                break
            _log.warning('%s: step %d is damaged: %s.', self.name, step, reason)
            self._damaged.add(step)

    def begin(self):
        """From now on this process writes at the address, and no other before it."""
        do = self.push if self._owner else self._begin
        processes.first(do, f'sending to {self.name}')

    def _begin(self):
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
        """Sends what is left, if the run has begun."""
        if self._owner:
            self.push()
            self._copy.note(transfer.listed(self.name))

    def save(self, *kept):
        """After a save: sends it; a network that fails is warned of, and the next save
        sends both."""
        try:
            self.push(*kept)
        except addresses.AddressError as error:
            _log.warning(
                '%s lacks the newest checkpoint, which is in %s; training goes on. %s',
                self.name,
                self.folder,
                error,
            )

    def push(self, *kept):
        """Sends files that changed and complete steps that are not there; removes steps
        there that are old, as retention.old has it, if that is given. Raises
        RuntimeError when another process began since."""
        self._check_owner()
        there = transfer.listed(self.name)
        complete = {*download.steps(there)}
        for step in self._damaged & complete:
            self._remove(step, there)
            complete.remove(step)
        self._damaged = set()
        for step in self._steps():
            if step not in complete:
                self._remove(step, there)  # what a killed process sent of it
                place = f'{STEPS}/{step}'
                here = self.folder / place
                # Metrics come in the midst: before a step is whole, as on a disk, and
                # after files of it, so that a kill in the first save leaves no metrics
                # of which nothing tells whether their checkpoints were lost.
                address = f'{self.name}/{place}'
                transfer.folder(here, address, checksums.NAME, self._copy.send)
                complete.add(step)
        self._copy.send()
        for step in retention.old(sorted(complete), *kept) if kept else ():
            self._remove(step, there)

    def _steps(self):
        """Those that are complete here, rising."""
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
                f'{owner.get("machine")}, which began later: this run stops. Let one '
                'machine at a time work there.'
            )

    def _remove(self, step, there):
        prefix = f'{STEPS}/{step}/'
        names = [name for name in list(there) if name.startswith(prefix)]
        remove_step(self.name, prefix, names)
        for name in names:
            del there[name]


def bring_step(address, place, files):
    """Brings a step at an address into the folder `place`, unless it is there whole.

    `files` {name: addresses.File} are those of the step. Raises FileNotFoundError where
    it is removed meanwhile, and OSError where there is no room.
    """
    sums = transfer.read(f'{address}/{checksums.NAME}')
    recorded = place / checksums.NAME
    same = recorded.is_file() and recorded.read_bytes() == sums
    if same and not restore.is_away(place) and checksums.verify(place) is None:
        return
    # Killed half way, it leaves no step that would be half of one.
    partial = place.with_name(f'{place.name}.orbax-checkpoint-tmp-brought')
    shutil.rmtree(partial, ignore_errors=True)
    cache.make_room(sum(file.size for file in files.values()))
    transfer.bring(address, partial, list(files))
    shutil.rmtree(place, ignore_errors=True)
    os.rename(partial, place)


def remove_step(address, prefix, names):
    """Deletes the files of a step, whose `names` below the address begin with `prefix`:
    the checksums first, so that half a step counts for nothing."""
    first = prefix + checksums.NAME
    transfer.remove(address, sorted(names, key=lambda name: name != first))


def drop_away(folder):
    """Deletes the steps of runs in a folder that are not here, but at an address."""
    for path in list(folder.glob(f'**/{STEPS}/*/{restore.AWAY}')):
        shutil.rmtree(path.parent)


def _check_shared(mirror, what):
    """Raises ValueError unless all processes see the folder of the first one."""
    folder = mirror.folder.parent
    is_seen = processes.see(folder, what)
    with processes.together(what):
        if not is_seen:
            raise ValueError(
                f'The workdir {mirror.name!r} is an address, and process '
                f'{jax.process_index()} does not see the copy of it in {folder}, as '
                'process 0 made it: all processes write one checkpoint together, in one '
                'folder. Let JEPA_TEXT_CACHE name a folder that they share (NFS), or '
                'mount the bucket on each machine (gcsfuse, mountpoint-s3) and give that '
                'path.'
            )


def is_left_out(name):
    """Checkpoints go as whole steps; the owner is of this process, and the lock of this
    machine."""
    parts = Path(name).parts
    return STEPS in parts[:-1] or name == OWNER or parts[-1] == workdir.LOCK
