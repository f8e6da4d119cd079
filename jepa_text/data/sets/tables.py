"""Labeled datasets from .jsonl, .tsv, .csv, .json, .parquet or .arrow files, as lists of
dicts; folders in the layout of GLUE or Hugging Face, also that of `save_to_disk`.

'hub:NAME/CONFIG@REVISION' is a dataset on the Hugging Face Hub (data/sets/hub.py), the
only ones that are downloaded. 'tfds:glue/sst2' reads what tensorflow_datasets has
prepared on this machine, through ArrayRecord.
"""

import json
import re
import warnings
from pathlib import Path
from typing import NamedTuple

from jepa_text.data.corpora import reading, row_groups
from jepa_text.data.sets import hub, prepared
from jepa_text.files import checksums, paths
from jepa_text.settings import resolve

_TEXT, _BINARY = ('.tsv', '.jsonl', '.ndjson', '.csv', '.json'), ('.parquet', '.arrow')
SUFFIXES = (*(f'{suffix}{end}' for suffix in _TEXT for end in reading.ENDS), *_BINARY)
_SHOWN = f'{", ".join(_TEXT)} (also {", ".join(reading.PACKED)}), {" or ".join(_BINARY)}'
# CoNLL files with one word per line, which are not tables of rows (data/sets/columns.py).
COLUMNS = ('.conll', '.conllu', '.iob2', '.bio', '.txt')
COLUMNS = (*(f'{suffix}{end}' for suffix in COLUMNS for end in reading.ENDS),)
READ = (*SUFFIXES, *COLUMNS)
TRAIN = ('train', 'training')
VALIDATION = ('validation', 'dev', 'valid', 'val', 'eval', 'evaluation')
TEST = ('test', 'testing')
_FOLLOWED = " followed by '.', '-' or two digits"
# Written by Hugging Face's `datasets` beside the data.
SAVED, STATE = 'dataset_dict.json', 'state.json'
_QUOTED = re.compile('"([^"]|"")*"')
_ABOUT = (SAVED, STATE, 'dataset_info.json', 'dataset_infos.json')
CALLED = {'dev': 'validation', 'valid': 'validation', 'val': 'validation'}


class Splits(NamedTuple):
    """Rows of each split, None if it does not exist; the commit on the hub, or ''."""

    train: list
    validation: list | None
    test: list | None
    revision: str = ''


def read(path):
    """Returns the rows of a file.

    Cells of a CSV may be quoted, as in RFC 4180; those of a TSV are taken literally, as
    in GLUE. A .json file has a list of objects, an object with such a list as 'data', or,
    as often on the hub, one object per line. Raises FileNotFoundError for a missing file
    and ValueError, with the line, if it cannot be read.
    """
    return list(rows(path))


def rows(path):
    """Yields the rows of a file, one at a time if possible; raises as `read`."""
    path = Path(paths.local('The file', path))
    if not path.is_file():
        raise FileNotFoundError(
            f'There is no file {path}. Give one that ends in {_SHOWN}.'
        )
    kind = kind_of(path)
    if kind in ('parquet', 'arrow'):
        return row_groups.rows(path)
    if kind in ('jsonl', 'ndjson'):
        return (row for _, row in reading.objects(path, parse=_parse))
    if kind in ('tsv', 'csv'):
        return _cells(path, kind == 'tsv')
    if kind == 'json':
        return iter(_json(path))
    raise ValueError(f'{path} is not a supported file: its name must end in {_SHOWN}.')


def splits(path, reader=read, validation=VALIDATION, test=TEST, zero_shot=False):
    """Returns the Splits of the files of each split: those whose names begin with one of
    its words, the first for which there are any; a single file is `train`.
    `reader(file)` returns the rows of a file.

    If only one of validation and test exists, it is the test set. A folder has the files
    itself or in a subfolder `data`. 'tfds:NAME' is read by tensorflow_datasets,
    'hub:NAME' from the hub.
    A set without a training split is an error, unless it is for a `zero_shot` task.
    """
    words = (TRAIN, validation, test)
    if str(path).startswith(prepared.TFDS):
        parts, revision = prepared.rows(str(path).removeprefix(prepared.TFDS), words), ''
    else:
        present, revision = files(path)
        chosen = [
            next((present[name] for name in names if name in present), None)
            for names in words
        ]
        if chosen[0] is None and not (zero_shot and any(chosen)):
            names = sorted(file.name for some in present.values() for file in some)
            raise ValueError(
                f'{path} has no file whose name begins with {TRAIN[0]!r}{_FOLLOWED}; it '
                f'has: {", ".join(names) or "none with a supported suffix"}. For scores '
                "of pairs and retrieval without training: dict(name='own', path='...', "
                'zero_shot=True).'
            )
        _check_names(path, present, chosen, validation)
        parts = [
            some and [row for file in some for row in reader(file)] for some in chosen
        ]
    training, validating, testing = parts
    if testing is None:
        validating, testing = None, validating
    return Splits(training, validating, testing, revision)


def _check_names(path, present, chosen, validation):
    """Warns of tables that are not read, and of files that are read as one split though
    they are no numbered shards; raises ValueError for two that differ only in format."""
    unread, aside = [], {'txt', 'json'}  # which may be about the data
    aside -= {kind_of(file) for files in chosen for file in files or ()}
    for word, files in present.items():
        names = [file.name for file in files]
        if files not in chosen:
            tables = [name for name in names if kind_of(name) not in aside]
            unread += [name for name in tables if not name.startswith('.')]
        elif len(files) > 1 and not hub.is_name(path):
            ends = (name.lower().rindex('.' + kind_of(name)) for name in names)
            stems = [name[:end] for name, end in zip(names, ends)]
            if len(set(stems)) < len(stems):
                raise ValueError(
                    f'{path}: of {", ".join(names)} two look like the same rows in '
                    'several files. Move all but one away, or rename those with others.'
                )
            shard = rf'.*({word}|data)[-._ ]?\d+([-._ ].*)?'
            if not all(re.fullmatch(shard, stem) for stem in stems):
                warnings.warn(
                    f'{path}: {word} is joined from {", ".join(names)}. Move those away '
                    'that are not part of it.',
                    stacklevel=4,
                )
    if unread and validation:
        words = ', '.join(map(repr, (TRAIN[0], *VALIDATION, TEST[0])))
        warnings.warn(
            f'{path}: {", ".join(sorted(unread))} are not read, as their names do not '
            f'begin with one of {words}{_FOLLOWED}, or another is read. Rename them to '
            'have them read, or move them away.',
            stacklevel=4,
        )


def files(path):
    """Returns ({word: [file, ...]}, the commit on the hub or '') of a folder, file or
    name on the hub. The word is the first of a file's name, 'train' for a single file."""
    if hub.is_name(path):
        return hub.find(path)
    path = Path(paths.local('The path of the dataset', path))
    if path.is_file():
        return {'train': [path]}, ''
    if saved := _saved_to_disk(path):
        return saved, ''
    if not path.is_dir():
        raise FileNotFoundError(
            f'There is no file or folder {path}. Download the dataset first and give its '
            f"path, or name one on the Hugging Face Hub, as '{hub.PREFIX}nyu-mll/glue/"
            "sst2'."
        )
    by_word = {}
    for file in sorted([*path.iterdir(), *path.glob('data/*')]):
        if file.name.lower().endswith(READ) and file.name not in _ABOUT:
            # 'test-00000-of-00002', and 'train00' as in T-NER's datasets; not 'test2'.
            by_word.setdefault(re.split(r'[.-]|\d\d', file.name)[0], []).append(file)
    return by_word, ''


def _saved_to_disk(path):
    """{split: files} of a folder of Hugging Face's `save_to_disk`; {} for others."""
    if (path / SAVED).is_file():
        splits = checksums.read_json(path / SAVED, dict)['splits']
        return {split: _shards(path / split) for split in splits}
    return {'train': _shards(path)} if (path / STATE).is_file() else {}


def _shards(folder):
    """The files of a split, as its state.json lists them."""
    if not (folder / STATE).is_file():
        raise FileNotFoundError(
            f'{folder / STATE} is missing, so the folder of `save_to_disk` is not '
            'complete: copy the whole folder, or save the dataset again.'
        )
    state = checksums.read_json(folder / STATE, dict)
    return [folder / file['filename'] for file in state['_data_files']]


def stem(path):
    """Returns the name of a dataset: of its file or folder up to a dot; on the hub, the
    config or else the last part of the name.

    >>> stem('a/trec.jsonl.gz'), stem('hub:lab/glue/sst2@main')
    ('trec', 'sst2')
    """
    if hub.is_name(path):
        return Path(path.split('@')[0]).name
    return Path(paths.local('The path of the dataset', path)).name.split('.')[0]


def class_names(path, field):
    """Returns the names of the classes in order of the numbers that a column contains,
    from the metadata of a Parquet or Arrow file written by Hugging Face's `datasets`; ()
    if unknown."""
    if kind_of(path) not in ('parquet', 'arrow'):
        return ()
    metadata = row_groups.schema(path).metadata or {}
    about = json.loads(metadata.get(b'huggingface', b'{}')).get('info', {})
    feature = about.get('features', {}).get(field)
    while isinstance(feature, list | dict):
        if isinstance(feature, dict) and 'names' in feature:
            return tuple(feature['names'])
        feature = feature[0] if isinstance(feature, list) else feature.get('feature')
    return ()


def kind_of(path):
    """Returns the last suffix of a file's name, in lower case, without that of a packed
    file.

    >>> kind_of('a/train.CSV.gz')
    'csv'
    """
    name = Path(path).name.lower()
    packing = next((end for end in reading.PACKED if name.endswith(end)), '')
    return name.removesuffix(packing).rpartition('.')[2]


def columns(table, names, where):
    """Returns the values of each of some fields, None for the name ''; ValueError with
    the known fields if one is missing."""
    return [
        [value(row, name, f'{where}, row {n}') for n, row in enumerate(table, 1)]
        if name
        else None
        for name in names
    ]


def value(row, name, where):
    """Returns the value of one field, or of one in another as 'outer.inner'; ValueError
    with the known fields if missing."""
    outer, dot, inner = name.partition('.')
    if name not in row and dot and isinstance(row.get(outer), dict):
        return value(row[outer], inner, f'{where}, {outer}')
    if name not in row:
        near = resolve.nearest(name, [str(key) for key in row])
        raise ValueError(f'{where}, has no field {name!r}.{near}')
    return row[name]


def _cells(path, is_tsv):
    names, quoted = None, []
    for number, cells in reading.records(path, is_tsv):
        if names is None:
            names, present = cells, [name for name in cells if name]
            if len(set(present)) < len(present):
                raise ValueError(
                    f'{path}, line {number} repeats a column name: {", ".join(names)}.'
                )
            if (
                not is_tsv
                and len(names) == 1
                and (other := re.search('[;\t|]', names[0]))
            ):
                raise ValueError(
                    f'{path}: cells are separated by {other[0]!r}, not by commas. Write '
                    f'others, by pandas.read_csv({str(path)!r}, sep={other[0]!r}, dtype='
                    "str, keep_default_na=False).to_csv('set.csv', index=False)."
                )
        elif len(cells) != len(names):
            raise ValueError(
                f'{path}, line {number} has {len(cells)} cells, but there are '
                f'{len(names)} columns: {", ".join(names)}.'
            )
        else:
            yield dict(zip(names, cells))
        quoted += filter(_QUOTED.fullmatch, cells if is_tsv else ())
    if quoted:
        warnings.warn(
            f'{path}: {len(quoted):,} cells in quotes are kept as they are, such as '
            f'{quoted[0]}. If a program quoted them, write the table as .csv or .jsonl.',
            stacklevel=4,
        )


def _parse(text):
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs):
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'an object has the key {repeated!r} more than once')
    return made


def _json(path):
    try:
        content = _parse('\n'.join(line for _, line in reading.lines(path)))
    except (ValueError, RecursionError) as error:
        # More than one value means one object per line.
        if getattr(error, 'msg', '') == 'Extra data':
            return [row for _, row in reading.objects(path, parse=_parse)]
        raise ValueError(f'{path} is not JSON: {error}.') from error
    table = content.get('data') if isinstance(content, dict) else content
    if not isinstance(table, list) or not all(isinstance(row, dict) for row in table):
        raise ValueError(
            f'{path} must be a JSON list of objects, one per row, or an object with such '
            "a list as 'data'. A file with one object per line should end in .jsonl."
        )
    return table
