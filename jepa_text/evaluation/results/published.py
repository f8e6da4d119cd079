"""What the two papers reached, as they published it: Tables 2 to 17 of arXiv 2507.00994,
and the tables and logs of arXiv 2606.05173.

A row is {paper, table, model, objective, steps, masking, pooling, task, metric, value,
interval, unit}. Values are as they were printed, in per cent where `unit` is '%'; metrics
are by the papers' own definitions, so those of evaluation/metrics in the mode `paper` are
to stand beside them. `interval` is half of what was printed after ±, None if nothing was;
`about()` says of what, and what else is to be known of a table. None is what does not
apply. Tasks SC, TC, QA and IR are the means over three tasks each.
"""

from pathlib import Path

from jepa_text.config import resolve
from jepa_text.files import checksums

FIELDS = (
    *('paper', 'table', 'model', 'objective', 'steps', 'masking', 'pooling', 'task'),
    *('metric', 'value', 'interval', 'unit'),
)


def rows(**wanted):
    """The rows whose fields have these values; a tuple or list allows several.

    >>> [row] = rows(table='12', task='squad', objective='clm+mlm', steps='10000+32000')
    >>> row['value'], row['interval']
    (79.2, 0.22)

    Raises ValueError for a field or a value that no row has.
    """
    found = every = _read()['rows']
    for field, value in wanted.items():
        if field not in FIELDS:
            near = resolve.nearest(field, FIELDS)
            raise ValueError(f'Published rows have no field {field!r}.{near}')
        allowed = value if isinstance(value, list | tuple) else (value,)
        known = {row[field] for row in every}
        unknown = [one for one in allowed if one not in known]
        if unknown:
            near = resolve.nearest(str(unknown[0]), sorted(map(str, known)))
            raise ValueError(f'No published row has {field}={unknown[0]!r}.{near}')
        found = [row for row in found if row[field] in allowed]
    return found


def about():
    """{paper: {'title', 'version', 'interval', 'tables', ...}}, in words."""
    return _read()['papers']


def _read():
    return checksums.read_json(Path(__file__).with_name('published.json'))
