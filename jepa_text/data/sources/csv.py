"""CSV and TSV corpora: a .csv or .tsv file, also compressed, or a folder of them.

    config.prepare.source = dict(name='csv', path='reviews/', field='text')

The first line names the columns. Cells of a .csv may be quoted as in RFC 4180 and span
several lines; those of a .tsv are taken literally. As a quoted cell may contain what
looks like the end of a row, a file is never cut: it is read by one process.
"""

import functools
import re

from jepa_text.data.corpora import corpus, invalid_text, reading

SUFFIXES = tuple(f'.{kind}{end}' for kind in ('csv', 'tsv') for end in reading.ENDS)


def make(split, path, field='text', columns=(), delimiter=',', heldout_every=100):
    """Returns the documents of a split: rows as dicts, with `text` from `field`.

    Cells of a .csv are separated by the `delimiter`, such as ';'. Of the other columns,
    only `columns` are kept. About one row in `heldout_every` is
    held out, by its text (corpora/reading.py). A file is read line by line; a row that is
    not UTF-8 is an invalid_text.Bad, as is a file in UTF-16; a file without a line has no
    documents. Raises FileNotFoundError for a missing path, and
    ValueError with the file if it is not such a table or lacks a column.
    """
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError(
            f'csv: delimiter={delimiter!r} must be one character between the cells of a '
            "row, such as ',' or ';'."
        )
    read = functools.partial(documents, field=field, columns=columns, delimiter=delimiter)
    return corpus.of_files(path, SUFFIXES, read, split, heldout_every)


cut = corpus.whole


def documents(piece, field, columns, delimiter=','):
    """Yields the documents of a corpus.Piece; raises what `make` raises."""
    name = piece.path.lower()
    is_tsv = any(name.endswith(f'.tsv{end}') for end in reading.ENDS)
    rows = reading.records(piece.file, is_tsv, strict=False, delimiter=delimiter)
    _, known = next(rows, (0, None))
    if known is None:
        return
    if '\0' in ''.join(known):
        message = f'{piece.path}: {invalid_text.MESSAGES[invalid_text.NUL]}'
        yield invalid_text.Bad(invalid_text.NUL, message, piece.path)
        return
    wanted = list(dict.fromkeys([field, *columns]))
    _check_columns(piece, wanted, known)
    places = {name: known.index(name) for name in wanted}
    for number, (line, cells) in enumerate(rows, 1):
        if len(cells) != len(known):
            raise ValueError(
                f'{piece.path}, line {line}: row {number:,} has {len(cells)} cells, but '
                f'there are {len(known)} columns. In a .csv, a cell with a comma or a '
                'quote must be quoted, and a quote in it doubled.'
            )
        where = f'{piece.path}, row {number:,}'
        row = _row({name: cells[at] for name, at in places.items()}, where)
        yield invalid_text.document(row, field, where)


def _check_columns(piece, wanted, known):
    """Raises ValueError unless the first line names these columns, without repeats."""
    if len(set(known)) < len(known):
        raise ValueError(f'{piece.path} repeats a column name: {", ".join(known)}.')
    for name in wanted:
        if name not in known:
            present = ', '.join(filter(None, known)) or 'none'
            remedy = 'Name the text column, for example with field=...'
            if len(known) == 1 and (others := re.findall(r'[;|\t]', known[0])):
                remedy = f'If {others[0]!r} separates them: delimiter={others[0]!r}.'
            raise ValueError(
                f'{piece.path} has no column {name!r}; it has: {present}. '
                f'{remedy} (--config.prepare.source.field, .delimiter)'
            )


def _row(cells, where):
    """The cells by name; an invalid_text.Bad if one contains an escaped byte."""
    try:
        for cell in cells.values():
            cell.encode('utf-8')
    except UnicodeEncodeError as error:
        byte = ord(error.object[error.start]) - 0xDC00
        return invalid_text.Bad(
            invalid_text.NOT_UTF8,
            f'{where} is not UTF-8: byte 0x{byte:02x} in a cell.',
            where,
        )
    return cells
