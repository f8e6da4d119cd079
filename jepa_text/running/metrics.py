"""Metrics of a run: the file metrics.jsonl, and event files of TensorBoard.

`metrics.jsonl` is authoritative, with one JSON object per line:
{"step": 100, "train/loss": 5.25}. Keys are sorted and floats are written with all digits,
so the file of a resumed run can be compared byte by byte with that of an uninterrupted
one. JSON has no NaN: it and the infinities are the strings "nan", "inf" and "-inf", which
`read` converts back to floats. The last key of a line, "crc", is the CRC-32 of what
precedes it, so that a digit flipped on the disk is detected.
"""

import json
import logging
import math
import os
import re
import socket
import struct
import sys
import time
import zlib
from pathlib import Path

import numpy as np

from jepa_text.files import atomic

FILE = 'metrics.jsonl'
_CRC = 'crc'
_DAMAGE = (ValueError, TypeError, KeyError, AttributeError, OverflowError)
_END = re.compile(rb', "crc": "[0-9a-f]{8}"}')
_log = logging.getLogger(__name__)


class Writer:
    """Appends metrics to a workdir; a context manager. Open it in one process only.

    Finite ones are also written to event files of TensorBoard, which would warn of each
    other one. With `resume_step=k`, all lines after step k and an incomplete last line
    are removed first (by an atomic rewrite) and hidden from TensorBoard; the run then
    writes those steps again. Without it every complete line is kept. `write` hands each
    line to the operating system, so a killed process loses none; a power failure loses
    none that were written before `sync`. What a full disk does not take waits, with a
    warning, until there is space. `logged` is what `sync` returned then: a warning is
    logged if lines up to that step are missing nevertheless.
    """

    def __init__(self, workdir, resume_step=None, *, tensorboard=True, logged=None):
        self._path = Path(workdir) / FILE
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._last = _trim(self._path, math.inf if resume_step is None else resume_step)
        if logged is not None and (self._last is None or self._last < logged):
            _log.warning(
                'The end of %s is lost: its last step is %s, but it was written up to '
                'step %s before the checkpoint that the run resumes from.',
                self._path,
                self._last,
                logged,
            )
        self._file = _Growing(self._path)
        self._events = _Events(workdir, resume_step) if tensorboard else None

    def write(self, step, values):
        """Appends {name: scalar} at a step; scalars are of Python, numpy or JAX.

        Raises ValueError for a value that is not a scalar and for the reserved names
        `step` and `crc`.
        """
        for reserved in values.keys() & {'step', _CRC}:
            raise ValueError(f'A metric cannot be named "{reserved}": it is reserved.')
        line = {name: _scalar(name, value) for name, value in sorted(values.items())}
        written = {name: x if math.isfinite(x) else str(x) for name, x in line.items()}
        text = json.dumps({'step': int(step), **written}, allow_nan=False)
        self._file.append(_with_checksum(text.encode()))
        self._last = int(step)
        if self._events:
            self._events.append(int(step), line)

    def sync(self):
        """Flushes all lines to the disk; returns the last step written, None if none."""
        self._file.append()
        os.fsync(self._file.file.fileno())
        return self._last

    def close(self):
        for one in filter(None, (self._file, self._events and self._events.growing)):
            one.append()
            one.file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def read(workdir):
    """The lines of a workdir's metrics.jsonl as dicts, in the order they were written.

    An incomplete last line, left by a kill, is skipped. Raises FileNotFoundError if there
    is no file, and ValueError with the line number for any other damage.
    """
    path = Path(workdir) / FILE
    if not path.is_file():
        raise FileNotFoundError(
            f'There is no {path}. Give the workdir of a run that has logged metrics.'
        )
    return [
        {name: float(x) if isinstance(x, str) else x for name, x in row.items()}
        for row, _ in _complete_lines(path)
    ]


def copy(source, workdir, last_step):
    """Writes the lines of the run in `source` up to a step as those of `workdir`."""
    kept = _lines_until(Path(source) / FILE, last_step)
    atomic.write(Path(workdir) / FILE, b''.join(line for _, line in kept))


def newest(workdir, prefix, step=math.inf):
    """(step, values) of the newest metrics with a name prefix, up to a step.

    (None, {}) if there are none. Raises ValueError as `read` does.
    """
    rows = read(workdir) if (Path(workdir) / FILE).is_file() else []
    for row in reversed([row for row in rows if row['step'] <= step]):
        values = {name: value for name, value in row.items() if name.startswith(prefix)}
        if values:
            return row['step'], values
    return None, {}


def series(rows, name):
    """(steps, values) arrays of one metric in rows from `read`; may be empty."""
    pairs = [(row['step'], row[name]) for row in rows if name in row]
    steps, values = zip(*pairs) if pairs else ((), ())
    return np.array(steps, np.int64), np.array(values, np.float64)


class _Growing:
    """A file to append to. What a full disk does not take waits for the next time."""

    def __init__(self, path):
        self.file = open(path, 'ab', buffering=0)  # noqa: SIM115
        self._waiting = b''

    def append(self, content=b''):
        was_full, self._waiting = bool(self._waiting), self._waiting + content
        try:
            while self._waiting:
                self._waiting = self._waiting[self.file.write(self._waiting) :]
        except OSError as error:
            if error.errno not in atomic.FULL:
                raise
            if not was_full:
                text = 'The disk is full. %s grows again when there is space: free some.'
                _log.warning(text, self.file.name)


class _Events:
    """An event file of TensorBoard, which hides earlier events after `resume_step`."""

    def __init__(self, workdir, resume_step):
        # tensorboardX imports torch, which takes seconds, if it is installed.
        is_hidden = sys.modules.setdefault('torch', None) is None
        try:
            from tensorboardX import record_writer
            from tensorboardX.proto import event_pb2
        finally:
            if is_hidden:
                del sys.modules['torch']
        self._proto, self._crc = event_pb2, record_writer.masked_crc32c
        # With nanoseconds, two runs in a second have different files.
        ending = f'{time.time():.0f}.{socket.gethostname()}.{time.time_ns()}'
        self.growing = _Growing(Path(workdir, f'events.out.tfevents.{ending}'))
        self._event(file_version='brain.Event:2')
        if resume_step is not None:
            start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._event(step=resume_step + 1, session_log=start)

    def append(self, step, values):
        """Appends those of {name: number} that are finite."""
        finite = {name: x for name, x in values.items() if math.isfinite(x)}
        shown = [{'tag': name, 'simple_value': x} for name, x in finite.items()]
        self._event(step=step, summary={'value': shown})

    def _event(self, **fields):
        event = self._proto.Event(wall_time=time.time(), **fields).SerializeToString()
        size = struct.pack('<Q', len(event))
        sums = [struct.pack('<I', self._crc(part)) for part in (size, event)]
        self.growing.append(size + sums[0] + event + sums[1])


def _scalar(name, value):
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind in 'OSUMmc':
        raise ValueError(
            f'Metric {name!r} must be one number, but it is {type(value).__name__} of '
            f'shape {array.shape}. Average it first.'
        )
    item = array.reshape(()).astype(np.float64) if array.dtype.kind == 'V' else array
    return int(item.item()) if array.dtype.kind in 'iub' else float(item.item())


def _complete_lines(path):
    """(row, its bytes) of every line, except for an incomplete last one."""
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            row = _parse(line)
        except _DAMAGE as error:
            is_cut = not line.endswith(b'\n') and not _END.search(line)
            if number == len(lines) and is_cut:
                return
            raise ValueError(
                f'{path} is damaged at line {number} of {len(lines)}: {line[:60]!r}. '
                'Only the last line may be incomplete. Delete the line if you do not '
                'need its metrics.'
            ) from error
        yield row, line.rstrip(b'\n') + b'\n'


def _lines_until(path, last_step):
    steps = ((row['step'], line) for row, line in _complete_lines(path))
    return [(step, line) for step, line in steps if step <= last_step]


def _with_checksum(line):
    """Appends the checksum of a line of JSON as its last key, and a newline."""
    return b'%s, "%s": "%08x"}\n' % (line[:-1], _CRC.encode(), zlib.crc32(line))


def _parse(line):
    """The row of a line, without its checksum."""
    row = json.loads(line)
    int(row['step'])
    crc = row.pop(_CRC, None)
    # Lines of older versions have no checksum; in these, strings can only be numbers.
    for value in row.values():
        float(value)
    if crc is not None:
        end = _END.search(line)
        expected = end and _with_checksum(line[: end.start()] + b'}')
        if expected != line.rstrip(b'\n') + b'\n':
            raise ValueError('its checksum does not match')
    return row


def _trim(path, last_step):
    """Removes the lines after a step; returns the step of the last remaining line."""
    if not path.exists():
        return None
    kept = _lines_until(path, last_step)
    text = b''.join(line for _, line in kept)
    if text != path.read_bytes():
        atomic.write(path, text)
    return kept[-1][0] if kept else None
