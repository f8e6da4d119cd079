"""Watchdog: ends a run that hangs, after recording the stacks of all threads.

A process that waits for a dead or hanging peer waits forever, because neither XLA nor its
collectives time out. Therefore a thread monitors that steps make progress.
"""

import dataclasses
import faulthandler
import math
import os
import sys
import threading
import time
from pathlib import Path

from jepa_text.config import schema
from jepa_text.parallel import exits

FILE = 'stacks.txt'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `watchdog`: seconds after which a run counts as hanging; 0: never."""

    seconds: float = schema.field(900.0, 'per step; 0: no watchdog', minimum=0)
    compile: float = schema.field(3600.0, 'for the first step of a phase', minimum=0)
    pause: float = schema.field(3600.0, 'for an evaluation or a checkpoint', minimum=0)
    prepare: float = schema.field(0.0, 'for preparing missing rows', minimum=0)


class Watchdog:
    """Ends the process with exit code 87 if a step takes too long; a context manager.

    `seconds` are allowed from one `beat` to the next, 0 for no limit. The first step of a
    phase compiles, and evaluations and checkpoints take time: `expect` allows `compile`
    or `pause` seconds once, and `prepare` seconds for rows, which take time proportional
    to the amount of text: usually 0. The stacks are written to stderr and to `path`
    (stacks.txt).
    """

    def __init__(
        self,
        path,
        *,
        seconds=Config.seconds,
        compile=Config.compile,
        pause=Config.pause,
        prepare=Config.prepare,
        end=os._exit,
    ):
        self.allowances = {
            'step': seconds,
            'compile': compile,
            'pause': pause,
            'prepare': prepare,
        }
        self._path, self._end = Path(path), end
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.expect('compile')

    def expect(self, what):
        """Sets the deadline for the next `beat` to the named allowance."""
        self._what, allowed = what, self.allowances[what]
        # If steps are not watched, nothing is.
        watched = allowed and self.allowances['step']
        self._deadline = time.monotonic() + allowed if watched else math.inf

    def beat(self):
        """Reports a completed step; the next one has the allowance of a step."""
        self.expect('step')

    def __enter__(self):
        if self.allowances['step']:
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._closed.set()

    def _watch(self):
        shortest = min(filter(None, self.allowances.values()))
        while not self._closed.wait(min(1.0, shortest / 4)):
            if time.monotonic() > self._deadline:
                self._end_process()
                return

    def _end_process(self):
        text = (
            f'jepa-text: no progress for {self.allowances[self._what]:g} s (watchdog, '
            f'{self._what}): exiting with code {exits.HUNG}. The stacks of all threads '
            f'are below and in {self._path}; run the same command again to resume.'
        )
        print(f'\n{text}', file=sys.stderr, flush=True)
        faulthandler.dump_traceback(file=sys.__stderr__, all_threads=True)
        # The file system may be what hangs, so writing is limited to ten seconds.
        writer = threading.Thread(target=self._record, args=(text,), daemon=True)
        writer.start()
        writer.join(10)
        self._end(exits.HUNG)

    def _record(self, text):
        try:
            with open(self._path, 'w', encoding='utf-8') as file:
                print(text, file=file, flush=True)
                faulthandler.dump_traceback(file=file, all_threads=True)
        except OSError as error:
            print(f'{self._path} cannot be written: {error}', file=sys.stderr)
