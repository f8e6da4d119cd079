"""SIGTERM and SIGINT handling: the training loop stops cleanly after the current step."""

import os
import signal
import socket
import sys
import threading
import time

SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Launchers forward signals that the kernel has already sent to the whole process group.
SAME_WITHIN = 1.0


class StopRequests:
    """Records whether this process was asked to stop. A context manager.

    The first signal sets `requested`. Another one, more than a second later, ends the
    process at once with exit code 128 + its number, even if the main thread hangs in a
    collective: a separate thread reads signals from a wakeup file descriptor, whereas a
    Python handler would have to wait for the main thread. In a notebook, whose process
    holds the user's variables, a second interrupt raises KeyboardInterrupt instead.
    Leaving the context restores the previous handlers. Within another context it returns
    that one. Outside the main thread, which alone can handle signals, it does nothing.
    """

    def __init__(self):
        self.requested = False
        self._since = 0.0
        self._undo = lambda: None

    def __enter__(self):
        if threading.current_thread() is not threading.main_thread():
            return self
        outer = getattr(signal.getsignal(signal.SIGTERM), '__self__', None)
        if isinstance(outer, StopRequests):
            return outer
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        # Without a handler, the default action would end the process.
        handlers = {number: signal.signal(number, self._main) for number in SIGNALS}
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
                    self._handle(signal.Signals(number))

    def _handle(self, number):
        if self.requested:
            if self._is_second() and not _keeps_process(number):
                _print(f'{number.name} again: ending at once, without saving.')
                os._exit(128 + number)
            return
        self.requested, self._since = True, time.monotonic()
        _print(
            f'{number.name}: the state will be saved after this step, then the run ends. '
            'A second signal ends it at once.'
        )

    def _is_second(self):
        return self.requested and time.monotonic() - self._since > SAME_WITHIN

    def _main(self, number, frame):
        """Handles a second interrupt of a notebook; the thread handles other signals."""
        if self._is_second() and _keeps_process(number):
            raise KeyboardInterrupt


def _keeps_process(number):
    return number == signal.SIGINT and 'ipykernel' in sys.modules


def _print(text):
    print(f'\njepa-text: {text}', file=sys.stderr, flush=True)
