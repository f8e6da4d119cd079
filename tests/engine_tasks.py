"""Functions that tests of the engine run as tasks."""

import os
import signal
import time
from pathlib import Path

from jepa_text.parallel import exits


def add(*numbers):
    return sum(numbers)


def environment(*names):
    return [os.environ.get(name) for name in names]


def note(file, text):
    """Adds a line to a file; returns all lines."""
    with open(file, 'a') as opened:
        opened.write(f'{text}\n')
    return Path(file).read_text().split()


def fail(kind):
    kinds = dict(config=exits.ConfigError, diverged=exits.Diverged, disk=OSError)
    print('before the failure')
    raise kinds[kind](f'{kind} is wrong')


def die_once(marker):
    """Ends the process at the first call."""
    if not os.path.exists(marker):
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 'alive'


def sleep_until(started, end, asked):
    """Sleeps until `end` exists; notes that it was asked to stop."""
    signal.signal(signal.SIGTERM, lambda *_: (Path(asked).touch(), os._exit(0)))
    Path(started).write_text(str(os.getpid()))
    while not os.path.exists(end):
        time.sleep(0.05)
    return 'slept'
