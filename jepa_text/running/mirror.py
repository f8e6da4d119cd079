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
other stops at its next save.
"""

import contextlib
import dataclasses
import json
import logging
import os
import posixpath
import shutil
import socket
import uuid
from pathlib import Path

import jax

from jepa_text.files import addresses, cache, checksums, transfer
from jepa_text.running import housekeeping, restore, workdir

_log = logging.getLogger(__name__)
OWNER = 'owner.json'
STEPS = 'checkpoints'
# Where names can be written: what can be a workdir.
PROTOCOLS = ('gs', 'gcs', 's3', 's3a', 'file', 'memory')


@dataclasses.dataclass(frozen=True)
class Here:
    """A workdir of this machine."""

    folder: str

    def begin(self):
        """Nothing is to be told to anyone."""

    save = None


@contextlib.contextmanager
def opened(place):
    """A Here or a Mirror, in whose `folder` a run works; locked, and brought up to date.

    At the end, whatever it is, the files of a Mirror that has begun go to its address.
    Raises ValueError for an address that no run can write to, or in a job of several
    processes; RuntimeError when another process of this machine works there; and as
    addresses.patiently does.
    """
    if not addresses.is_address(place):
        yield Here(place)
        return
    mirror = Mirror(place)
    with workdir.locked(mirror.folder.parent):
        mirror.pull()
        try:
            yield mirror
        except BaseException:
            try:
                mirror.finish()
            except (OSError, RuntimeError):
                # The error that ended the run matters more.
                _log.exception('%s lacks the newest files.', mirror.address)
            raise
        mirror.finish()


def folder_of(address):
    """Where the copy of a workdir at an address is, or would be."""
    name = posixpath.basename(address.rstrip('/'))
    digest = checksums.checksum(address.rstrip('/'))[:16]
    return cache.top() / f'run-{digest}' / name


class Mirror:
    """The copy of a workdir at an address."""

    def __init__(self, address):
        check(address)
        if jax.process_count() > 1:
            raise ValueError(
                f'The workdir {address!r} is an address, and a job of several processes '
                'writes one folder together: mount the bucket on each machine (gcsfuse, '
                'mountpoint-s3) and give that path.'
            )
        self.address = address.rstrip('/')
        self.folder = folder_of(address)
        cache.hold(self.folder.parent.name)
        self._owner = self._damaged = None
        self._sent = {}

    def pull(self):
        """Makes the copy what the address says: all files, and of the checkpoints the
        newest that is whole, with those after it."""
        there = transfer.listed(self.address)
        self.folder.mkdir(parents=True, exist_ok=True)
        _forget_others(self.folder, there)
        small = [name for name in there if not name.startswith(f'{STEPS}/')]
        transfer.bring(self.address, self.folder, [n for n in small if n != OWNER])
        self._damaged = set()
        for step in reversed(_complete(there)):
            self._bring(step, there)
            reason = checksums.verify(self.folder / STEPS / str(step))
            if reason is None:
                break
            _log.warning('%s: step %d is damaged: %s.', self.address, step, reason)
            self._damaged.add(step)
        print(
            f'{self.address}: works in {self.folder}; after each save, what is complete '
            'goes there. The lock holds on this machine alone.'
        )

    def _bring(self, step, there):
        place = self.folder / STEPS / str(step)
        prefix = f'{STEPS}/{step}/'
        sums = transfer.read(f'{self.address}/{prefix}{checksums.NAME}')
        recorded = place / checksums.NAME
        same = recorded.is_file() and recorded.read_bytes() == sums
        if same and checksums.verify(place) is None:
            return
        shutil.rmtree(place, ignore_errors=True)
        names = [name for name in there if name.startswith(prefix)]
        cache.make_room(sum(there[name] for name in names))
        transfer.bring(self.address, self.folder, names)

    def begin(self):
        """From now on this process writes at the address, and no other before it."""
        owner = {
            'id': uuid.uuid4().hex,
            'machine': socket.gethostname(),
            'process': os.getpid(),
        }
        transfer.write(f'{self.address}/{OWNER}', json.dumps(owner).encode())
        self._owner = owner
        self.push()

    def finish(self):
        """Sends what is left, if the run has begun."""
        if self._owner:
            self.push()

    def save(self, *kept):
        """After a save: sends it; a network that fails is warned of, and the next save
        sends both."""
        try:
            self.push(*kept)
        except addresses.AddressError as error:
            _log.warning(
                '%s lacks the newest checkpoint, which is in %s; training goes on. %s',
                self.address,
                self.folder,
                error,
            )

    def push(self, *kept):
        """Sends files that changed and complete steps that are not there; removes steps
        there that are old, as housekeeping.old has it, if that is given. Raises
        RuntimeError when another process began since."""
        self._check_owner()
        there = transfer.listed(self.address)
        for step in self._damaged & {*_complete(there)}:
            self._remove(step, there)
        self._damaged = set()
        self._send_files()
        steps, complete = self.folder / STEPS, {*_complete(there)}
        for step in restore.steps(steps):
            if (steps / str(step) / checksums.NAME).exists() and step not in complete:
                self._remove(step, there)  # what a killed process sent of it
                place = f'{self.address}/{STEPS}/{step}'
                transfer.folder(steps / str(step), place, checksums.NAME)
                complete.add(step)
        for step in housekeeping.old(sorted(complete), *kept) if kept else ():
            self._remove(step, there)

    def _check_owner(self):
        owner = json.loads(transfer.read(f'{self.address}/{OWNER}'))
        if owner != self._owner:
            raise RuntimeError(
                f'{self.address} was taken over by process {owner.get("process")} on '
                f'{owner.get("machine")}, which began later: this run stops. Let one '
                'machine at a time work there.'
            )

    def _send_files(self):
        """All but checkpoints that changed since they were sent."""
        for at, folders, names in os.walk(self.folder):
            if Path(at) == self.folder and STEPS in folders:
                folders.remove(STEPS)
            for name in names:
                path = Path(at, name)
                if name != workdir.LOCK and not name.endswith('.tmp'):
                    self._send(path, path.relative_to(self.folder).as_posix())

    def _send(self, path, name):
        found = path.stat()
        stamp = found.st_size, found.st_mtime_ns
        if self._sent.get(name) != stamp:
            # At once: a file such as the metrics may grow meanwhile.
            transfer.write(f'{self.address}/{name}', path.read_bytes())
            self._sent[name] = stamp

    def _remove(self, step, there):
        """The checksums go first, so that half a step counts for nothing."""
        prefix = f'{STEPS}/{step}/'
        names = [name for name in list(there) if name.startswith(prefix)]
        transfer.remove(
            self.address, sorted(names, key=lambda n: n != prefix + checksums.NAME)
        )
        for name in names:
            del there[name]


def check(address):
    """Raises ValueError for an address that is none, or where no run can write."""
    protocol, colon, _ = str(address).partition('://')
    if colon and protocol not in PROTOCOLS:
        raise ValueError(
            f'{address!r} is an address that no run can write to: give a folder of this '
            'machine, or a place on gs:// or s3://.'
        )
    addresses.filesystem(address)


def _complete(there):
    """The steps that are complete at an address, in rising order."""
    parts = [name.split('/') for name in there]
    return sorted(
        int(part[1])
        for part in parts
        if len(part) == 3
        and (part[0], part[2]) == (STEPS, checksums.NAME)
        and part[1].isdecimal()
    )


def _forget_others(folder, there):
    """Deletes what is not at the address, and folders that are empty then."""
    for at, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = Path(at, name)
            if path.relative_to(folder).as_posix() not in there:
                path.unlink()
        if Path(at) != folder and not os.listdir(at):
            os.rmdir(at)
