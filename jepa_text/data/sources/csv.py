"""CSV and TSV corpora: a .csv or .tsv file, also .gz or .zst, or a folder of them.

    config.prepare.source = dict(name='csv', path='reviews/', field='text')

The first line names the columns. Cells of a .csv may be quoted as in RFC 4180 and span
several lines; those of a .tsv are taken literally. As a quoted cell may contain what
looks like the end of a row, a file is never cut: it is read by one process.
"""

import functools

from jepa_text.data.corpora import corpus, invalid_text, reading
from jepa_text.files import streams

SUFFIXES = tuple(f'.{kind}{end}' for kind in ('csv', 'tsv') for end in reading.ENDS)
BLOCK = 2**24  # maximum bytes of a row


def make(split, path, field='text', columns=(), heldout_every=100):
    """Returns the documents of a split: rows as dicts, with `text` from `field`.

    Of the other columns, only `columns` are kept. About one row in `heldout_every` is
    held out, by its text (corpora/reading.py). A file is read in blocks; a row that is
    not UTF-8 is an invalid_text.Bad. Raises FileNotFoundError for a missing path, and
    ValueError with the file if it is not such a table or lacks a column.
    """
    read = functools.partial(documents, field=field, columns=columns)
    return corpus.of_files(path, SUFFIXES, read, split, heldout_every)


def documents(piece, field, columns):
    """Yields the documents of a corpus.Piece; raises what `make` raises."""
    wanted = list(dict.fromkeys([field, *columns]))
    number = 0
    for batch in _batches(piece, wanted):
        for cells in zip(*(column.to_pylist() for column in batch.columns)):
            number += 1
            where = f'{piece.path}, row {number:,}'
            yield invalid_text.document(_row(wanted, cells, where), field, where)


def _batches(piece, wanted):
    """Yields batches of rows of these columns, as bytes."""
    import pyarrow
    from pyarrow import csv as arrow

    _check_columns(piece, wanted)
    cells = dict(delimiter='\t', quote_char=False) if _is_tsv(piece) else {}
    options = dict(
        read_options=arrow.ReadOptions(use_threads=False, block_size=BLOCK),
        parse_options=arrow.ParseOptions(newlines_in_values=not cells, **cells),
        convert_options=arrow.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(wanted, pyarrow.binary()),
            include_columns=wanted,
            strings_can_be_null=False,
        ),
    )
    with streams.open_bytes(piece.file) as stream:
        try:
            yield from arrow.open_csv(stream, **options)
        except pyarrow.ArrowInvalid as error:
            raise ValueError(
                f'{piece.path} is not a readable table: {error}. A row must have one '
                f'cell per column and at most {BLOCK:,} bytes; in a .csv, a cell with a '
                'comma or a quote must be quoted, and a quote in it doubled.'
            ) from error


def _check_columns(piece, wanted):
    """Raises ValueError unless the first line names these columns, without repeats."""
    _, known = next(reading.records(piece.file, _is_tsv(piece)), (0, []))
    if len(set(known)) < len(known):
        raise ValueError(f'{piece.path} repeats a column name: {", ".join(known)}.')
    for name in wanted:
        if name not in known:
            present = ', '.join(filter(None, known)) or 'none'
            raise ValueError(
                f'{piece.path} has no column {name!r}; it has: {present}. Name the text '
                'column, for example with --config.prepare.source.field=...'
            )


def _is_tsv(piece):
    name = piece.path.lower()
    return any(name.endswith(f'.tsv{end}') for end in reading.ENDS)


def _row(names, cells, where):
    try:
        return {name: cell.decode('utf-8') for name, cell in zip(names, cells)}
    except UnicodeDecodeError as error:
        return invalid_text.Bad(
            invalid_text.NOT_UTF8,
            f'{where} is not UTF-8: byte 0x{error.object[error.start]:02x} in a cell.',
            where,
        )
