"""Published results of arXiv 2507.00994 and arXiv 2606.05173, for comparison.

Of the first, Tables 2 to 17; of the second, its tables and logs. A row is {paper, table,
model, objective, steps, masking, pooling, task, metric, value, interval, unit}. Values
are as printed, in percent if `unit` is '%'. Metrics are by the papers' own definitions,
so they are comparable with the mode `paper` of evaluation/metrics. `interval` is half of
what was printed after ±, or None; `papers` in published.json says what it means and has
other notes on each table. Fields that do not apply are None. Tasks SC, TC, QA and IR are
means over three tasks each.
"""

from pathlib import Path

from jepa_text.files import checksums

FILE = Path(__file__).with_name('published.json')


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
