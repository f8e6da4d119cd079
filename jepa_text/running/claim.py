"""An item that this worker has: its heartbeat, and the entries that follow."""

import contextlib
import logging
import threading

from jepa_text.running import claim_files

BEATS = 4  # in one lease

_log = logging.getLogger(__name__)


class Lost(RuntimeError):
    """Another worker has taken the claim over."""


class Claim:
    """An item that this worker has, as the entry of a number says."""

    def __init__(self, folder, item, number, lease, files, said):
        self.item, self._folder, self._number = item, folder, number
        self._files, self._lease, self._said = files, lease, said
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def beating(self, on_lost=None):
        """The heartbeat goes on within, from a thread of its own, which tells `on_lost`
        of a claim that was taken over."""
        ended = threading.Event()
        thread = threading.Thread(target=self._beat, args=(ended, on_lost), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def check(self):
        """Raises Lost if another worker has taken it over."""
        with self._lock:
            if self._is_lost():
                self._give_up(self._number + 1)

    def step(self, kind, **more):
        """Makes the next entry; raises Lost if another has."""
        with self._lock:
            number = self._number + 1
            entry = self._folder, self.item, number
            if not self._files.make(*entry, kind, self._lease, **self._said, **more):
                self._give_up(number)
            self._number = number

    def end(self, kind, **more):
        """`step`, where it does not matter any more if it is lost: then 'lost'."""
        try:
            self.step(kind, **more)
        except Lost:
            return 'lost'
        return kind

    def _give_up(self, number):
        other = self._files.history(self._folder, self.item, number)[-1]
        raise Lost(
            f'{self.item}: {claim_files.owner(other)} took it over, as no heartbeat came '
            f'from here for {self._lease:g} s. It is left to that one.'
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
                    # If it stays so, another takes over, and `step` finds that out.
                    _log.warning('%s: no heartbeat: %s', path, error)

    def _is_lost(self):
        last = self._files.numbers(self._folder).get(self.item, 0)
        return last > self._number
