"""Goodput: the share of wall-clock time spent in training steps that count.

    goodput = seconds in steps that the state contains / seconds since the first start

The rest is compilation, evaluation, checkpoints, restarts, waiting for a machine, and
steps lost in a crash (as in Google's ML goodput). A file in the workdir stores
the time of the first start; each checkpoint stores the seconds spent in its steps.
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
        """Goodput from 0 to 1, given the seconds spent in steps that count."""
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
            f'{path} is damaged ({error}). It only stores when the run was first '
            'started: delete it, and the goodput is measured from now.'
        ) from error
