"""What a person at the terminal sees: the progress of a run, and tables."""

import os
import sys
import time


class Progress:
    """The progress of a run on the terminal; a context manager.

    A moving bar with loss, tokens per second, time spent and time left; where there is
    no terminal (CI, a log file) a plain line for the first update, the last one,
    every tenth of the way, and any that comes ten seconds after the line before.
    """

    def __init__(self, description, total, start=0, stream=None, now=time.monotonic):
        self._description, self._total, self._now = description, total, now
        self._stream = sys.stderr if stream is None else stream
        self._began, self._first = now(), start
        self._step, self._shown, self._shown_at = start, None, 0.0
        self._numbers = {}
        self._bar = _bar(self._stream) if _is_terminal(self._stream) else None
        if self._bar is not None:
            self._task = self._bar.add_task(
                description, total=total, completed=start, numbers=''
            )

    def update(self, step, loss=None, tokens_per_second=None, description=None):
        """Shows that `step` steps are done. A number not given stays as it was."""
        self._step = step
        self._description = description or self._description
        given = {'loss': loss, 'rate': tokens_per_second}
        self._numbers |= {key: float(v) for key, v in given.items() if v is not None}
        if self._bar is None:
            self._maybe_print()
        else:
            self._bar.update(
                self._task,
                completed=step,
                description=self._description,
                numbers=self._text(),
            )

    def log(self, text):
        """Prints a line of its own, above the bar if there is one."""
        if self._bar is None:
            print(text, file=self._stream, flush=True)
        else:
            self._bar.console.print(text, markup=False, highlight=False)

    def _text(self):
        parts = []
        if 'loss' in self._numbers:
            parts.append(f'loss {self._numbers["loss"]:.3f}')
        if 'rate' in self._numbers:
            parts.append(f'{_short(self._numbers["rate"])} tokens/s')
        return '  '.join(parts)

    def _maybe_print(self, force=False):
        tenth = 10 * self._step // max(self._total, 1)
        late = self._now() - self._shown_at >= 10
        if not force and tenth == self._shown and not late:
            return
        self._shown, self._shown_at = tenth, self._now()
        seconds, done = self._now() - self._began, self._step - self._first
        left = seconds / done * (self._total - self._step) if done > 0 else None
        times = f'{_duration(seconds)} spent' + (
            '' if left is None else f'  {_duration(left)} left'
        )
        share = f'{100 * self._step // max(self._total, 1):3d}%'
        head = f'{self._description}  {share}  {self._step:,}/{self._total:,}'
        print('  '.join(filter(None, [head, self._text(), times])), file=self._stream)
        self._stream.flush()
        self._printed_step = self._step

    def __enter__(self):
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_):
        if self._bar is not None:
            self._bar.stop()
        elif getattr(self, '_printed_step', None) != self._step:
            self._maybe_print(force=True)


def table(title, columns, rows, stream=None):
    """Prints a table: numbers to the right, floats with three decimals, None as a dash.

    Raises ValueError for a row that is shorter or longer than `columns`.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    stream = sys.stdout if stream is None else stream
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f'{title}: {len(columns)} columns but this row: {row!r}.')
    cells = [[_cell(value) for value in row] for row in rows]
    right = [
        any(isinstance(row[i], (int, float)) for row in rows) for i in range(len(columns))
    ]
    drawn = Table(
        title=title, box=box.SIMPLE_HEAD, title_justify='left', title_style='bold'
    )
    for name, is_right in zip(columns, right):
        drawn.add_column(Text(name), justify='right' if is_right else 'left')
    for row in cells:
        drawn.add_row(*map(Text, row))
    # A file has room for every column.
    Console(file=stream, width=None if _is_terminal(stream) else 1000).print(drawn)


def _bar(stream):
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn('[bold]{task.description}', markup=True),
        progress.BarColumn(bar_width=None, complete_style='cyan', finished_style='green'),
        progress.MofNCompleteColumn(),
        progress.TextColumn('[cyan]{task.fields[numbers]}'),
        progress.TimeElapsedColumn(),
        progress.TextColumn('[dim]left'),
        progress.TimeRemainingColumn(),
        console=Console(file=stream),
        expand=True,
        # Steps are logged rarely: a short memory would show no time left at all.
        speed_estimate_period=300,
    )


def _is_terminal(stream):
    return stream.isatty() and os.environ.get('TERM') != 'dumb'


def _cell(value):
    if value is None:
        return '–'
    if not isinstance(value, float):
        return str(value)
    return f'{value:.3f}' if value == 0 or 1e-3 <= abs(value) < 1e4 else f'{value:.3g}'


def _short(number):
    for size, unit in ((1e9, 'G'), (1e6, 'M'), (1e3, 'k')):
        if abs(number) >= size:
            return f'{number / size:.3g}{unit}'
    return f'{number:.3g}'


def _duration(seconds):
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f'{hours}:{minutes:02d}:{seconds:02d}' if hours else f'{minutes}:{seconds:02d}'
