"""A claimed work item: its heartbeat, and the entries that this worker adds for it."""

import contextlib
import logging
import threading

from jepa_text.running import claim_files

BEATS = 4  # heartbeats per lease

_log = logging.getLogger(__name__)


class Lost(RuntimeError):
    """Another worker has taken over the claim."""


class Claim:
    """An item that this worker has claimed with the entry `number`.

    `fields` are added to every entry.
    """

    def __init__(self, folder, item, number, lease, files, fields):
        self.item, self._folder, self._number = item, folder, number
        self._files, self._lease, self._fields = files, lease, fields
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def heartbeat(self, on_lost=None):
        """Context manager: a background thread renews the heartbeat.

        If another worker has taken over the claim, it calls `on_lost(item)` and stops.
        """
        ended = threading.Event()
        thread = threading.Thread(target=self._beat, args=(ended, on_lost), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def check(self):
        """Raises Lost if another worker has taken over the claim."""
        with self._lock:
            if self._is_lost():
                self._give_up(self._number + 1)

    def step(self, kind, **more):
        """Adds the next entry; raises Lost if another worker has added it."""
        with self._lock:
            number = self._number + 1
            entry = self._folder, self.item, number
            if not self._files.make(*entry, kind, self._lease, **self._fields, **more):
                self._give_up(number)
            self._number = number

    def end(self, kind, **more):
        """Like `step`, but returns 'lost' instead of raising Lost, and else `kind`."""
        try:
            self.step(kind, **more)
        except Lost:
            return 'lost'
        return kind

    def _give_up(self, number):
        other = self._files.read(self._files.path_of(self._folder, self.item, number))
        raise Lost(
            f'{self.item}: {claim_files.owner(other)} took it over, because this worker '
            f'sent no heartbeat for {self._lease:g} s. That worker continues it.'
        )

    def _beat(self, ended, on_lost):
        count = 0
        while not ended.wait(self._lease / BEATS):
            count += 1
            with self._lock:
                path = self._files.path_of(self._folder, self.item, self._number)
                try:
                    if on_lost and self._is_lost():
                        on_lost(self.item)
                        return
                    self._files.beat(path, count)
                except OSError as error:
                    # If this persists, another worker takes over, which `step` detects.
                    _log.warning('%s: no heartbeat: %s', path, error)

    def _is_lost(self):
        last = self._files.numbers(self._folder).get(self.item, 0)
        return last > self._number
