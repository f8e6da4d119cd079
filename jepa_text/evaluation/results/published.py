"""Published results of arXiv 2507.00994 and arXiv 2606.05173, for comparison.

Of the first, Tables 2 to 17; of the second, its tables and logs. A row is {paper, table,
model, objective, steps, masking, pooling, task, metric, value, interval, unit}. Values
are as printed, in percent if `unit` is '%'. Metrics are by the papers' own definitions,
so they are comparable with the mode `paper` of evaluation/metrics. `interval` is half of
what was printed after ±, or None; `about()` says what it means and has other notes on
each table. Fields that do not apply are None. Tasks SC, TC, QA and IR are means over
three tasks each.
"""

import math
from pathlib import Path
from typing import NamedTuple

from jepa_text.config import resolve
from jepa_text.files import checksums

PAPER = '2507.00994'  # the paper of the metric definitions `paper`
FIELDS = (
    *('paper', 'table', 'model', 'objective', 'steps', 'masking', 'pooling', 'task'),
    *('metric', 'value', 'interval', 'unit'),
)


class Cell(NamedTuple):
    """A mean over `n` seeds and half the width of its 95 % interval (NaN: unknown)."""

    value: float
    reach: float = math.nan
    n: int | None = None


def rows(**wanted):
    """Returns the rows whose fields have these values; a tuple or list allows several.

    >>> [row] = rows(table='12', task='squad', objective='clm+mlm', steps='10000+32000')
    >>> row['value'], row['interval']
    (79.2, 0.22)

    Raises ValueError for a field or a value that no row has.
    """
    matching = all_rows = _read()['rows']
    for field, value in wanted.items():
        if field not in FIELDS:
            near = resolve.nearest(field, FIELDS)
            raise ValueError(f'Published rows have no field {field!r}.{near}')
        allowed = value if isinstance(value, list | tuple) else (value,)
        known = {row[field] for row in all_rows}
        unknown = [item for item in allowed if item not in known]
        if unknown:
            near = resolve.nearest(str(unknown[0]), sorted(map(str, known)))
            raise ValueError(f'No published row has {field}={unknown[0]!r}.{near}')
        matching = [row for row in matching if row[field] in allowed]
    return matching


def about():
    """Returns notes on the papers, {paper: {'title', 'version', 'interval', ...}}."""
    return _read()['papers']


def mode_of(row):
    """Returns the definition of metrics that a row uses, 'standard' or 'paper'."""
    return 'paper' if row['paper'] == PAPER else 'standard'


def cell_of(row):
    """Returns the Cell of a row, as a share; only 95 % intervals are kept."""
    unit = 100 if row['unit'] == '%' else 1
    interval = row['interval'] if row['paper'] == PAPER else None
    reach = math.nan if interval is None else interval / unit
    return Cell(row['value'] / unit, reach)


def label_of(row):
    """Returns a label like '210M mlm, 40% masked, 42000 steps (2507.00994)'."""
    masking = row['masking'] and f'{row["masking"]:.0%} masked'
    steps = row['steps'] and f'{row["steps"]} steps'
    words = (f'{row["model"]} {row["objective"] or ""}'.strip(), masking)
    words = (*words, row['pooling'], steps)
    return f'{", ".join(filter(None, words))} ({row["paper"]})'


def _read():
    return checksums.read_json(Path(__file__).with_name('published.json'))
