"""SIGTERM and SIGINT become a wish that the training loop grants at its next step."""

import os
import signal
import socket
import sys
import threading
import time

SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Launchers pass a signal on that the kernel had sent to the whole group already.
SAME_WITHIN = 1.0


class Requests:
    """Was this process asked to stop? A context manager for the main thread.

    The first signal sets `asked`; another one, more than a second later, ends the process
    at once with 128 + its number, even while the main thread hangs in a collective: a
    thread of its own reads what the kernel reports, where a Python handler would wait for
    the main thread.
    Leaving restores the handlers from before. Outside of the main thread, which alone
    may handle signals, it does nothing.
    """

    def __init__(self, end=os._exit):
        self.asked = False
        self._since = 0.0
        self._end = end
        self._undo = lambda: None

    def __enter__(self):
        if threading.current_thread() is not threading.main_thread():
            return self
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        # A handler must exist, or the kernel's own would end the process.
        handlers = {number: signal.signal(number, _nothing) for number in SIGNALS}
        thread = threading.Thread(target=self._listen, args=(reader,), daemon=True)
        thread.start()

        def undo():
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(before)
            writer.close()
            thread.join()
            reader.close()

        self._undo = undo
        return self

    def __exit__(self, *_):
        self._undo()

    def _listen(self, reader):
        while data := reader.recv(64):
            for number in data:
                if number in SIGNALS:
                    self._hear(signal.Signals(number))

    def _hear(self, number):
        if self.asked:
            if time.monotonic() - self._since > SAME_WITHIN:
                _say(f'{number.name} again: ending at once, without saving.')
                self._end(128 + number)
            return
        self.asked, self._since = True, time.monotonic()
        _say(
            f'{number.name}: the state will be saved after this step and the run ends. '
            'A second signal ends it at once.'
        )


def _nothing(number, frame):
    """The listening thread does the work."""


def _say(text):
    print(f'\njepa-text: {text}', file=sys.stderr, flush=True)
