"""Which part of the time since a run was first started went into steps that count.

    goodput = seconds in steps that the state contains / seconds since the first start

Compilation, evaluation, checkpoints, restarts, waiting for a machine, and steps that a
crash took back are the rest (Google's ML goodput counts alike). A file in the workdir
knows the first start; each checkpoint knows its own seconds.
"""

import json
import time
from pathlib import Path

from jepa_text.files import atomic

FILE = 'started.json'


class Goodput:
    """The goodput of the run in a folder."""

    def __init__(self, folder, now=time.time):
        self._now, self._began = now, _first_start(Path(folder) / FILE, now)

    def share(self, seconds):
        """From 0 to 1, when so many seconds went into steps that count."""
        passed = self._now() - self._began
        return min(seconds / passed, 1.0) if passed > 0 else 0.0


def _first_start(path, now):
    try:
        return float(json.loads(path.read_text(encoding='utf-8'))['unix_time'])
    except FileNotFoundError:
        began = now()
        atomic.write(path, json.dumps({'unix_time': began}) + '\n')
        return began
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f'{path} is damaged ({error}). It only says when the run was first started: '
            'delete it, and the goodput counts from now.'
        ) from error
