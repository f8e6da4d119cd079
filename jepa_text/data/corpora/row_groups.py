"""Rows of Parquet files, read in batches, from the row groups that begin in a byte range.

    bytes      0 ............ start ............ stop ............ size
    groups     [ 1 ][   2   ][  3  ][     4       ][   5   ][ 6  ][ footer ]
    read                            [     4       ][   5   ]

So a file can be cut by its size alone: only the reader of a part needs the footer. Files
of Arrow (.arrow), as Hugging Face's `datasets` writes them, are read as a whole.
"""

import contextlib

from jepa_text.data.corpora import invalid_text
from jepa_text.files import addresses, streams

_REMOTE_ERRORS = (addresses.AddressError, FileNotFoundError, PermissionError)
ROWS = 64  # of a batch


def rows(path):
    """Yields the rows of a Parquet or Arrow file as dicts.

    Raises what `numbered` raises, and ValueError for a row that is not UTF-8.
    """
    for number, row in numbered(path):
        if isinstance(row, invalid_text.Bad):
            raise ValueError(f'{path}, row {number:,} is not UTF-8. Fix or remove it.')
        yield row


def numbered(path, wanted=None, start=0, stop=None):
    """Yields (number from 1, row) of the row groups that begin from byte `start` to
    `stop` of a file; an invalid_text.Bad in place of a row that is not UTF-8.

    Raises ValueError, with the file, if it is not Parquet, is damaged (which is detected
    if pages are compressed or have checksums), or lacks a wanted column.
    """
    with _clear_errors(path):
        read = _arrow_batches if is_arrow(path) else _parquet_batches
        for number, batch in read(path, wanted, start, stop):
            yield from enumerate(_decoded(batch), number + 1)


def is_arrow(path):
    """Whether the name is of a file of Arrow's own formats, not of Parquet."""
    return addresses.ends_in(path, '.arrow')


def schema(path):
    """Returns the Arrow schema of a Parquet or Arrow file; raises as `numbered` does."""
    from pyarrow import parquet

    with _clear_errors(path):
        if not is_arrow(path):
            return parquet.read_schema(_seekable(path))
        with streams.open_bytes(path) as file:
            return _arrow_reader(file)[0].schema


def _parquet_batches(path, wanted, start, stop):
    """Yields (number of rows before it, batch)."""
    from pyarrow import parquet

    file = parquet.ParquetFile(_seekable(path), page_checksum_verification=True)
    _check_columns(path, wanted, file.schema_arrow.names)
    number = 0
    for index in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(index)
        if start <= _begin(group) and (stop is None or _begin(group) < stop):
            for batch in file.iter_batches(ROWS, [index], wanted):
                yield number, batch
                number += len(batch)
        else:
            number += group.num_rows


def _begin(group):
    """The offset of the first byte of a row group."""
    first = group.column(0)
    return min(filter(None, (first.dictionary_page_offset, first.data_page_offset)))


def _arrow_batches(path, wanted, *_):
    with streams.open_bytes(path) as file:
        read, is_stream = _arrow_reader(file)
        _check_columns(path, wanted, read.schema.names)
        whole = read if is_stream else map(read.get_batch, range(read.num_record_batches))
        number = 0
        for batch in whole:
            batch = batch if wanted is None else batch.select(wanted)
            for first in range(0, len(batch), ROWS):
                yield number + first, batch.slice(first, ROWS)
            number += len(batch)


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
            raise ValueError(
                f'{path} has no column {name!r}; it has: {", ".join(known)}. Name the '
                'text column, for example with --config.prepare.source.field=...'
            )


def _decoded(batch):
    """The rows of a batch, with an invalid_text.Bad for each that is not UTF-8; binary
    columns that are UTF-8 are text."""
    import pyarrow

    for at, kind in enumerate(batch.schema.types):
        if pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind):
            with contextlib.suppress(pyarrow.ArrowInvalid):
                text = batch.column(at).cast(pyarrow.large_string())
                batch = batch.set_column(at, batch.schema.names[at], text)
    try:
        return batch.to_pylist()
    except UnicodeDecodeError:
        if len(batch) == 1:
            return [invalid_text.Bad(invalid_text.NOT_UTF8)]
        return [row for at in range(len(batch)) for row in _decoded(batch.slice(at, 1))]


def _seekable(path):
    """Returns what pyarrow can read parts of; it opens local files itself."""
    is_remote = addresses.is_address(str(path))
    return streams.open_bytes(path) if is_remote else str(path)


@contextlib.contextmanager
def _clear_errors(path):
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        # Arrow raises OSError for bad bytes, too; unlike it, errors of the system have an
        # errno, and those of remote files have their own types.
        if isinstance(error, _REMOTE_ERRORS) or getattr(error, 'errno', None) is not None:
            raise
        raise ValueError(
            f'{path} is not {"an Arrow" if is_arrow(path) else "a Parquet"} file, or is '
            f'damaged: {str(error).rstrip(".")}. Copy or download it again.'
        ) from error
