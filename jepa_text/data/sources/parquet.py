"""Parquet and Arrow corpora: a .parquet or .arrow file, or a folder of them.

    config.prepare.source = dict(name='parquet', path='fineweb-edu/', field='text')

One row is one document.
"""

import functools

from jepa_text.data.corpora import corpus, invalid_text, row_groups

SUFFIXES = ('.parquet', '.arrow')


def make(split, path, field='text', heldout_every=100):
    """Returns the documents of a split: dicts with `text` from the column `field`.

    About one row in `heldout_every` is held out, by its text (corpora/reading.py). Rows
    are read in small batches; one that is null or not UTF-8 is an invalid_text.Bad.
    Raises FileNotFoundError for a missing path, and ValueError with the file if it is not
    Parquet or Arrow, or lacks a column, or if `field` is not text.
    """
    read = functools.partial(documents, field=field)
    return corpus.of_files(path, SUFFIXES, read, split, heldout_every, cut=cut)


def documents(piece, field):
    """Yields the documents of a corpus.Piece; raises what `make` raises."""
    rows = row_groups.numbered(piece.file, [field], piece.start, piece.stop)
    for number, row in rows:
        where = f'{piece.path}, row {number:,}'
        document = invalid_text.document(row, field, where)
        # Here, as only this source knows how many rows are in the file before the piece.
        yield invalid_text.check(document, lambda where=where: where)


def cut(file, size):
    """Returns [(corpus.Piece, bytes), ...] of a file; one of Arrow is not cut."""
    one_piece = row_groups.is_arrow(file)
    return corpus.whole(file, size) if one_piece else corpus.cut_groups(file, size)
