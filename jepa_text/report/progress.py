"""The progress of long work: one bar for all commands."""

import functools
import os
import sys
import threading
import time

from jepa_text.files import atomic

_EVERY = 60.0  # seconds between the lines of a log
_CHANGED = 0.5  # seconds between the changes of a line of a notebook


class Progress:
    """A context manager that shows how far long work is, and how long it still takes.

    A terminal has a bar, and a notebook a line that changes. A log has a line as soon as
    the remaining time is known, one a minute, and the last. Work within other work, such
    as the training of a member of a study, is shown as a part of it.

    The remaining time is that of work as fast as what followed the first update, before
    which models are loaded; the seconds in which jax compiled are left out. `costs` are
    [(steps, cost of each)] of the parts of the work, by default one of equal steps.
    """

    def __init__(
        self,
        name,
        total,
        start=0,
        costs=None,
        stream=None,
        now=time.monotonic,
        compiled=None,
    ):
        self.name, self.total, self.step, self._start = name, total, start, start
        self._costs, self._numbers, self._first = costs or [(total, 1.0)], {}, None
        self._stream, self._now, self._compiled = stream, now, compiled or _compiled
        self._began = now()

    def update(self, step, loss=None, tokens_per_second=None, description=None):
        """Shows that `step` steps are done. What is None stays as it was."""
        self.step, self.name = step, description or self.name
        if loss is not None:
            self._numbers['loss'] = f'loss {float(loss):.3f}'
        if tokens_per_second is not None:
            self._numbers['rate'] = f'{_short(float(tokens_per_second))} tokens/s'
        _OPEN.bars[0]._show()

    def log(self, text):
        """Prints a line, above the bar if there is one."""
        _OPEN.bars[0]._view.log(text)

    def seconds(self):
        """Returns the seconds since the start, and those that are left, None if that is
        not known."""
        elapsed, done = self._now() - self._began, self._cost(self._done())
        known, spent = self._first or (done, 0.0)
        if done <= known or self.step >= self.total:
            return elapsed, None
        speed = (done - known) / max(self._spent() - spent, 1e-9)
        return elapsed, (self._cost(self.total) - done) / speed

    def shown(self):
        """Returns the share that is done, and texts: what is done, and its numbers."""
        bars = _OPEN.bars[_OPEN.bars.index(self) :]
        # Work of one part is seen by what is within it.
        told = [bar for bar in bars if bar.total > 1] or bars[-1:]
        parts = [f'{bar.name} {int(bar.step):,}/{bar.total:,}' for bar in told]
        numbers = [number for bar in told for number in bar._numbers.values()]
        share = self._cost(self._done()) / (self._cost(self.total) or 1.0)
        return share, '  '.join(parts), '  '.join(numbers)

    def _show(self, is_last=False):
        if self._first is None and self._done() > self._start:
            self._first = self._cost(self._done()), self._spent()
        self._view.show(self, is_last)

    def _done(self):
        """The steps that are done, with the share of one that other work is within."""
        inner = _OPEN.bars[_OPEN.bars.index(self) + 1 :]
        return self.step + (inner[0]._share() if inner and self.step < self.total else 0)

    def _share(self):
        """The share of the work from its start that is done."""
        start = self._cost(self._start)
        return (self._cost(self._done()) - start) / (self._cost(self.total) - start or 1)

    def _cost(self, step):
        cost = 0.0
        for steps, each in self._costs:
            cost, step = cost + each * min(step, steps), max(0, step - steps)
        return cost

    def _spent(self):
        return self._now() - self._compiled()

    def __enter__(self):
        if not _OPEN.bars:
            self._view = _view(self._stream)
        _OPEN.bars.append(self)
        return self

    def __exit__(self, *_):
        if self not in _OPEN.bars:
            return
        if self is next((bar for bar in _OPEN.bars if bar.total > 1), None):
            _OPEN.bars[0]._show(is_last=True)
        # A generator that was abandoned may still be within a bar of its own.
        del _OPEN.bars[_OPEN.bars.index(self) :]
        if not _OPEN.bars:
            self._view.close()


class _Open(threading.local):
    """The open bars of a thread, the outermost first."""

    def __init__(self):
        self.bars = []


_OPEN = _Open()


def _view(stream):
    """Returns what shows progress where this process runs."""
    shell = 'IPython' in sys.modules and sys.modules['IPython'].get_ipython()
    if stream is None and hasattr(shell, 'kernel'):
        return _Notebook(sys.stdout)
    stream = sys.stderr if stream is None else stream
    return (_Bar if is_terminal(stream) else _Log)(stream)


class _Log:
    def __init__(self, stream):
        self._stream, self._told, self._at, self._is_known = stream, None, 0.0, False

    def show(self, progress, is_last):
        """Shows a line if one is due."""
        (share, *_), (elapsed, left) = progress.shown(), progress.seconds()
        is_first = left is not None and not self._is_known
        if self._told != share if is_last else is_first or elapsed >= self._at + _EVERY:
            self._told, self._at = share, elapsed
            self._is_known |= is_first
            self.log(line(progress))

    def log(self, text):
        """Shows a line, unless it goes to a file on a full disk."""
        try:
            print(text, file=self._stream, flush=True)
        except OSError as error:
            if error.errno not in atomic.FULL:
                raise

    def close(self):
        """Ends what is shown."""


class _Notebook(_Log):
    def show(self, progress, is_last):
        """Changes the line, unless that was just done."""
        from IPython import display

        elapsed, _ = progress.seconds()
        if self._told is None:
            self._told = display.display({}, raw=True, display_id=True)
        elif not is_last and elapsed < self._at + _CHANGED:
            return
        self._at = elapsed
        self._told.update({'text/plain': line(progress)}, raw=True)


class _Bar(_Log):
    def __init__(self, stream):
        from rich import progress
        from rich.console import Console

        columns = [
            progress.TextColumn('{task.description}', style='bold', markup=False),
            progress.BarColumn(None, complete_style='cyan', finished_style='green'),
            progress.TextColumn('[cyan]{task.fields[numbers]}'),
            progress.TextColumn('{task.fields[times]}'),
        ]
        self._bar = progress.Progress(*columns, console=Console(file=stream), expand=True)
        self._task = self._bar.add_task('', total=1.0, numbers='', times='')
        self._bar.start()
        self.close = self._bar.stop

    def show(self, progress, is_last):
        """Moves the bar."""
        share, done, numbers = progress.shown()
        told = dict(description=done, numbers=numbers, times=_times(progress))
        self._bar.update(self._task, completed=share, **told)

    def log(self, text):
        """Prints a line above the bar."""
        self._bar.console.print(text, markup=False, highlight=False)


def line(progress):
    """Returns the progress as a line, such as
    'mlm 10/40  25%  loss 6.565  3.91k tokens/s  0:13 elapsed  0:07 left'."""
    share, done, numbers = progress.shown()
    return '  '.join(filter(None, [done, f'{share:.0%}', numbers, _times(progress)]))


def is_terminal(stream):
    """Whether a stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get('TERM') != 'dumb'


def _times(progress):
    elapsed, left = progress.seconds()
    text = f'{_duration(elapsed)} elapsed'
    return text if left is None else f'{text}  {_duration(left)} left'


def _compiled():
    """The seconds in which jax compiled in this process since this was first called."""
    return _listener().seconds if 'jax' in sys.modules else 0.0


@functools.cache
def _listener():
    from jax import monitoring

    listener = _Compiling()
    monitoring.register_event_duration_secs_listener(listener)
    return listener


class _Compiling:
    """A listener of jax's durations that adds those of compiling."""

    def __init__(self):
        self.seconds, self._spans = 0.0, []

    def __call__(self, event, seconds, **_):
        """Adds a duration that ends now, and removes those that it contains."""
        if event.startswith('/jax/core/compile/'):
            self.seconds, start = self.seconds + seconds, time.monotonic() - seconds
            while self._spans and self._spans[-1][0] >= start:
                self.seconds -= self._spans.pop()[1]
            self._spans.append((start, seconds))


def _short(number):
    for size, unit in ((1e9, 'G'), (1e6, 'M'), (1e3, 'k')):
        if abs(number) >= size:
            return f'{number / size:.3g}{unit}'
    return f'{number:.3g}'


def _duration(seconds):
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f'{hours}:{minutes:02d}:{seconds:02d}' if hours else f'{minutes}:{seconds:02d}'
