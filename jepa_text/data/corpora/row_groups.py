"""Parquet files to rows, a few at a time, of the row groups that begin in a part of one.

    bytes      0 ............ start ............ stop ............ size
    groups     [ 1 ][   2   ][  3  ][     4       ][   5   ][ 6  ][ footer ]
    read                            [     4       ][   5   ]

So a file is shared by its size alone: only who reads a part looks into the footer.
"""

import contextlib
import types

from jepa_text.data.corpora import invalid_text
from jepa_text.files import addresses, streams

_AWAY = (addresses.AddressError, FileNotFoundError, PermissionError)
ROWS, BYTES = 1024, 2**24  # at once: of rows at most, and of what they hold about


def rows(path, wanted=None):
    """The rows of a Parquet file as dicts; of `wanted` columns only.

    Raises as `numbered` does.
    """
    for _, row in numbered(path, wanted):
        if isinstance(row, invalid_text.Bad):
            raise ValueError(row.told)
        yield row


def numbered(path, wanted=None, start=0, stop=None):
    """(number from 1, row) of the row groups that begin from byte `start` to `stop` of a
    file; a invalid_text.Bad in the place of a row with what is not UTF-8.

    Raises ValueError, with the file, for what is not Parquet, is damaged (seen where
    pages are compressed or have checksums), or has no such column.
    """
    from pyarrow import parquet

    with _damage_told(path) as read:
        opened = parquet.ParquetFile(_seekable(path), page_checksum_verification=True)
        known = opened.schema_arrow.names
        for name in wanted or ():
            if name not in known:
                raise ValueError(_no_column(path, name, known))
        groups, read.rows = _share(opened.metadata, start, stop)
        for number in groups:
            size = _at_once(opened.metadata.row_group(number), wanted)
            for batch in opened.iter_batches(size, [number], wanted):
                for row in _decoded(batch, path, read.rows):
                    read.rows += 1
                    yield read.rows, row


def _at_once(group, wanted):
    """So many rows of a group that they take about BYTES in these columns."""
    columns = (group.column(number) for number in range(group.num_columns))
    size = sum(
        column.total_uncompressed_size
        for column in columns
        if wanted is None or column.path_in_schema.split('.')[0] in wanted
    )
    return max(1, min(ROWS, BYTES * group.num_rows // max(size, 1)))


def before(path, start):
    """Rows of the groups that begin before byte `start`."""
    from pyarrow import parquet

    with _damage_told(path):
        return _share(parquet.read_metadata(_seekable(path)), start, None)[1]


def _share(said, start, stop):
    """(numbers of the row groups that begin from `start` to before `stop`, rows of those
    before) of the metadata of a file."""
    groups, rows_before = [], 0
    for number in range(said.num_row_groups):
        group = said.row_group(number)
        begins = _begins(group)
        if begins < start:
            rows_before += group.num_rows
        elif stop is None or begins < stop:
            groups.append(number)
    return groups, rows_before


def _begins(group):
    """The first byte of a row group."""
    columns = (group.column(number) for number in range(group.num_columns))
    offsets = [
        offset
        for column in columns
        for offset in (column.dictionary_page_offset, column.data_page_offset)
        if offset
    ]
    return min(offsets, default=0)


def _decoded(batch, path, number):
    """The rows of a batch; `number` stand before it."""
    try:
        return batch.to_pylist()
    except UnicodeDecodeError:
        return [
            _row(batch, i, f'{path}, row {number + i + 1:,}') for i in range(len(batch))
        ]


def _row(batch, index, where):
    try:
        return batch.slice(index, 1).to_pylist()[0]
    except UnicodeDecodeError as error:
        return invalid_text.Bad(
            invalid_text.NOT_UTF8,
            f'{where} is not UTF-8 ({error.reason} at byte {error.start} of its value), '
            'or the file is damaged.',
        )


def _seekable(path):
    """What pyarrow reads a part of; files here it finds itself."""
    away = addresses.is_address(str(path))
    return streams.open_bytes(path) if away else str(path)


@contextlib.contextmanager
def _damage_told(path):
    import pyarrow

    read = types.SimpleNamespace(rows=0)
    try:
        yield read
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        # The system's own errors have a number, those of an address a type; Arrow says
        # OSError of bad bytes, too.
        if isinstance(error, _AWAY):
            raise
        if getattr(error, 'errno', None) is not None:
            raise streams.unread(error, f'{path}, after row {read.rows:,},') from error
        raise ValueError(
            f'{path} is not a Parquet file, or damaged after row {read.rows:,}: '
            f'{str(error).rstrip(".")}. Copy or download it again.'
        ) from error


def _no_column(path, name, known):
    return (
        f'{path} has no column {name!r}; it has: {", ".join(known)}. Name the one that '
        'holds the text, such as --config.prepare.source.field=...'
    )
