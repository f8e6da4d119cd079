"""Parquet: a file, or a folder of files, as data sets on the Hugging Face hub are.

    config.prepare.source = dict(name='parquet', path='fineweb-edu/', field='text')

One row is one document; what its other columns say is kept.
"""

import functools

from jepa_text.data import finding, reading

SUFFIXES = ('.parquet',)


def make(split, path, field='text', columns=(), heldout_every=100):
    """The documents of a split: the rows, `text` taken from `field`.

    Of the other columns only `columns` are read (none by default: they may be large).
    About one in `heldout_every` is held out, by its text (see data/reading.py). Rows are
    read a few at a time. Raises FileNotFoundError for a missing path, and ValueError with
    the file for what is not Parquet, has no such column, or a row without text.
    """
    reading.check_split(split, heldout_every)
    found = finding.find(path, SUFFIXES)
    given = dict(field=field, columns=list(columns), split=split)
    given['heldout_every'] = heldout_every
    return finding.Corpus(found, functools.partial(_documents, **given))


def _documents(files, field, columns, split, heldout_every):
    for file in files:
        rows = reading.parquet_rows(file, [field, *columns])
        for number, row in enumerate(rows, 1):
            text = row[field]
            if not isinstance(text, str):
                raise ValueError(
                    f'{file}, row {number}: the column {field!r} is '
                    f'{type(text).__name__}, not a string. Remove the row, or name the '
                    'column that holds the text.'
                )
            if reading.in_split(text, split, heldout_every):
                yield row | {'text': text}
