"""Runs a command again when it fails, as long as it gets anywhere in between."""

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

    Exit codes as in exits.py: 1, 87 and death by a signal are tried again after `pause`
    seconds, twice as long each time, at most `restarts` times in a row; 0, 2 and 75 end
    it. `progress()` names what has been achieved: when it names something new, count
    and pause begin anew. The command gets a process group of its own, of which nothing
    outlives it; SIGTERM and SIGINT are passed on to it, and then nothing is restarted.
    """
    if restarts < 1 or pause < 0:
        raise ValueError(
            f'restarts={restarts} must be at least 1, pause={pause} not < 0.'
        )
    failures, seen = 0, progress()
    with _Forward() as forward:
        while True:
            code = _run(command, forward)
            now = progress()
            failures = 1 if now - seen else failures + 1
            seen = seen | now
            if code in (exits.DONE, exits.USAGE, exits.RESUME) or forward.heard:
                return code
            if failures > restarts:
                _say(f'{_words(code)}, {failures} times without progress: giving up.')
                return code
            seconds = min(pause * 2 ** (failures - 1), LONGEST_PAUSE)
            _say(
                f'{_words(code)}; starting again in {seconds:g} s (restart {failures} of '
                f'{restarts} until the next checkpoint).'
            )
            if not forward.sleep(seconds):
                return exits.RESUME


def complete(folder):
    """The complete checkpoints of the runs in a folder: a new one is progress."""
    return set(Path(folder).glob('**/checkpoints/*/CHECKSUMS.json'))


class _Forward:
    """Passes signals on to the child of the moment; a context manager."""

    def __init__(self):
        self.child, self.heard = None, False

    def __enter__(self):
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        self._before = {number: signal.signal(number, self._pass) for number in numbers}
        return self

    def __exit__(self, *_):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _pass(self, number, frame):
        self.heard = True
        if self.child is not None and self.child.poll() is None:
            # A terminal that went away is a wish to stop, too.
            asked = signal.SIGTERM if number == signal.SIGHUP else number
            self.child.send_signal(asked)

    def sleep(self, seconds):
        """True after so many seconds, False as soon as a signal came."""
        until = time.monotonic() + seconds
        while not self.heard and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))
        return not self.heard


def _run(command, forward):
    """The exit code of one child, 128 + the signal if one killed it."""
    forward.child = subprocess.Popen(command, start_new_session=True)
    if forward.heard:  # between two children
        forward.child.terminate()
    code = forward.child.wait()
    # Workers of a child that was killed would hold its devices and files.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(forward.child.pid, signal.SIGKILL)
    return code if code >= 0 else 128 - code


def _words(code):
    if code == exits.HUNG:
        return 'the run hung (87)'
    if code > 128:
        return f'the run was killed by {signal.Signals(code - 128).name}'
    return f'the run failed ({code})'


def _say(text):
    print(f'jepa-text: {text}', file=sys.stderr, flush=True)
