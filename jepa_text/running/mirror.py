"""A workdir at an address: the run works in a copy on this machine, whose complete
checkpoints, metrics and other files go there after each save and at the end.

    gs://bucket/run    <--- after a save ---    cache/run-<hash>/run    on this machine
                       ---- at the start -->

Orbax writes to gs:// by itself, and to no s3://; object stores can neither append, which
metrics do, nor rename, as damage is moved aside. The copy can, so that a run at an
address is that of a folder, bit by bit. What counts is at the address: the copy may be
deleted, and another machine goes on. A step counts by its CHECKSUMS.json, which arrives
last. A workdir may hold the folders of several runs, as that of a study.

What stays on this machine: the lock, temporary files, checkpoints that are damaged, the
compile cache. Of two machines at one address, the one that began later goes on, and the
other stops at its next save.
"""

import contextlib
import functools
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
from jepa_text.parallel import exits, processes
from jepa_text.running import fetched, housekeeping, synced, workdir, xla_flags

_log = logging.getLogger(__name__)
OWNER = 'owner.json'
STEPS = fetched.STEPS
_OPEN = []  # Mirrors


class Here:
    """A workdir of this machine."""

    save = None

    def __init__(self, folder):
        self.folder, self.name = Path(folder), str(folder)

    def begin(self):
        """Nothing is to be told to anyone."""


class _Part:
    """A run in the copy of a workdir that holds several."""

    def __init__(self, whole, folder):
        name = folder.relative_to(whole.folder).as_posix()
        self._whole, self._top = whole, f'{name}/'
        self.folder, self.name = folder, f'{whole.name}/{name}'

    def begin(self):
        """Sends what it begins with."""
        self._whole.begin()

    def save(self, *kept):
        """As Mirror.save, of this run."""
        self._whole.save(*kept, top=self._top)


@contextlib.contextmanager
def opened(place):
    """A Here or a Mirror, in whose `folder` a run works; locked, and brought up to date.
    A folder in the copy of a workdir that is open is a part of it, and goes with it.

    At the end, whatever it is, the files of a Mirror that has begun go to its address. In
    a job of several processes the first of them does all that, and all make this call.
    Raises ValueError for an address that no run can write to, and for processes that do
    not share the folder of copies; RuntimeError when another process of this machine
    works there; and as addresses.patiently does.
    """
    place = addresses.place('The workdir', place)
    if not addresses.is_address(place):
        folder = Path(place).absolute()
        whole = (one for one in _OPEN if folder.is_relative_to(one.folder))
        yield next((_Part(one, folder) for one in whole), Here(place))
        return
    mirror = Mirror(place)
    with contextlib.ExitStack() as stack:
        stack.callback(_OPEN.remove, mirror)
        _OPEN.append(mirror)
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


def at_addresses(function):
    """The same function(config, workdir, ...), whose workdir may be an address, too: it
    is given the folder of the copy, and what it has made there goes to the address."""

    @functools.wraps(function)
    def run(config, workdir, *given, **options):
        if not addresses.is_address(workdir):
            return function(config, workdir, *given, **options)
        xla_flags.mend()
        with contextlib.ExitStack() as stack:
            with exits.refusals():
                place = stack.enter_context(opened(workdir))
            found = function(config, place.folder, *given, **options)
            if place.has_changed():
                place.begin()
        return found

    return run


def folder_of(address):
    """Where the copy of a workdir at an address is, or would be."""
    name = posixpath.basename(address.rstrip('/'))
    digest = checksums.checksum(address.rstrip('/'))[:16]
    return cache.top() / f'run-{digest}' / name


class Mirror:
    """The copy of a workdir at an address."""

    def __init__(self, address):
        self.name = address.rstrip('/')
        self.folder = folder_of(self.name)
        self._copy = synced.Copy(self.name, self.folder, _is_left_out)
        self._owner, self._damaged = None, set()

    def take(self, stack):
        """Locks the copy as long as the stack stays, and makes it what the address says:
        all files, and of the checkpoints of a run the newest that is whole, with those
        after it."""
        cache.hold(self.folder.parent.name)
        stack.enter_context(workdir.locked(self.folder.parent))
        there = transfer.listed(self.name)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._copy.forget_others(there)
        self._copy.bring(there)
        for top in fetched.begun(there):
            # Of which a kill may have left no whole one: none was lost.
            (self.folder / top / STEPS).mkdir(parents=True, exist_ok=True)
        for top, steps in fetched.runs(there).items():
            self._take_run(top, steps, there)
        print(
            f'{self.name}: works in {self.folder}; after each save, what is complete '
            'goes there. The lock holds on this machine alone.'
        )

    def _take_run(self, top, steps, there):
        for step in reversed(steps):
            self._bring(top, step, there)
            reason = checksums.verify(self.folder / top / STEPS / str(step))
            if reason is None:
                break
            _log.warning('%s/%s: step %d is damaged: %s.', self.name, top, step, reason)
            self._damaged.add((top, step))

    def _bring(self, top, step, there):
        prefix = f'{top}{STEPS}/{step}/'
        place = self.folder / prefix
        sums = transfer.read(f'{self.name}/{prefix}{checksums.NAME}')
        recorded = place / checksums.NAME
        same = recorded.is_file() and recorded.read_bytes() == sums
        if same and checksums.verify(place) is None:
            return
        shutil.rmtree(place, ignore_errors=True)
        names = [name for name in there if name.startswith(prefix)]
        cache.make_room(sum(there[name].size for name in names))
        transfer.bring(self.name, self.folder, names)

    def begin(self):
        """From now on this process writes at the address, and no other before it."""
        do = self.push if self._owner else self._begin
        processes.first(do, f'sending to {self.name}')

    def has_changed(self):
        """Is there a file here that is not there?"""
        return self._copy.has_changed()

    def _begin(self):
        owner = {
            'id': uuid.uuid4().hex,
            'machine': socket.gethostname(),
            'process': os.getpid(),
        }
        transfer.write(f'{self.name}/{OWNER}', json.dumps(owner).encode())
        self._owner = owner
        self.push()

    def finish(self):
        """Sends what is left, if the run has begun."""
        if self._owner:
            self.push()
            self._copy.note(transfer.listed(self.name))

    def save(self, *kept, top=''):
        """After a save: sends it; a network that fails is warned of, and the next save
        sends both."""
        try:
            self.push(*kept, top=top)
        except addresses.AddressError as error:
            _log.warning(
                '%s lacks the newest checkpoint, which is in %s; training goes on. %s',
                self.name,
                self.folder,
                error,
            )

    def push(self, *kept, top=''):
        """Sends files that changed and complete steps that are not there; removes steps
        of a run there that are old, as housekeeping.old has it, if that is given. Raises
        RuntimeError when another process began since."""
        self._check_owner()
        there = transfer.listed(self.name)
        complete = {(at, n) for at, steps in fetched.runs(there).items() for n in steps}
        for step in self._damaged & complete:
            self._remove(*step, there)
            complete.remove(step)
        self._damaged = set()
        for at, step in self._steps():
            if (at, step) not in complete:
                self._remove(at, step, there)  # what a killed process sent of it
                place = f'{at}{STEPS}/{step}'
                here = self.folder / place
                # Metrics come in the midst: before a step is whole, as on a disk, and
                # after files of it, so that a kill in the first save leaves no metrics
                # of which nothing tells whether their checkpoints were lost.
                address = f'{self.name}/{place}'
                transfer.folder(here, address, checksums.NAME, self._copy.send)
                complete.add((at, step))
        self._copy.send()
        own = sorted(step for at, step in complete if at == top)
        for step in housekeeping.old(own, *kept) if kept else ():
            self._remove(top, step, there)

    def _steps(self):
        """(run, step) of all that are complete here."""
        names = (
            path.relative_to(self.folder).as_posix()
            for path in self.folder.glob(f'**/{STEPS}/*/{checksums.NAME}')
        )
        for top, steps in fetched.runs(names).items():
            yield from ((top, step) for step in steps)

    def _check_owner(self):
        owner = json.loads(transfer.read(f'{self.name}/{OWNER}'))
        if owner != self._owner:
            raise RuntimeError(
                f'{self.name} was taken over by process {owner.get("process")} on '
                f'{owner.get("machine")}, which began later: this run stops. Let one '
                'machine at a time work there.'
            )

    def _remove(self, top, step, there):
        """The checksums go first, so that half a step counts for nothing."""
        prefix = f'{top}{STEPS}/{step}/'
        names = [name for name in list(there) if name.startswith(prefix)]
        transfer.remove(
            self.name, sorted(names, key=lambda n: n != prefix + checksums.NAME)
        )
        for name in names:
            del there[name]


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


def _is_left_out(name):
    """Checkpoints go as whole steps; the owner is of this process, and the lock of this
    machine."""
    parts = Path(name).parts
    return STEPS in parts[:-1] or name == OWNER or parts[-1] == workdir.LOCK
