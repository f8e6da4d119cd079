"""Progress bars and tables for the terminal."""

import os
import sys
import time


class Progress:
    """A context manager that shows the progress of a run.

    On a terminal, a bar with loss, tokens per second, elapsed and remaining time.
    Elsewhere (CI, a log file), a plain line for the first and the last update, every
    tenth of the run, and any update at least ten seconds after the previous line.

    The remaining time assumes that the other steps take as long as those after the first
    update, before which models are loaded and programs compiled, or as `update` was told.
    """

    def __init__(self, description, total, start=0, stream=None, now=time.monotonic):
        self._description, self._now = description, now
        self.total, self._start = total, start
        self._stream = sys.stderr if stream is None else stream
        self._start_time = now()
        self.step, self._seconds, self._numbers, self._first = start, None, {}, None
        self._printed_step, self._printed_tenth, self._printed_at = None, None, 0.0
        self._bar = _bar(self._stream) if _is_terminal(self._stream) else None
        if self._bar is not None:
            self._task = self._bar.add_task(
                description, total=total, completed=start, numbers='', left=''
            )

    def update(
        self, step, loss=None, tokens_per_second=None, description=None, seconds=None
    ):
        """Shows that `step` steps are done. Numbers that are None keep their value.

        `seconds` are those of a step, without compiling or evaluating; 0 if unknown.
        """
        self.step, self._seconds = step, seconds
        if self._first is None and step > self._start:
            self._first = step, self._now()
        self._description = description or self._description
        given = {'loss': loss, 'rate': tokens_per_second}
        self._numbers |= {key: float(v) for key, v in given.items() if v is not None}
        if self._bar is None:
            self._maybe_print()
        else:
            self._bar.update(
                self._task,
                completed=step,
                total=self.total,
                description=self._description,
                numbers=self._text(),
                left=self._left(),
            )

    def log(self, text):
        """Prints a line, above the bar if there is one."""
        if self._bar is None:
            print(text, file=self._stream, flush=True)
        else:
            self._bar.console.print(text, markup=False, highlight=False)

    def _left(self):
        seconds, (first, began) = self._seconds, self._first or (self.step, 0.0)
        if seconds is None and self.step > first:
            seconds = (self._now() - began) / (self.step - first)
        return f'{_duration(seconds * (self.total - self.step))} left' if seconds else ''

    def _text(self):
        parts = []
        if 'loss' in self._numbers:
            parts.append(f'loss {self._numbers["loss"]:.3f}')
        if 'rate' in self._numbers:
            parts.append(f'{_short(self._numbers["rate"])} tokens/s')
        return '  '.join(parts)

    def _maybe_print(self, force=False):
        tenth = 10 * self.step // max(self.total, 1)
        is_due = self._now() - self._printed_at >= 10
        if not force and tenth == self._printed_tenth and not is_due:
            return
        self._printed_tenth, self._printed_at = tenth, self._now()
        elapsed = f'{_duration(self._now() - self._start_time)} elapsed'
        share = f'{100 * self.step // max(self.total, 1):3d}%'
        head = f'{self._description}  {share}  {self.step:,}/{self.total:,}'
        parts = filter(None, [head, self._text(), elapsed, self._left()])
        print('  '.join(parts), file=self._stream)
        self._stream.flush()
        self._printed_step = self.step

    def __enter__(self):
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_):
        if self._bar is not None:
            self._bar.stop()
        elif self._printed_step != self.step:
            self._maybe_print(force=True)


def table(title, columns, rows, stream=None):
    """Prints a table.

    Columns with numbers are right-aligned, floats have three decimals, and None is a
    dash. Raises ValueError for a row of another length than `columns`.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    stream = sys.stdout if stream is None else stream
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(
                f'{title}: expected {len(columns)} cells per row, got {row!r}.'
            )
    cells = [[_cell(value) for value in row] for row in rows]
    right = [
        any(isinstance(row[i], (int, float)) for row in rows) for i in range(len(columns))
    ]
    title = Text(title, style='bold')
    printed = Table(title=title, box=box.SIMPLE_HEAD, title_justify='left')
    for name, is_right in zip(columns, right):
        printed.add_column(Text(name), justify='right' if is_right else 'left')
    for row in cells:
        printed.add_row(*map(Text, row))
    # Outside a terminal the width is not limited.
    Console(file=stream, width=None if _is_terminal(stream) else 1000).print(printed)


def _bar(stream):
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn('{task.description}', style='bold', markup=False),
        progress.BarColumn(bar_width=None, complete_style='cyan', finished_style='green'),
        progress.MofNCompleteColumn(),
        progress.TextColumn('[cyan]{task.fields[numbers]}'),
        progress.TimeElapsedColumn(),
        progress.TextColumn('{task.fields[left]}'),
        console=Console(file=stream),
        expand=True,
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
