"""CSV and TSV corpora: a .csv or .tsv file, also compressed, or a folder of them.

    config.prepare.source = dict(name='csv', path='reviews/', field='text')

The first line names the columns. Cells of a .csv may be quoted as in RFC 4180 and span
several lines; those of a .tsv are taken literally. As a quoted cell may contain what
looks like the end of a row, a file is never cut: it is read by one process.
"""

import functools

from jepa_text.data.corpora import corpus, invalid_text, reading
from jepa_text.files import addresses

TSV = tuple(f'.tsv{end}' for end in reading.ENDS)
SUFFIXES = (*(f'.csv{end}' for end in reading.ENDS), *TSV)


def make(split, path, field='text', delimiter=',', heldout_every=100):
    """Returns the documents of a split: dicts with `text` from the column `field`.

    Cells of a .csv are separated by the `delimiter`, such as ';'. About one row in
    `heldout_every` is held out, by its text (corpora/reading.py). A file is read line by
    line; a row that is not UTF-8 is an invalid_text.Bad, as is a file in UTF-16; a file
    without a line has no documents. Raises FileNotFoundError for a missing path, and
    ValueError with the file if it is not such a table or lacks the column.
    """
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError(
            f'csv: delimiter={delimiter!r} must be one character between the cells of a '
            "row, such as ',' or ';'."
        )
    read = functools.partial(documents, field=field, delimiter=delimiter)
    return corpus.of_files(path, SUFFIXES, read, split, heldout_every)


cut = corpus.whole


def documents(piece, field, delimiter=','):
    """Yields the documents of a corpus.Piece; raises what `make` raises."""
    is_tsv = addresses.ends_in(piece.path, TSV)
    rows = reading.records(piece.file, is_tsv, strict=False, delimiter=delimiter)
    _, known = next(rows, (0, None))
    if known is None:
        return
    if '\0' in ''.join(known):
        yield invalid_text.Bad(invalid_text.NUL, piece.path)
        return
    if known.count(field) != 1:
        present = ', '.join(filter(None, known)) or 'none'
        raise ValueError(
            f'{piece.path} has {known.count(field)} columns {field!r}; it has: '
            f'{present}. Name the text column and what separates cells '
            '(--config.prepare.source.field, .delimiter).'
        )
    for line, cells in rows:
        if len(cells) != len(known):
            raise ValueError(
                f'{piece.path}, line {line}: the row has {len(cells)} cells, but there '
                f'are {len(known)} columns. In a .csv, a cell with a comma or a quote '
                'must be quoted, and a quote in it doubled.'
            )
        yield {'text': cells[known.index(field)]}
