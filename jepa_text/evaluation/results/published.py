"""Published results of arXiv 2507.00994 and arXiv 2606.05173, for comparison.

Of the first, Tables 2 to 17; of the second, its tables and logs. A row is {paper, table,
model, objective, steps, masking, pooling, task, metric, value, interval, unit}. Values
are as printed, in percent if `unit` is '%'. Metrics are by the papers' own definitions,
so they are comparable with the mode `paper` of evaluation/metrics. `interval` is half of
what was printed after ±, or None; `papers` in published.json says what it means and has
other notes on each table. Fields that do not apply are None. Tasks SC, TC, QA and IR are
means over three tasks each.
"""

import math
from pathlib import Path
from typing import NamedTuple

from jepa_text.files import checksums

FILE = Path(__file__).with_name('published.json')
PAPER = '2507.00994'  # the paper of the metric definitions `paper`


class Cell(NamedTuple):
    """A share by a definition of a metric, and half the width of its 95 % interval (NaN:
    unknown)."""

    mode: str
    metric: str
    value: float
    reach: float


def rows(**wanted):
    """Returns the rows whose fields have these values; a tuple or list allows several.

    >>> [row] = rows(table='12', task='squad', objective='clm+mlm', steps='10000+32000')
    >>> row['value'], row['interval']
    (79.2, 0.22)
    """
    allowed = {k: v if isinstance(v, list | tuple) else (v,) for k, v in wanted.items()}
    return [
        row
        for row in checksums.read_json(FILE)['rows']
        if all(row[field] in values for field, values in allowed.items())
    ]


def cell_of(row):
    """Returns the Cell of a row; only 95 % intervals are kept."""
    unit, is_first = 100 if row['unit'] == '%' else 1, row['paper'] == PAPER
    interval = row['interval'] if is_first else None
    reach = math.nan if interval is None else interval / unit
    mode = 'paper' if is_first else 'standard'
    return Cell(mode, row['metric'], row['value'] / unit, reach)


def label_of(row):
    """Returns a label like '210M mlm, 40% masked, 42000 steps (2507.00994)'."""
    masking = row['masking'] and f'{row["masking"]:.0%} masked'
    steps = row['steps'] and f'{row["steps"]} steps'
    words = (f'{row["model"]} {row["objective"] or ""}'.strip(), masking)
    words = (*words, row['pooling'], steps)
    return f'{", ".join(filter(None, words))} ({row["paper"]})'
