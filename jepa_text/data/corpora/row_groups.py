"""Rows of Parquet files, read in batches, from the row groups that begin in a byte range.

    bytes      0 ............ start ............ stop ............ size
    groups     [ 1 ][   2   ][  3  ][     4       ][   5   ][ 6  ][ footer ]
    read                            [     4       ][   5   ]

So a file can be cut by its size alone: only the reader of a part needs the footer. Files
of Arrow (.arrow), as Hugging Face's `datasets` writes them, are read as a whole.
"""

import contextlib
import types

from jepa_text.data.corpora import invalid_text
from jepa_text.files import addresses, streams

_REMOTE_ERRORS = (addresses.AddressError, FileNotFoundError, PermissionError)
ROWS, BYTES = 1024, 2**24  # of a batch: at most so many rows, of about so many bytes


def rows(path, wanted=None):
    """Yields the rows of a Parquet file as dicts, with the `wanted` columns or all.

    Raises what `numbered` raises, and ValueError for a row that is not UTF-8.
    """
    for _, row in numbered(path, wanted):
        if isinstance(row, invalid_text.Bad):
            raise ValueError(row.message)
        yield row


def numbered(path, wanted=None, start=0, stop=None):
    """Yields (number from 1, row) of the row groups that begin from byte `start` to
    `stop` of a file; an invalid_text.Bad in place of a row that is not UTF-8.

    Raises ValueError, with the file, if it is not Parquet, is damaged (which is detected
    if pages are compressed or have checksums), or lacks a wanted column.
    """
    with _clear_errors(path) as progress:
        read = _arrow_batches if is_arrow(path) else _parquet_batches
        for batch in read(path, wanted, start, stop, progress):
            for row in _decoded(batch, path, progress.rows):
                progress.rows += 1
                yield progress.rows, row


def is_arrow(path):
    """Whether the name is of a file of Arrow's own formats, not of Parquet."""
    return str(path).lower().endswith('.arrow')


def schema(path):
    """Returns the Arrow schema of a Parquet or Arrow file; raises as `numbered` does."""
    from pyarrow import parquet

    with _clear_errors(path):
        if not is_arrow(path):
            return parquet.read_schema(_seekable(path))
        with streams.open_bytes(path) as file:
            return _arrow_reader(file)[0].schema


def _parquet_batches(path, wanted, start, stop, progress):
    from pyarrow import parquet

    file = parquet.ParquetFile(_seekable(path), page_checksum_verification=True)
    _check_columns(path, wanted, file.schema_arrow.names)
    groups, progress.rows = _select(file.metadata, start, stop)
    for number in groups:
        size = _batch_size(file.metadata.row_group(number), wanted)
        yield from file.iter_batches(size, [number], wanted)


def _arrow_batches(path, wanted, *_):
    with streams.open_bytes(path) as file:
        read, is_stream = _arrow_reader(file)
        _check_columns(path, wanted, read.schema.names)
        whole = read if is_stream else map(read.get_batch, range(read.num_record_batches))
        for batch in whole:
            batch = batch if wanted is None else batch.select(dict.fromkeys(wanted))
            for first in range(0, len(batch), ROWS):
                yield batch.slice(first, ROWS)


def _arrow_reader(file):
    import pyarrow

    is_stream = file.peek(6)[:6] != b'ARROW1'
    read = pyarrow.ipc.open_stream if is_stream else pyarrow.ipc.open_file
    return read(file), is_stream


def _check_columns(path, wanted, known):
    repeated = [name for name in dict.fromkeys(known) if known.count(name) > 1]
    if repeated and (wanted is None or set(wanted) & set(repeated)):
        raise ValueError(f'{path} repeats a column name: {", ".join(repeated)}.')
    for name in wanted or ():
        if name not in known:
            raise ValueError(_no_column(path, name, known))


def _batch_size(group, wanted):
    """How many rows of a group take about BYTES in these columns."""
    columns = (group.column(number) for number in range(group.num_columns))
    size = sum(
        column.total_uncompressed_size
        for column in columns
        if wanted is None or column.path_in_schema.split('.')[0] in wanted
    )
    return max(1, min(ROWS, BYTES * group.num_rows // max(size, 1)))


def _select(metadata, start, stop):
    """(numbers of the row groups that begin in [start, stop), number of rows before)."""
    groups, rows_before = [], 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        begins = _begins(group)
        if begins < start:
            rows_before += group.num_rows
        elif stop is None or begins < stop:
            groups.append(number)
    return groups, rows_before


def _begins(group):
    """The offset of the first byte of a row group."""
    columns = (group.column(number) for number in range(group.num_columns))
    offsets = [
        offset
        for column in columns
        for offset in (column.dictionary_page_offset, column.data_page_offset)
        if offset
    ]
    return min(offsets, default=0)


def _decoded(batch, path, number):
    """The rows of a batch that follows `number` others; binary columns that are UTF-8
    are text."""
    batch = _with_text(batch)
    try:
        return batch.to_pylist()
    except UnicodeDecodeError:
        return [
            _row(batch, i, f'{path}, row {number + i + 1:,}') for i in range(len(batch))
        ]


def _with_text(batch):
    import pyarrow

    for place, kind in enumerate(batch.schema.types):
        if pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind):
            with contextlib.suppress(pyarrow.ArrowInvalid):
                text = batch.column(place).cast(pyarrow.large_string())
                batch = batch.set_column(place, batch.schema.names[place], text)
    return batch


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
    """Returns what pyarrow can read parts of; it opens local files itself."""
    is_remote = addresses.is_address(str(path))
    return streams.open_bytes(path) if is_remote else str(path)


@contextlib.contextmanager
def _clear_errors(path):
    """Raises errors of Arrow as ValueError with the file and the row."""
    import pyarrow

    progress = types.SimpleNamespace(rows=0)
    try:
        yield progress
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        # Arrow raises OSError for bad bytes, too; unlike it, errors of the system have an
        # errno, and those of remote files have their own types.
        if isinstance(error, _REMOTE_ERRORS):
            raise
        if getattr(error, 'errno', None) is not None:
            place = f'{path} after row {progress.rows:,}'
            raise streams.read_error(error, place) from error
        raise ValueError(
            f'{path} is not {"an Arrow" if is_arrow(path) else "a Parquet"} file, or is '
            f'damaged after row {progress.rows:,}: '
            f'{str(error).rstrip(".")}. Copy or download it again.'
        ) from error


def _no_column(path, name, known):
    return (
        f'{path} has no column {name!r}; it has: {", ".join(known)}. Name the text '
        'column, for example with --config.prepare.source.field=...'
    )
