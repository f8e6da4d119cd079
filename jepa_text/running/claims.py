"""Distributes work items among workers, such as a job array, through a shared folder.

    done = claims.work(folder, items, do, publish, lease=60, attempts=3)

Each item is done once. The history of an item is the files ITEM@1, ITEM@2, ... in the
folder, each created atomically by one worker. The last one is the state of the item:

    claim      a worker is computing it, and renews the file's heartbeat meanwhile
    writing    the same worker has the result and is publishing it, also with a heartbeat
    done       the result is published
    failed     the attempt raised the recorded error; the item is free again if attempts
               are left, unless the error is final (parallel/exits.py)
    released   the worker was interrupted; free again, and the attempt is not counted
    reopened   the published result is missing (`reopen`); free again with all attempts

An item is free if it has no file, after the last three, and if its heartbeat has not
changed for the `lease` of its claim. The waiting worker measures this with its own clock;
clocks of other machines are never read. The items of a dead worker on the same machine
are free at once. The worker that creates the next file has the item. So only one worker
takes over a claim, and a worker that was suspended for longer than the lease cannot
create its `writing` file when it resumes: it detects that its claim is lost and publishes
nothing. Only if it is suspended between `writing` and the end of `publish` can two
workers publish the same item. `publish` must therefore be one rename (files/atomic.py) of
deterministic content.
"""

import logging
import time
import traceback
from pathlib import Path
from typing import NamedTuple

from jepa_text.files import addresses, paths
from jepa_text.parallel import exits
from jepa_text.running import claim_files, claim_objects, liveness
from jepa_text.running.claim import BEATS, Claim, Lost

LEASE = 60.0  # seconds
_POLL_SECONDS = 5.0  # longest pause between two scans of the folder
_HELD, _ENDED = ('claim', 'writing'), ('failed', 'done')

_log = logging.getLogger(__name__)


class Result(NamedTuple):
    """The outcome of `work`, as lists of items.

    `done` by this worker; `failed` {item: error} for good, by any worker; `lost` to other
    workers during the attempt.
    """

    done: list
    failed: dict
    lost: list


def work(
    folder,
    items,
    do,
    publish,
    *,
    lease=LEASE,
    attempts=3,
    is_ready=None,
    progress=None,
    on_lost=None,
    on_held=None,
    refresh=None,
    pause=time.sleep,
):
    """Does the free items one after another and returns a Result.

    Calls `publish(item, do(item))`, publishing only while the claim is held. An item that
    raises is tried again after all others, by this or another worker, until `attempts`
    were made; a worker that dies has used one. Returns when every item is done or failed
    for good. KeyboardInterrupt, exits.Stopped and the like release the item and
    propagate.

    `is_ready(item, open)` returns whether an item may start, given the items that are
    neither done nor failed for good. `progress(item)` returns a number; attempts are
    counted since it last increased. `on_lost(item)` is called from another thread if the
    current claim was taken over. `on_held(claim)` is called for each new claim.
    `refresh()` is called before each search for an item, and sees what was published for
    all items that ended before. `pause(seconds)` waits for other workers.

    Raises ValueError for duplicate items or items that are not valid file names, and
    OSError if the folder is unusable.
    """
    claims = _Claims(folder, items, lease, attempts, is_ready, progress, refresh)
    attempted = {'done': [], 'failed': [], 'lost': []}
    try:
        while claims.open:
            count = len(claims.open)
            if claim := claims.next():
                if on_held:
                    on_held(claim)
                attempted[_attempt(claim, do, publish, on_lost)].append(claim.item)
            elif len(claims.open) == count:  # else other items may have become ready
                pause(min(lease / BEATS, _POLL_SECONDS))
    finally:
        claims.leave()
    return Result(attempted['done'], claims.failed, attempted['lost'])


def ended(folder):
    """{item: number of its last entry} of the items that are done or failed.

    Call it before looking for published results: a result of an item that ends later
    cannot be called missing.
    """
    folder, files = _place(folder)
    return {
        item: number
        for item, number in files.numbers(folder).items()
        if files.read(files.path_of(folder, item, number))['kind'] in _ENDED
    }


def reopen(folder, item, number):
    """Frees an item that `ended` with this number; False if another worker did first."""
    folder, files = _place(folder)
    return files.make(folder, item, number + 1, 'reopened', LEASE) is not None


def _place(folder):
    """(folder of claims, the module to access it): for a local folder or an address."""
    if addresses.is_address(folder):
        return addresses.location('The folder of claims', folder).rstrip(
            '/'
        ), claim_objects
    return Path(paths.local('The folder of claims', folder)), claim_files


def _attempt(claim, do, publish, on_lost):
    """Computes and publishes an item; returns 'done', 'failed' or 'lost'."""
    try:
        with claim.heartbeat(on_lost):
            result = do(claim.item)
            claim.step('writing')
            publish(claim.item, result)
        claim.step('done')
    except Lost as error:
        _log.warning('%s', error)
        return 'lost'
    except exits.Stopped:
        # It may have been stopped because its claim was lost.
        if claim.end('released') == 'lost':
            return 'lost'
        raise
    except Exception as error:
        _log.warning('%s failed: %s', claim.item, error)
        is_final = exits.code_of(error) == exits.USAGE
        return claim.end('failed', error=traceback.format_exc(), final=is_final)
    except BaseException:
        claim.end('released')
        raise
    return 'done'


class _Claims:
    """The items that are not settled (`open`), and those that failed for good."""

    def __init__(
        self, folder, items, lease, attempts, is_ready=None, progress=None, refresh=None
    ):
        items = list(items)
        for item in items:
            if not claim_files.ITEM.fullmatch(item):
                raise ValueError(
                    'Items must be valid file names, made of letters, digits and '
                    f'. _ + = -, but got {item!r}.'
                )
        if len(set(items)) < len(items):
            raise ValueError(
                f'Items must be unique, but {len(items)} items have '
                f'{len(set(items))} different names.'
            )
        self._folder, self._files = _place(folder)
        self._files.check(self._folder)
        self._lease, self._attempts = lease, attempts
        self._is_ready = is_ready or (lambda item, open_: True)
        self._progress = progress or (lambda item: 0)
        self._refresh = refresh or (lambda: None)
        self._lock = liveness.WorkerLock(self._folder)
        self._seen = {}  # (item, number): (heartbeat, time at which it was first seen)
        self.open, self.failed = dict.fromkeys(items), {}

    def leave(self):
        """Ends the membership of this worker; it must hold no claims."""
        self._lock.leave()

    def next(self):
        """Claims a free item; returns the Claim, or None if there is no free item."""
        numbers = self._files.numbers(self._folder)
        self._refresh()  # after `numbers`: items that ended by then are published
        # Items that nobody has started come first.
        for item in sorted(self.open, key=lambda item: numbers.get(item, 0)):
            if claim := self._try(item, numbers.get(item, 0)):
                return claim
        return None

    def _try(self, item, number):
        files = self._files
        numbers = range(1, number + 1)
        entries = [files.read(files.path_of(self._folder, item, n)) for n in numbers]
        last = entries[-1] if entries else {'kind': 'released'}
        if last['kind'] == 'done':
            del self.open[item]
            return None
        if last['kind'] in _HELD and not self._is_stale(item, number, last):
            return None
        following, progress = (self._folder, item, number + 1), self._progress(item)
        is_final = last.get('final', False)
        if not is_final and _attempts(entries, progress) < self._attempts:
            if not self._is_ready(item, self.open):
                return None
            fields = {**self._lock.fields, 'progress': progress}
            if not files.make(*following, 'claim', self._lease, **fields):
                return None
            if last['kind'] in _HELD:
                _log.warning('%s: taken over from %s', item, claim_files.owner(last))
            return Claim(*following, self._lease, files, self._lock.fields)
        if last['kind'] in _HELD:
            error = f'{claim_files.owner(last)} disappeared while working on it.'
            files.make(*following, 'failed', self._lease, error=error)
            return None  # the entry, of this or another worker, is read in the next scan
        self.failed[item] = last.get('error', '')
        del self.open[item]
        return None

    def _is_stale(self, item, number, entry):
        """Whether the heartbeat has not changed for a lease, by the local clock."""
        if liveness.is_gone(self._folder, entry):
            return True
        now, key = time.monotonic(), (item, number)
        beat, since = self._seen.get(key, (None, now))
        if beat != entry['beat']:
            self._seen[key] = entry['beat'], now
            return False
        return now - since >= entry['lease']


def _attempts(entries, progress):
    """Number of attempts since the item was last reopened or its progress last rose.

    `progress` is the current value.
    """
    count, before = 0, None
    for entry in entries:
        if entry['kind'] == 'reopened':
            count = 0
        elif entry['kind'] == 'released':
            count -= 1
        elif entry['kind'] == 'claim':
            reached = entry.get('progress', 0)
            count = 1 if before is not None and reached > before else count + 1
            before = reached
    return 0 if before is not None and progress > before else count
