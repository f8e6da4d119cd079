"""Restarts a failing command as long as it makes progress between failures."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from jepa_text.parallel import exits

LONGEST_PAUSE = 300.0


def supervise(command, restarts, progress, pause=5.0):
    """Runs the command until it is done; returns the exit code to end with.

    Exit codes are those of exits.py: after 1, 87 and death by a signal the command is run
    again after `pause` seconds, doubled with each failure, at most `restarts` times in a
    row; 0, 2 and 75 are final. `progress()` returns a set; when it has a new element,
    count and pause are reset. The command runs in its own process group, which is killed
    when the command ends. SIGTERM and SIGINT are forwarded to it, and disable restarts.
    """
    if restarts < 1:
        raise ValueError(f'restarts={restarts} must be at least 1.')
    failures, seen = 0, progress()
    with _Forward() as forward:
        while True:
            code = _run(command, forward)
            now = progress()
            failures = 1 if now - seen else failures + 1
            seen = seen | now
            if code in (exits.DONE, exits.USAGE, exits.RESUME) or forward.signaled:
                return code
            if failures > restarts:
                _print(
                    f'{_describe(code)}, {failures} times without progress: giving up.'
                )
                return code
            seconds = min(pause * 2 ** (failures - 1), LONGEST_PAUSE)
            _print(
                f'{_describe(code)}; starting again in {seconds:g} s (restart {failures} '
                f'of {restarts} until the next checkpoint).'
            )
            if not forward.sleep(seconds):
                return exits.RESUME


def complete(folder):
    """The complete checkpoints of the runs in a folder, as a measure of progress."""
    return set(Path(folder).glob('**/checkpoints/*/CHECKSUMS.json'))


class _Forward:
    """Forwards signals to the current child; a context manager."""

    def __init__(self):
        self.child, self.signaled = None, False

    def __enter__(self):
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        self._before = {number: signal.signal(number, self._send) for number in numbers}
        return self

    def __exit__(self, *_):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _send(self, number, frame):
        self.signaled = True
        if self.child is not None and self.child.poll() is None:
            # A closed terminal is a request to stop, too.
            number = signal.SIGTERM if number == signal.SIGHUP else number
            self.child.send_signal(number)

    def sleep(self, seconds):
        """Returns True after so many seconds, False as soon as a signal arrives."""
        until = time.monotonic() + seconds
        while not self.signaled and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))
        return not self.signaled


def _run(command, forward):
    """Runs a child; returns its exit code, or 128 + the signal that killed it."""
    forward.child = subprocess.Popen(command, start_new_session=True)
    if forward.signaled:  # a signal arrived between two children
        forward.child.terminate()
    code = forward.child.wait()
    # Processes left by a killed child would keep its devices and files.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(forward.child.pid, signal.SIGKILL)
    return code if code >= 0 else 128 - code


def _describe(code):
    if code == exits.HUNG:
        return 'the run hung (87)'
    if code - 128 in set(signal.Signals):
        return f'the run was killed by {signal.Signals(code - 128).name}'
    return f'the run failed ({code})'


def _print(text):
    print(f'jepa-text: {text}', file=sys.stderr, flush=True)
