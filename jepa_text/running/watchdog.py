"""A run that hangs is ended, with the stack of every thread on record.

A process that waits for a dead or hanging peer waits for ever: neither XLA nor its
collectives give up. So a thread watches that steps go on.
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
    """The section `watchdog`: seconds after which a run hangs; 0: for ever."""

    seconds: float = schema.field(900.0, 'for a step; 0: no watchdog', minimum=0)
    compile: float = schema.field(3600.0, 'for the first step of a phase', minimum=0)
    pause: float = schema.field(3600.0, 'for an evaluation or a checkpoint', minimum=0)
    prepare: float = schema.field(0.0, 'for rows, as far as they are missing', minimum=0)


class Watchdog:
    """Ends the process with exit code 87 when a step takes too long; a context manager.

    `seconds` are allowed from one `beat` to the next, 0 for ever. The first step of a
    phase compiles, and evaluations and checkpoints take their time: `expect` allows
    `compile` or `pause` seconds once, and `prepare` seconds for rows, which take as long
    as there is text: 0 as a rule. The stacks go to stderr and to `path`, a folder's
    stacks.txt. Raises ValueError for a negative or missing number of seconds.
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
        for name, allowed in self.allowances.items():
            if not (isinstance(allowed, int | float) and allowed >= 0):
                raise ValueError(
                    f'watchdog: {allowed!r} seconds for a {name}; give a number, or 0 to '
                    'wait for ever.'
                )
        self._path, self._end = Path(path), end
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.expect('compile')

    def expect(self, what):
        """From now on one of the allowances may take its time, until `beat`."""
        self._what, allowed = what, self.allowances[what]
        # No watch at all where steps are not watched.
        watched = allowed and self.allowances['step']
        self._deadline = time.monotonic() + allowed if watched else math.inf

    def beat(self):
        """A step was done; the next one may take as long as a step may."""
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
                self._bark()
                return

    def _bark(self):
        text = (
            f'jepa-text: no progress for {self.allowances[self._what]:g} s (watchdog, '
            f'{self._what}): ending with code {exits.HUNG}. The stacks of all threads '
            f'are below and in {self._path}; the same command resumes.'
        )
        print(f'\n{text}', file=sys.stderr, flush=True)
        faulthandler.dump_traceback(file=sys.__stderr__, all_threads=True)
        # The file system may be what hangs, so it gets ten seconds and no more.
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
