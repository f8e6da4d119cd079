"""Several workers, such as a job array, share the items of one folder: each is done once.

    done = claims.work(folder, items, do, publish, lease=60, attempts=3)

The history of an item is the files ITEM@1, ITEM@2, ... of the folder, each made once, by
one worker, and its last one is how the item stands:

    claim      a worker is at it. It changes the file while it works: its heartbeat
    writing    the same worker has its result and publishes it, with a heartbeat too
    done       it is published
    failed     it raised, with the error; free again as long as attempts are left, and
               unless the same could only happen again (parallel/exits.py)
    released   its worker was interrupted; free again, and no attempt is counted
    reopened   what was published is gone (`reopen`); free again, with all attempts

An item is free when nothing is there, after the last three, and when a heartbeat has not
changed for the `lease` that its claim names, by the clock of the one who waits: what
clocks of other machines say is never read. Of a worker that is gone from the same machine
it is free at once. Who makes the next file has the item. So a
claim is taken over by one, and a worker that was stopped for longer and awakes cannot
make the `writing` of a number that is taken: it finds its claim lost, and publishes
nothing. Only if it is stopped between `writing` and the end of `publish` may two publish
one item, so that must be one rename (files/atomic.py) of what is the same each time.
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
_LONGEST_WAIT = 5.0  # seconds until all is looked at again
_HELD, _ENDED = ('claim', 'writing'), ('failed', 'done')

_log = logging.getLogger(__name__)


class Worked(NamedTuple):
    """What has become of the items: `done` here, all that `failed` {item: error} for
    good, whoever did it, those `lost` to others at work, and those that others still
    hold (`elsewhere`), if these were not waited for."""

    done: list
    failed: dict
    lost: list
    elsewhere: list


def work(
    folder,
    items,
    do,
    publish,
    *,
    lease=LEASE,
    attempts=3,
    wait=True,
    is_ready=None,
    progress=None,
    on_lost=None,
    on_held=None,
    look=None,
    pause=time.sleep,
):
    """Does the items that are free, one after another, and returns what is `Worked`.

    `publish(item, do(item))` follows only while the claim is held. What raises is tried
    again, here or elsewhere, after all others, until `attempts` were made; a worker that
    vanishes has made one. With `wait`, it ends when no item is left that another holds.
    KeyboardInterrupt, exits.Stopped and the like free the item and go on up.

    `is_ready(item, open)`: may it begin, beside those neither done nor given up?
    `progress(item)`, a number: attempts count since it last rose. `on_lost(item)` is
    told, from another thread, that the claim at work was taken over; `on_held(claim)` is
    given each one that was won. `look()` comes before each look for an item, and sees
    what those published that have ended by then. `pause(seconds)` waits for others.

    Raises ValueError for items that cannot be file names or come twice, a lease that is
    not above 0 and attempts below 1, OSError where the folder cannot be used.
    """
    claims = _Claims(folder, items, lease, attempts, is_ready, progress, look)
    done, lost = [], []
    try:
        while claims.open:
            count = len(claims.open)
            if claim := claims.next():
                if on_held:
                    on_held(claim)
                outcome = _done(claim, do, publish, on_lost)
                {'done': done, 'lost': lost}.get(outcome, []).append(claim.item)
            elif len(claims.open) < count:
                continue  # others may be ready now
            elif not wait:
                break
            else:
                pause(min(lease / BEATS, _LONGEST_WAIT))
    finally:
        claims.leave()
    return Worked(done, claims.failed, lost, list(claims.open))


def ended(folder):
    """{item: number of its last entry} of those that are done or failed.

    Ask before you look at what was published: what ends later is not gone.
    """
    folder, files = _place(folder)
    return {
        item: number
        for item, number in files.numbers(folder).items()
        if files.history(folder, item, number)[-1]['kind'] in _ENDED
    }


def reopen(folder, item, number):
    """Frees an item that has `ended` with this number; False where another was first."""
    folder, files = _place(folder)
    return files.make(folder, item, number + 1, 'reopened', LEASE) is not None


def _place(folder):
    """(a folder of claims, what reads and writes there): here, or at an address."""
    if addresses.is_address(folder):
        return addresses.place('The folder of claims', folder).rstrip('/'), claim_objects
    return Path(paths.local('The folder of claims', folder)), claim_files


def _done(claim, do, publish, on_lost):
    """'done', 'failed' or 'lost'."""
    try:
        with claim.beating(on_lost):
            result = do(claim.item)
            claim.step('writing')
            publish(claim.item, result)
        claim.step('done')
    except Lost as error:
        _log.warning('%s', error)
        return 'lost'
    except exits.Stopped:
        # It may have stopped because its claim was lost.
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
    """The items that are not settled (`open`), and those that `failed` for good."""

    def __init__(
        self, folder, items, lease, attempts, is_ready=None, progress=None, look=None
    ):
        items = list(items)
        bad = [item for item in items if not claim_files.ITEM.fullmatch(item)]
        if bad or len(set(items)) < len(items):
            raise ValueError(
                f'Items are names of files, of letters, digits and . _ + = - and each '
                f'once, but there is {bad[0]!r}.'
                if bad
                else f'There are {len(items)} items, but {len(set(items))} names.'
            )
        if not lease > 0 or attempts < 1:
            raise ValueError(
                f'lease={lease}, attempts={attempts}: a claim needs some seconds, and an '
                'item at least one attempt.'
            )
        self._folder, self._files = _place(folder)
        self._files.check(self._folder)
        self._lease, self._attempts = lease, attempts
        self._is_ready = is_ready or (lambda item, open_: True)
        self._progress = progress or (lambda item: 0)
        self._look = look or (lambda: None)
        self._presence = liveness.of(self._folder)
        self._seen = {}  # (item, number): (heartbeat, when it was new here)
        self.open, self.failed = dict.fromkeys(items), {}

    def leave(self):
        """No more claims are made here."""
        self._presence.leave()

    def next(self):
        """A claim that was won; None where others hold all that is open."""
        numbers = self._files.numbers(self._folder)
        self._look()  # after the numbers: who has ended by them has published before
        # Those that nobody has touched come first.
        for item in sorted(self.open, key=lambda item: numbers.get(item, 0)):
            if claim := self._won(item, numbers.get(item, 0)):
                return claim
        return None

    def _won(self, item, number):
        files = self._files
        entries = files.history(self._folder, item, number)
        last = entries[-1] if entries else {'kind': 'released'}
        if last['kind'] == 'done':
            del self.open[item]
            return None
        if last['kind'] in _HELD and not self._is_stale(item, number, last):
            return None
        following, far = (self._folder, item, number + 1), self._progress(item)
        is_final = last.get('final', False)
        if not is_final and _attempts(entries, far) < self._attempts:
            if not self._is_ready(item, self.open):
                return None
            said = {**self._presence.said, 'progress': far}
            if not files.make(*following, 'claim', self._lease, **said):
                return None
            if last['kind'] in _HELD:
                _log.warning('%s: taken over from %s', item, claim_files.owner(last))
            return Claim(*following, self._lease, files, self._presence.said)
        if last['kind'] in _HELD:
            error = f'{claim_files.owner(last)} vanished while it was at it.'
            files.make(*following, 'failed', self._lease, error=error)
            return None  # whoever made it: it is read at the next look
        self.failed[item] = last.get('error', '')
        del self.open[item]
        return None

    def _is_stale(self, item, number, entry):
        """Has its heartbeat been the same for a lease, by our own clock?"""
        if liveness.is_gone(self._folder, entry):
            return True
        now, key = time.monotonic(), (item, number)
        beat, since = self._seen.get(key, (None, now))
        if beat != entry['beat']:
            self._seen[key] = entry['beat'], now
            return False
        return now - since >= entry['lease']


def _attempts(entries, far):
    """How many were made since it was last reopened, or since its progress, now `far`,
    last rose."""
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
    return 0 if before is not None and far > before else count
