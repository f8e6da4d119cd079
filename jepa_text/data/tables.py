"""Labeled sets: .jsonl, .tsv, .csv, .json or .parquet files -> a list of dicts.

    read(path)          one file
    splits(path, ...)   a folder as GLUE or Hugging Face lay it out, or one file
    files(path)         {split: files} of the same

'hub:NAME/CONFIG@REVISION' is a set on Hugging Face's hub (data/hub.py). Nothing else is
downloaded. 'tfds:glue/sst2' reads what tensorflow_datasets has prepared on this machine,
through ArrayRecord.
"""

import csv
import json
import warnings
from pathlib import Path
from typing import NamedTuple

from jepa_text.config import resolve
from jepa_text.data import hub, reading
from jepa_text.files import paths

SUFFIXES = ('.tsv', '.jsonl', '.ndjson', '.csv', '.json')
SUFFIXES = (*SUFFIXES, *(f'{suffix}.gz' for suffix in SUFFIXES), '.parquet')
TRAIN = ('train',)
VALIDATION = ('validation', 'dev', 'valid', 'val')
TEST = ('test',)
TFDS = 'tfds:'


class Splits(NamedTuple):
    """Rows of each split, None where there is none, and the commit of the hub, or ''."""

    train: list
    validation: list | None
    test: list | None
    revision: str = ''


def read(path, header=None, skip_short=False):
    """The rows of a file; `header` names the columns of a TSV that has no header line.

    With `skip_short`, lines of a TSV with too few cells are left out, with a warning.

    Cells of a TSV are never quoted, as in GLUE; those of a CSV may be, as RFC 4180 says.
    A .json file holds a list of objects, or an object with such a list as 'data'. Raises
    FileNotFoundError for a missing file and ValueError, with the line, for what cannot be
    read.
    """
    path = Path(paths.local('The file', path))
    if not path.is_file():
        raise FileNotFoundError(
            f'There is no file {path}. Give one that ends in {", ".join(SUFFIXES)}.'
        )
    kind = path.name.removesuffix('.gz').rpartition('.')[2]
    if path.name.endswith('.parquet'):
        return list(reading.parquet_rows(path))
    if not path.name.endswith(SUFFIXES):
        raise ValueError(
            f'{path} is not a file that can be read: its name must end in '
            f'{", ".join(SUFFIXES)}.'
        )
    if kind in ('tsv', 'csv'):
        return _cells(path, header, kind, skip_short)
    if kind == 'json':
        return _json(path)
    return [row for _, row in reading.objects(path)]


def splits(
    path, header=None, train=TRAIN, validation=VALIDATION, test=TEST, skip_short=False
):
    """The Splits of files whose names begin with one of these words, the first that has
    files; of a single file all is `train`.

    Where only one of validation and test is there, it is the test set. A folder may hold
    the files itself or in a folder `data`. 'tfds:NAME' asks tensorflow_datasets, and
    'hub:NAME' the hub.
    """
    words = (train, validation, test)
    if str(path).startswith(TFDS):
        sides, revision = _prepared(str(path).removeprefix(TFDS), words), ''
    else:
        found, revision = files(path)
        chosen = [next((w for w in names if w in found), None) for names in words]
        if chosen[0] is None:
            names = sorted(file.name for some in found.values() for file in some)
            raise ValueError(
                f'{path} has no file whose name begins with {train[0]!r}; it has: '
                f'{", ".join(names) or "none that can be read"}.'
            )
        sides = [
            [row for file in found[w] for row in read(file, header, skip_short)]
            if w
            else None
            for w in chosen
        ]
    if sides[2] is None:
        sides = (sides[0], None, sides[1])
    return Splits(*sides, revision)


def files(path, suffixes=SUFFIXES):
    """({split: [file, ...]}, the commit of the hub or '') of a folder, file or name on
    the hub; the split is the first word of a file's name, 'train' of a single file."""
    if hub.is_name(path):
        found = hub.find(path)
        return found.splits, found.commit
    path = Path(paths.local('The path of the set', path))
    if path.is_file():
        return {'train': [path]}, ''
    if not path.is_dir():
        raise FileNotFoundError(
            f'There is no file or folder {path}. Get the set first, then give its path; '
            f"or name one on Hugging Face's hub, as '{hub.PREFIX}nyu-mll/glue/sst2'."
        )
    found = {}
    for folder in (path, path / 'data'):
        for file in sorted(folder.iterdir()) if folder.is_dir() else ():
            if file.name.endswith(suffixes):
                word = file.name.split('.')[0].split('-')[0]
                found.setdefault(word, []).append(file)
    return found, ''


def stem(path):
    """What a set is called: the name of its file or folder up to a dot; on the hub, the
    last of its name and config.

    >>> stem('a/trec.jsonl.gz'), stem('hub:lab/glue/sst2@main')
    ('trec', 'sst2')
    """
    return Path(str(path).split('@')[0] if hub.is_name(path) else path).name.split('.')[0]


def column(rows, name, where):
    """The values of one field; ValueError with the fields that exist if it is missing."""
    for number, row in enumerate(rows, 1):
        if name not in row:
            raise ValueError(
                f'{where}, row {number}, has no field {name!r}.'
                f'{resolve.nearest(name, [str(key) for key in row])}'
            )
    return [row[name] for row in rows]


def _cells(path, header, kind, skip_short):
    rows, names, short = [], header, []
    for number, cells in _lines_of_csv(path) if kind == 'csv' else _lines_of_tsv(path):
        if names is None:
            names = cells
        elif len(cells) < len(names) or (kind == 'csv' and len(cells) > len(names)):
            words = (
                f'{path}, line {number} has {len(cells)} cells, but there are '
                f'{len(names)} columns: {", ".join(names)}.'
            )
            if not skip_short:
                raise ValueError(words)
            short.append(words)
        else:
            rows.append(dict(zip(names, cells)))
    if short:
        warnings.warn(
            f'{len(short):,} lines are left out, the first: {short[0]}', stacklevel=4
        )
    return rows


def _lines_of_tsv(path):
    return ((n, line.split('\t')) for n, line in reading.lines(path) if line.strip())


def _lines_of_csv(path):
    """(number of its last line, cells) of a record, which may go over several lines."""
    found = csv.reader((line + '\n' for _, line in reading.lines(path)), strict=True)
    try:
        for cells in found:
            if cells:
                yield found.line_num, cells
    except csv.Error as error:
        raise ValueError(
            f'{path}, line {found.line_num} is not CSV: {error}. A cell with a comma or '
            'a quote is put in quotes, and a quote in it is doubled.'
        ) from error


def _json(path):
    try:
        found = json.loads('\n'.join(line for _, line in reading.lines(path)))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f'{path} is not JSON: {error}.') from error
    rows = found.get('data') if isinstance(found, dict) else found
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(
            f'{path} must hold a JSON list of objects, one a row, or an object with such '
            "a list as 'data'. Of one object a line, the name ends in .jsonl."
        )
    return rows


def _prepared(name, words):
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
        for names in words:
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
        raise ValueError(f'{TFDS}{name} has no split {words[0][0]!r}, but: {known}.')
    return tuple(sides)


def _plain(row):
    return {
        key: value.decode() if isinstance(value, bytes) else getattr(value, 'item', str)()
        for key, value in row.items()
    }
