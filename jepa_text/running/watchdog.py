"""Watchdog: ends a run that hangs, after printing the stacks of all threads.

A process that waits for a dead or hanging peer waits forever, because neither XLA nor its
collectives time out. Therefore a thread monitors that steps make progress.
"""

import dataclasses
import faulthandler
import math
import os
import sys
import threading

from jepa_text.parallel import exits
from jepa_text.settings import schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `watchdog`: seconds after which a run counts as hanging; 0: never."""

    seconds: float = schema.field(900.0, 'per step; 0: no watchdog', minimum=0)
    pause_seconds: float = schema.field(3600.0, 'to compile, evaluate or save', minimum=0)


class Watchdog:
    """Ends the process with exit code 87 if a step takes too long; a context manager.

    `seconds` are allowed from one `beat` to the next, and `pause_seconds` after a call of
    `pause`, as compiling, evaluations and checkpoints take time.
    """

    def __init__(self, *, seconds=Config.seconds, pause_seconds=Config.pause_seconds):
        self._seconds, self._pause = seconds, pause_seconds
        # Not by the clock, which goes on while a scheduler suspends the process.
        self._waited = 0.0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.pause()

    def beat(self):
        """Reports a completed step."""
        self._allow(self._seconds)

    def pause(self):
        """Allows other work than a step until the next call."""
        self._allow(self._pause)

    def suspend(self):
        """Allows work of any duration until the next call."""
        self._allow(0)

    def _allow(self, seconds):
        self._allowed = seconds
        self._deadline = self._waited + (seconds or math.inf)

    def __enter__(self):
        if self._seconds:
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._closed.set()

    def _watch(self):
        period = min(1.0, self._seconds / 4)
        while self._waited <= self._deadline:
            if self._closed.wait(period):
                return
            self._waited += period
        print(
            f'\njepa-text: no progress for {self._allowed:g} s (watchdog): exiting with '
            f'code {exits.HUNG}; run the same command again to resume. The stacks of all '
            'threads:',
            file=sys.stderr,
            flush=True,
        )
        faulthandler.dump_traceback(file=sys.__stderr__, all_threads=True)
        os._exit(exits.HUNG)
