"""Labeled sets: .jsonl, .tsv, .csv, .json or .parquet files -> a list of dicts.

    read(path)          one file
    splits(path, ...)   a folder as GLUE or Hugging Face lay it out, or one file
    files(path)         {split: files} of the same

'hub:NAME/CONFIG@REVISION' is a set on Hugging Face's hub (data/sets/hub.py). Nothing else
is downloaded. 'tfds:glue/sst2' reads what tensorflow_datasets has prepared on this
machine, through ArrayRecord.
"""

import csv
import json
import re
import warnings
from pathlib import Path
from typing import NamedTuple

from jepa_text.config import resolve
from jepa_text.data.corpora import reading, row_groups
from jepa_text.data.sets import hub, prepared
from jepa_text.files import paths

SUFFIXES = ('.tsv', '.jsonl', '.ndjson', '.csv', '.json')
SUFFIXES = (*SUFFIXES, *(f'{suffix}.gz' for suffix in SUFFIXES), '.parquet')
# Columns of words and tags, a word a line: not tables of rows (data/sets/columns.py).
COLUMNS = ('.conll', '.iob2', '.bio', '.txt')
COLUMNS = (*COLUMNS, *(f'{suffix}.gz' for suffix in COLUMNS))
READ = (*SUFFIXES, *COLUMNS)
TRAIN = ('train',)
VALIDATION = ('validation', 'dev', 'valid', 'val')
TEST = ('test',)
LABELS = 'label.json'
CALLED = {'dev': 'validation', 'valid': 'validation', 'val': 'validation'}


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
    A .json file holds a list of objects, an object with such a list as 'data', or as many
    do on the hub, an object a line. Raises FileNotFoundError for a missing file and
    ValueError, with the line, for what cannot be read.
    """
    path = Path(paths.local('The file', path))
    if not path.is_file():
        raise FileNotFoundError(
            f'There is no file {path}. Give one that ends in {", ".join(SUFFIXES)}.'
        )
    kind = path.name.removesuffix('.gz').rpartition('.')[2]
    if path.name.endswith('.parquet'):
        return list(row_groups.rows(path))
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


def splits(path, reader=read, train=TRAIN, validation=VALIDATION, test=TEST):
    """The Splits of files whose names begin with one of these words, the first that has
    files; of a single file all is `train`. `reader(file)` gives the rows of one.

    Where only one of validation and test is there, it is the test set. A folder may hold
    the files itself or in a folder `data`; a * in the name of a file stands for the word,
    as in 'en-*.conll'. 'tfds:NAME' asks tensorflow_datasets, and 'hub:NAME' the hub.
    """
    words = (train, validation, test)
    if str(path).startswith(prepared.TFDS):
        sides, revision = prepared.rows(str(path).removeprefix(prepared.TFDS), words), ''
    else:
        found, revision = files(path)
        chosen = [next((found[w] for w in some if w in found), None) for some in words]
        if chosen[0] is None:
            names = sorted(file.name for some in found.values() for file in some)
            raise ValueError(
                f'{path} has no file whose name begins with {train[0]!r}; it has: '
                f'{", ".join(names) or "none that can be read"}.'
            )
        sides = [
            some and [row for file in some for row in reader(file)] for some in chosen
        ]
    if sides[2] is None:
        sides = (sides[0], None, sides[1])
    return Splits(*sides, revision)


def files(path):
    """({word: [file, ...]}, the commit of the hub or '') of a folder, file or name on
    the hub: the first word of a file's name, 'train' of a single file."""
    if hub.is_name(path):
        found = hub.find(path)
        return found.splits, found.commit
    path = Path(paths.local('The path of the set', path))
    if path.is_file():
        return {'train': [path]}, ''
    if '*' in path.name and path.parent.is_dir():
        before, _, after = path.name.partition('*')
        named = {
            file: file.name[len(before) : -len(after) or None]
            for file in path.parent.iterdir()
            if file.name.startswith(before) and file.name.endswith(after)
        }
    elif path.is_dir():
        folders = [folder for folder in (path, path / 'data') if folder.is_dir()]
        inside = (file for folder in folders for file in folder.iterdir())
        named = {
            file: file.name
            for file in inside
            if file.name.endswith(READ) and file.name != LABELS
        }
    else:
        raise FileNotFoundError(
            f'There is no file or folder {path}. Get the set first, then give its path; '
            f"or name one on Hugging Face's hub, as '{hub.PREFIX}nyu-mll/glue/sst2'."
        )
    found = {}
    for file in sorted(named):
        # 'test-00000-of-00002', and 'train00' as sets of T-NER have it; not 'test2'.
        found.setdefault(re.split(r'[.-]|\d\d', named[file])[0], []).append(file)
    return found, ''


def stem(path):
    """What a set is called: the name of its file or folder up to a dot; on the hub, the
    last of its name and config.

    >>> stem('a/trec.jsonl.gz'), stem('hub:lab/glue/sst2@main')
    ('trec', 'sst2')
    """
    if hub.is_name(path):
        return Path(path.split('@')[0]).name
    return Path(paths.local('The path of the set', path)).name.split('.')[0]


def class_names(path, field):
    """Names of the classes that a column holds the numbers of, in their order: of a
    Parquet file as Hugging Face's `datasets` writes them; else as a file label.json
    beside it says, {name: number}, as in the sets of T-NER. () if nothing tells them."""
    if not path.name.endswith('.parquet'):
        return _names_beside(path.with_name(LABELS))
    from pyarrow import parquet

    said = parquet.read_schema(path).metadata or {}
    features = json.loads(said.get(b'huggingface', b'{}')).get('info', {})
    feature = features.get('features', {}).get(field)
    while isinstance(feature, list | dict):
        if isinstance(feature, dict) and 'names' in feature:
            return tuple(feature['names'])
        feature = feature[0] if isinstance(feature, list) else feature.get('feature')
    return ()


def _names_beside(path):
    """The names in a file {name: number}, () if it is not there or holds what else."""
    try:
        number = json.loads(path.read_text())
        names = {number[name]: name for name in number}
        return tuple(names[n] for n in range(len(number)))
    except (FileNotFoundError, ValueError, TypeError, KeyError, IndexError):
        return ()


def read_named(path, field):
    """`read`, with the names of the classes in a field that a Parquet file holds the
    numbers of, where it tells them."""
    rows, names = read(path), class_names(path, field)
    for row in rows if names else ():
        number = row[field]
        if isinstance(number, int) and 0 <= number < len(names):
            row[field] = names[number]
    return rows


def column(rows, name, where):
    """The values of one field; ValueError with the fields that exist if it is missing."""
    return [value(row, name, f'{where}, row {n}') for n, row in enumerate(rows, 1)]


def value(row, name, where):
    """The value of one field; ValueError with the fields that exist if it is missing."""
    if name not in row:
        near = resolve.nearest(name, [str(key) for key in row])
        raise ValueError(f'{where}, has no field {name!r}.{near}')
    return row[name]


def _cells(path, header, kind, skip_short):
    rows, names, short = [], header, []
    for number, cells in _lines_of_csv(path) if kind == 'csv' else _lines_of_tsv(path):
        if names is None:
            names = cells
            said = [name for name in names if name]
            if len(set(said)) < len(said):
                raise ValueError(
                    f'{path}, line {number} names a column twice: {", ".join(names)}.'
                )
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
        # More than one value: an object a line.
        if getattr(error, 'msg', '') == 'Extra data':
            return [row for _, row in reading.objects(path)]
        raise ValueError(f'{path} is not JSON: {error}.') from error
    rows = found.get('data') if isinstance(found, dict) else found
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(
            f'{path} must hold a JSON list of objects, one a row, or an object with such '
            "a list as 'data'. Of one object a line, the name ends in .jsonl."
        )
    return rows
