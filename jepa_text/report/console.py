"""Tables for the terminal."""

import sys

from jepa_text.report import progress


def table(title, columns, rows):
    """Prints a table.

    Columns with numbers are right-aligned, floats have three decimals, and None is a
    dash. Raises ValueError for a row of another length than `columns`.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

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
    width = None if progress.is_terminal(sys.stdout) else 1000
    Console(width=width).print(printed)


def _cell(value):
    if value is None:
        return '–'
    if not isinstance(value, float):
        return str(value)
    return f'{value:.3f}' if value == 0 or 1e-3 <= abs(value) < 1e4 else f'{value:.3g}'
