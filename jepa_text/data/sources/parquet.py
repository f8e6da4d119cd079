"""Parquet: a file, or a folder of files, as data sets on the Hugging Face hub are.

    config.prepare.source = dict(name='parquet', path='fineweb-edu/', field='text')

One row is one document; what its other columns say is kept.
"""

from jepa_text.data import reading

SUFFIXES = ('.parquet',)
ROWS = 1024


def make(split, path, field='text', columns=(), heldout_every=100):
    """The documents of a split: the rows, `text` taken from `field`.

    Of the other columns only `columns` are read (none by default: they may be large).
    About one in `heldout_every` is held out, by its text (see data/reading.py). Rows are
    read a few at a time. Raises FileNotFoundError for a missing path, and ValueError with
    the file for what is not Parquet, has no such column, or a row without text.
    """
    reading.check_split(split, heldout_every)
    files = reading.find_files(path, SUFFIXES)
    return _documents(files, field, list(columns), split, heldout_every)


def _documents(files, field, columns, split, heldout_every):
    for file in files:
        number = 0
        for batch in _open(file, [field, *columns]).iter_batches(
            ROWS, columns=[field, *columns]
        ):
            for row in batch.to_pylist():
                number += 1
                text = row[field]
                if not isinstance(text, str):
                    raise ValueError(
                        f'{file}, row {number}: the column {field!r} is '
                        f'{type(text).__name__}, not a string. Remove the row, or name '
                        'the column that holds the text.'
                    )
                if reading.in_split(text, split, heldout_every):
                    yield row | {'text': text}


def _open(file, wanted):
    import pyarrow
    from pyarrow import parquet

    try:
        opened = parquet.ParquetFile(file)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f'{file} is not a Parquet file: {error}.') from error
    known = opened.schema_arrow.names
    for name in wanted:
        if name not in known:
            raise ValueError(
                f'{file} has no column {name!r}; it has: {", ".join(known)}. Name the '
                'one that holds the text, such as --config.prepare.source.field=...'
            )
    return opened
