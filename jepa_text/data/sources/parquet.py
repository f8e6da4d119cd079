"""Parquet: a file, or a folder of files, as data sets on the Hugging Face hub are.

    config.prepare.source = dict(name='parquet', path='fineweb-edu/', field='text')

One row is one document; what its other columns say is kept.
"""

import functools

from jepa_text.data.corpora import corpus, invalid_text, row_groups

SUFFIXES = ('.parquet',)


def make(split, path, field='text', columns=(), heldout_every=100):
    """The documents of a split: the rows, `text` taken from `field`.

    Of the other columns only `columns` are read (none by default: they may be large).
    About one in `heldout_every` is held out, by its text (corpora/reading.py). Rows are
    read a few at a time; one with null, or with what is not UTF-8, is bad. Raises
    FileNotFoundError for a missing path, and ValueError with the file for what is not
    Parquet, has no such column, or one of something else than text.
    """
    read = functools.partial(documents, field=field, columns=columns)
    cut, named = corpus.cut_groups, corpus.Piece.named_row
    return corpus.of_files(path, SUFFIXES, read, split, heldout_every, cut, named)


def documents(piece, field, columns):
    """The documents of a corpus.Piece; raises as `make` says."""
    rows = row_groups.numbered(piece.file, [field, *columns], *piece.place[1:])
    for number, row in rows:
        yield invalid_text.document(row, field, f'{piece.path}, row {number:,}')
