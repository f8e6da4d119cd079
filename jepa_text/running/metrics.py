"""What a run says about itself: metrics.jsonl, what else is told, and the clock.

`metrics.jsonl` is the truth, one JSON object a line: {"step": 100, "train/loss": 5.25}.
Keys are sorted and floats keep all their digits, so that a resumed run's file can be
compared with a straight run's byte by byte. JSON has no NaN: it and the infinities are
the strings "nan", "inf" and "-inf", and `read` turns them back into floats. The last key
of a line, "crc", is the CRC-32 of what stands before it: a digit that flipped on the disk
is no measurement.
"""

import contextlib
import json
import logging
import math
import os
import time
from pathlib import Path

import numpy as np

from jepa_text.files import atomic
from jepa_text.running import metrics_line, writers

FILE = 'metrics.jsonl'
_log = logging.getLogger(__name__)


class Writer:
    """Appends metrics to a workdir; a context manager. Open it on one process only.

    With `resume_step=k` everything later than step k, and a last line that a kill cut
    in half, is removed first (by an atomic rewrite) and hidden from TensorBoard; the
    run then writes those steps again. Without it every whole line is kept. To lose
    nothing, write the metrics of step k before saving the checkpoint of step k.
    `write` hands each line to the operating system: a killed process loses none.
    Neither does a machine without power that lose what was written before `sync`. What
    `sync` said then is given as `logged`: where lines up to that step are missing
    nevertheless, this is warned of. `tensorboard`, and `wandb` if it is not None, say
    where else the metrics go (writers.py).
    """

    def __init__(
        self, workdir, resume_step=None, *, tensorboard=True, wandb=None, logged=None
    ):
        self._path = Path(workdir) / FILE
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._last = _trim(self._path, math.inf if resume_step is None else resume_step)
        if logged is not None and (self._last is None or self._last < logged):
            _log.warning(
                'The end of %s is lost: it tells of steps up to %s, and was written up '
                'to step %s before the checkpoint that the run goes on from.',
                self._path,
                self._last,
                logged,
            )
        self._file = open(self._path, 'ab', buffering=0)  # noqa: SIM115
        self._outlets = []
        if tensorboard:
            self._outlets.append(writers.TensorBoard(workdir, resume_step))
        if wandb:
            self._outlets.append(writers.Wandb(workdir, wandb))

    def write(self, step, values):
        """Appends {name: scalar} at a step; scalars of Python, numpy or JAX.

        Raises ValueError for a value that is no scalar, for a step below 0, and for a
        value named `step`.
        """
        if int(step) != step or step < 0:
            raise ValueError(f'A step is a whole number from 0, but {step!r} was given.')
        for taken in values.keys() & {'step', metrics_line.CRC}:
            raise ValueError(f'A metric cannot be named "{taken}": the line has its own.')
        line = {name: _scalar(name, value) for name, value in values.items()}
        written = {name: _to_json(value) for name, value in sorted(line.items())}
        text = json.dumps({'step': int(step), **written}, allow_nan=False)
        data = metrics_line.summed(text.encode())
        while data:  # on a disk that is nearly full, a part is written without an error
            data = data[self._file.write(data) :]
        self._last = int(step)
        for outlet in self._outlets:
            outlet.write(int(step), line)

    def sync(self):
        """Brings all lines to the disk; returns the last step of one, None if none."""
        os.fsync(self._file.fileno())
        return self._last

    def close(self):
        """Flushes and closes all; a second call does nothing."""
        self._file.close()
        while self._outlets:
            self._outlets.pop().close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def read(workdir):
    """The lines of a workdir's metrics.jsonl as dicts, in the order they were written.

    A last line cut in half by a kill is left out. Raises FileNotFoundError when there is
    no file, and ValueError with the line number for damage anywhere else.
    """
    path = Path(workdir) / FILE
    if not path.is_file():
        raise FileNotFoundError(
            f'There is no {path}. Give the workdir of a run that has logged once.'
        )
    return [
        {name: _from_json(value) for name, value in row.items()}
        for row, _ in _whole_lines(path)
    ]


def take_over(workdir, source, last_step):
    """Writes the lines of another run up to a step into a workdir, as its own."""
    path = Path(source) / FILE
    kept = [line for row, line in _whole_lines(path) if row['step'] <= last_step]
    atomic.write(Path(workdir) / FILE, b''.join(kept))


def newest(workdir, prefix, step=math.inf):
    """(step, values) of the newest metrics of a workdir that begin so, up to a step.

    (None, {}) where there are none. Raises ValueError as `read` does.
    """
    rows = read(workdir) if (Path(workdir) / FILE).is_file() else []
    for row in reversed([row for row in rows if row['step'] <= step]):
        found = {name: value for name, value in row.items() if name.startswith(prefix)}
        if found:
            return row['step'], found
    return None, {}


def series(rows, name):
    """(steps, values) of one metric in what `read` gave; both empty if never written."""
    pairs = [(row['step'], row[name]) for row in rows if name in row]
    steps, values = zip(*pairs) if pairs else ((), ())
    return np.array(steps, np.int64), np.array(values, np.float64)


def _scalar(name, value):
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind in 'OSUMmc':
        raise ValueError(
            f'Metric {name!r} must be one number, but it is {type(value).__name__} of '
            f'shape {array.shape}. Average it first.'
        )
    item = array.reshape(()).astype(np.float64) if array.dtype.kind == 'V' else array
    return int(item.item()) if array.dtype.kind in 'iub' else float(item.item())


def _to_json(value):
    return value if math.isfinite(value) else str(value)


def _from_json(value):
    return float(value) if isinstance(value, str) else value


def _whole_lines(path):
    """(row, its bytes) of every line, without a last one that is cut off."""
    found = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(found, start=1):
        try:
            row = metrics_line.row_of(line)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            is_cut = not line.endswith(b'\n') and not metrics_line.END.search(line)
            if number == len(found) and is_cut:
                return
            raise ValueError(
                f'{path} is damaged at line {number} of {len(found)}: {line[:60]!r}. '
                'Only the last line may be incomplete. Delete the line if its metrics '
                'can be spared.'
            ) from error
        yield row, line.rstrip(b'\n') + b'\n'


def _trim(path, last_step):
    """Removes the lines after a step; returns the step of the last line that is left."""
    if not path.exists():
        return None
    kept = [(row['step'], line) for row, line in _whole_lines(path)]
    kept = [(step, line) for step, line in kept if step <= last_step]
    text = b''.join(line for _, line in kept)
    if text != path.read_bytes():
        atomic.write(path, text)
    return kept[-1][0] if kept else None


class Throughput:
    """A clock on the host: tokens per second and time per step between two log points.

    JAX returns before the device is done, so single steps cannot be timed without
    slowing them down; the mean over a window that ends in `block_until_ready` can.
    The first step compiles and is not counted; after `restart` (a new phase) neither is
    the next. Time inside `paused` (evaluation, checkpoints) is not counted. `counted` is
    the sum of all seconds that were.

        clock = Throughput(devices=jax.device_count())
        state, metrics = step(state, batch)
        clock.step(tokens)                      # blocks on a step that compiles
        with clock.waiting(computes):
            batch = next(batches)
        ...
        writer.write(n, clock.window())         # block on the last step before this
    """

    def __init__(self, devices=1, now=time.perf_counter):
        self._devices, self._now = devices, now
        self.counted = 0.0
        self._reset()
        self.restart()

    def _reset(self):
        self._start = self._now()
        self._excluded = self._waited = 0.0
        self._tokens = []

    def restart(self):
        """Leaves out the next step: it compiles."""
        self._skip_from = self._now()

    def step(self, tokens):
        """Counts one step of so many non-padding tokens, a number or a device scalar."""
        if self._skip_from is None:
            self._tokens.append(tokens)
            return
        # A device scalar is a number when the step has ended, and not when it has begun.
        int(tokens)
        # The window closed before this step began, if it began in an earlier window.
        self._excluded += self._now() - max(self._skip_from, self._start)
        self._skip_from = None

    @contextlib.contextmanager
    def waiting(self, computes):
        """Around `next(batches)`: time that the device may have spent without work. It
        has not where `computes()` is true at the end."""
        begin = self._now()
        yield
        if self._skip_from is None and not computes():
            self._waited += self._now() - begin

    @contextlib.contextmanager
    def paused(self):
        """Around work that is not training: its time is left out."""
        begin = self._now()
        yield
        if self._skip_from is None:
            self._excluded += self._now() - begin

    def window(self):
        """The `throughput/` metrics since the last call; {} if no step counted.

        Tokens per second (all devices, and per device); `step_time` and `input_wait` in
        seconds per step.
        """
        steps, end = len(self._tokens), self._now()
        excluded = self._excluded
        if self._skip_from is not None:
            excluded += end - max(self._skip_from, self._start)
        seconds = end - self._start - excluded
        tokens, waited = sum(int(count) for count in self._tokens), self._waited
        self._reset()
        if not steps or seconds <= 0:
            return {}
        self.counted += seconds
        return {
            'throughput/tokens_per_second': tokens / seconds,
            'throughput/tokens_per_second_per_device': tokens / seconds / self._devices,
            'throughput/step_time': seconds / steps,
            'throughput/input_wait': waited / steps,
        }
