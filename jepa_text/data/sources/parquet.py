"""Parquet: a file, or a folder of files, as data sets on the Hugging Face hub are.

    config.prepare.source = dict(name='parquet', path='fineweb-edu/', field='text')

One row is one document; what its other columns say is kept.
"""

import functools

from jepa_text.data.corpora import corpus, reading

SUFFIXES = ('.parquet',)


def make(split, path, field='text', columns=(), heldout_every=100):
    """The documents of a split: the rows, `text` taken from `field`.

    Of the other columns only `columns` are read (none by default: they may be large).
    About one in `heldout_every` is held out, by its text (corpora/reading.py). Rows are
    read a few at a time. Raises FileNotFoundError for a missing path, and ValueError with
    the file for what is not Parquet, has no such column, or a row without text.
    """
    read = functools.partial(documents, field=field, columns=columns)
    cut = corpus.cut_groups
    return corpus.of_files(path, SUFFIXES, read, split, heldout_every, cut)


def documents(piece, field, columns):
    """The documents of a corpus.Piece; raises as `make` says."""
    rows = reading.numbered_rows(piece.file, [field, *columns], *piece.place[1:])
    for number, row in rows:
        if not isinstance(row[field], str):
            raise ValueError(
                f'{piece.path}, row {number:,}: the column {field!r} is '
                f'{type(row[field]).__name__}, not a string. Remove the row, or name the '
                'column that holds the text.'
            )
        yield row | {'text': row[field]}
