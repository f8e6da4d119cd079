"""Labeled sets on disk: .tsv, .jsonl or .parquet files -> a list of dicts.

    read(path)          one file
    splits(path, ...)   a folder as GLUE or Hugging Face lay it out, or one file

Nothing is downloaded. 'tfds:glue/sst2' reads what tensorflow_datasets has prepared on
this machine, through ArrayRecord.
"""

from pathlib import Path

from jepa_text.config import resolve
from jepa_text.data import reading
from jepa_text.files import paths

SUFFIXES = ('.tsv', '.jsonl', '.jsonl.gz', '.ndjson', '.tsv.gz', '.parquet')
TRAIN = ('train',)
TEST = ('dev', 'validation', 'valid', 'test')
TFDS = 'tfds:'


def read(path, header=None):
    """The rows of a file; `header` names the columns of a TSV that has no header line.

    Cells of a TSV are never quoted, as in GLUE. Raises FileNotFoundError for a missing
    file and ValueError, with the line, for what cannot be read.
    """
    path = Path(paths.local('The file', path))
    if not path.is_file():
        raise FileNotFoundError(
            f'There is no file {path}. Give one that ends in {", ".join(SUFFIXES)}.'
        )
    if path.name.endswith('.parquet'):
        return list(reading.parquet_rows(path))
    if '.tsv' in path.name:
        return _tsv(path, header)
    if path.name.endswith(SUFFIXES):
        return [row for _, row in reading.objects(path)]
    raise ValueError(
        f'{path} is not a file that can be read: its name must end in '
        f'{", ".join(SUFFIXES)}.'
    )


def splits(path, train=TRAIN, test=TEST, header=None):
    """(training rows, test rows): of files whose names begin with one of these words.

    A folder may hold them itself or in a folder `data`. The first word of `test` that
    has files is taken; of a training set alone, and of a single file, the second is
    None. 'tfds:NAME' asks tensorflow_datasets.
    """
    if str(path).startswith(TFDS):
        return _prepared(str(path).removeprefix(TFDS), train, test)
    path = Path(paths.local('The path of the set', path))
    if path.is_file():
        return read(path, header), None
    if not path.is_dir():
        raise FileNotFoundError(
            f'There is no file or folder {path}. Nothing is downloaded here: get the '
            'set first, then give its path.'
        )
    found = sorted(
        file
        for folder in (path, path / 'data')
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(SUFFIXES)
    )
    sides = [_of(found, names, header) for names in (train, test)]
    if sides[0] is None:
        names = ', '.join(file.name for file in found) or 'none that can be read'
        raise ValueError(
            f'{path} has no file whose name begins with {train[0]!r}; it has: {names}.'
        )
    return tuple(sides)


def column(rows, name, where):
    """The values of one field; ValueError with the fields that exist if it is missing."""
    for number, row in enumerate(rows, 1):
        if name not in row:
            raise ValueError(
                f'{where}, row {number}, has no field {name!r}.'
                f'{resolve.nearest(name, [str(key) for key in row])}'
            )
    return [row[name] for row in rows]


def _of(files, names, header):
    for name in names:
        chosen = [f for f in files if f.name.split('.')[0].split('-')[0] == name]
        if chosen:
            return [row for file in chosen for row in read(file, header)]
    return None


def _tsv(path, header):
    rows, names = [], header
    for number, line in reading.lines(path):
        if not line.strip():
            continue
        cells = line.split('\t')
        if names is None:
            names = cells
        elif len(cells) < len(names):
            raise ValueError(
                f'{path}, line {number} has {len(cells)} cells, but there are '
                f'{len(names)} columns: {", ".join(names)}.'
            )
        else:
            rows.append(dict(zip(names, cells)))
    return rows


def _prepared(name, train, test):
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise ImportError(
            f'{TFDS}{name} needs tensorflow-datasets: pip install tensorflow-datasets. '
            'Or give a folder of .tsv, .jsonl or .parquet files.'
        ) from error
    try:
        # ArrayRecord is read without TensorFlow; only what is prepared already.
        builder = tfds.builder(name)
        known = list(builder.info.splits)
        sides = []
        for names in (train, test):
            split = next((n for n in names if n in known), None)
            source = builder.as_data_source(split) if split else None
            sides.append(source and [_plain(row) for row in source])
    except Exception as error:
        raise ValueError(
            f'{TFDS}{name} cannot be read here ({type(error).__name__}: {error}). It '
            'must have been prepared on this machine as array_record; other formats need '
            'TensorFlow. Or give a folder of .tsv, .jsonl or .parquet files.'
        ) from error
    if sides[0] is None:
        raise ValueError(f'{TFDS}{name} has no split {train[0]!r}, but: {known}.')
    return tuple(sides)


def _plain(row):
    return {
        key: value.decode() if isinstance(value, bytes) else getattr(value, 'item', str)()
        for key, value in row.items()
    }
