"""What a member of a grid gave: one line of JSON, and what it said of every instance.

results/
  NAME.json       one line: what was trained, by which config hash, and every metric
  NAME.parquet    a row an instance of the test set: its prediction, its values

A line has a checksum of itself and of its side file, so that a damaged one is named and
made anew, and is written after it: where there is a line, all is there.

The config hash is of all that changes a number, and of nothing that does not: names of
folders, machine, threads, how many members were trained together (`width`, `how`; which
round otherwise, as machines do, and stand in the line). Whatever else a config has
counts, so that a new setting is never mistaken for the old one.
"""

import json
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np

from jepa_text.files import atomic, checksums

FOLDER = 'results'
STATUSES = ('done', 'not finite', 'collapsed')
MODES = ('standard', 'paper')
# What a config says at least. `model` is a name, and may be a folder; `model_revision` is
# the commit of the hub or the checksum of what was loaded, `tokenizer` its fingerprint.
CONFIG = (
    *('model', 'model_revision', 'task', 'data_revision', 'tokenizer', 'kind'),
    *('learning_rate', 'seed', 'steps', 'batch_size', 'max_length', 'pooling'),
    *('precision', 'template'),
)
# What changes no number beyond rounding.
FREE = ('model', 'item', 'chosen', 'width', 'how', 'host', 'threads', 'devices', 'mesh')
FREE = (*FREE, 'texts_cut')  # which the length and the data say
OUTCOME = ('status', 'validation', 'test', 'losses', 'seconds', 'versions')


def config_hash(config):
    """The sha256 of what of a member's config changes a number.

    Numbers count with six digits, so 1e-5 is the same in float32. Raises ValueError for a
    config without one of CONFIG, or with an empty model or data revision.
    """
    missing = [key for key in CONFIG if key not in config]
    missing += [
        key for key in ('model_revision', 'data_revision') if config.get(key) == ''
    ]
    if missing:
        raise ValueError(
            f'The config of a member lacks {", ".join(missing)}: results of two would '
            'not be told apart. Where there is no commit, give a checksum.'
        )
    counted = {key: value for key, value in config.items() if key not in FREE}
    return checksums.checksum(_rounded(plain(counted)))


def name_of(config):
    """The name of a member, for files: it says what one looks for, and the hash.

    >>> config = dict.fromkeys(CONFIG, 'x') | dict(model='hf:a/b', learning_rate=1e-5)
    >>> name_of(config | dict(task='sst2', seed=3))
    'sst2.b.lr1e-05.seed3.56cbfd682c87'
    """
    model = str(config['model']).removeprefix('hf:').rstrip('/').split('/')[-1]
    words = (str(config['task'])[:60], model[:60], f'lr{config["learning_rate"]:g}')
    words = (*words, f'seed{config["seed"]}', config_hash(config)[:12])
    return '.'.join(re.sub(r'[^\w.+-]+', '-', word) for word in words)


def write(folder, config, outcome, per_instance=None, predictions=None):
    """Writes a member's line, and its side file first; returns the path of the line.

    config          of CONFIG, and whatever else was set
    outcome         of OUTCOME; `validation` and `test` {'standard': {}, 'paper': {}} of
                    what is done, None of what is not; NaN is written as null
    per_instance    {metric: [N]} of the test set, as in metrics.base.Measured
    predictions     [N], or {query: {document: score}}

    Raises ValueError for parts that are missing, are not known, or do not fit.
    """
    _check_outcome(outcome)
    folder, name = Path(folder), name_of(config)
    folder.mkdir(parents=True, exist_ok=True)
    line = {'name': name, **config, **outcome, 'config_hash': config_hash(config)}
    if per_instance or predictions is not None:
        path = folder / f'{name}.parquet'
        atomic.write(path, _side_bytes(name, per_instance or {}, predictions))
        line['side'] = {'file': path.name, **checksums.described(path)}
    line = plain(line)
    line['sha256'] = checksums.checksum(line)
    path = folder / f'{name}.json'
    atomic.write(path, json.dumps(line, allow_nan=False) + '\n')
    return path


def read(folder):
    """([line of each member], {file: what is wrong with it, in words}).

    Sides are looked for, and read by `side` only. Of two files of one config the first
    by name counts, and the other is named.
    """
    lines, damaged, known = [], {}, {}
    for path in sorted(Path(folder).glob('*.json')):
        try:
            line = _line(path)
        except ValueError as error:
            damaged[path.name] = str(error)
            continue
        # A run and its export have one config, and are two models of a table.
        first = known.setdefault((line['config_hash'], line.get('item')), path.name)
        if first == path.name:
            lines.append(line)
        else:
            damaged[path.name] = f'it is of the same config as {first}'
    return lines, damaged


def shortened(lines):
    """The lines with the last part of each model's name, where that tells them apart: a
    page and tables are passed on, and folders of a machine are of no use to others.

    >>> names = ('runs/mlm', 'runs/mlm, bag of embeddings', 'hf:a/MiniLM', 'TF-IDF')
    >>> [line['model'] for line in shortened([{'model': name} for name in names])]
    ['mlm', 'mlm, bag of embeddings', 'MiniLM', 'TF-IDF']
    >>> [line['model'] for line in shortened([{'model': 'a/x'}, {'model': 'b/x'}])]
    ['a/x', 'b/x']
    """
    models = {line['model'] for line in lines}
    bare = {name: re.sub(r'^hf:|/(?=,|$)', '', name) for name in models}
    short = {name: found.split('/')[-1] for name, found in bare.items()}
    counts = Counter(short.values())
    return [
        line | {'model': name if counts[short[name]] > 1 else short[name]}
        for line in lines
        for name in [line['model']]
    ]


def side(folder, line):
    """({metric: [N]}, predictions as they were given) of a member's test set.

    Raises ValueError for a file that is missing or not as it was written.
    """
    import pyarrow.parquet

    known = line.get('side')
    if not known:
        raise ValueError(
            f'{line["name"]} has no side file: its status is {line["status"]!r}.'
        )
    path = Path(folder) / known['file']
    if not path.is_file() or checksums.sha256(path) != known['sha256']:
        raise ValueError(
            f'{path} is missing or not as it was written: delete it and '
            f'{line["name"]}.json, and the member is trained anew.'
        )
    table = pyarrow.parquet.read_table(path)
    columns = {name: table[name] for name in table.column_names}
    predictions = columns.pop('prediction', None)
    queries = columns.pop('query', None)
    if predictions is not None:
        predictions = predictions.to_pylist()
    if queries is not None:
        pairs = zip(queries.to_pylist(), predictions)
        predictions = {query: json.loads(text) for query, text in pairs}
    return {name: column.to_numpy() for name, column in columns.items()}, predictions


def _side_bytes(name, per_instance, predictions):
    import pyarrow
    import pyarrow.parquet

    columns = {key: np.asarray(value, float) for key, value in per_instance.items()}
    if isinstance(predictions, dict):
        columns['query'] = list(map(str, predictions))
        columns['prediction'] = [json.dumps(plain(x)) for x in predictions.values()]
    elif predictions is not None:
        columns['prediction'] = plain(list(predictions))
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f'{name}: instances differ in number: {lengths}.')
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), sink, compression='zstd')
    return sink.getvalue().to_pybytes()


def _check_outcome(outcome):
    off = sorted(set(OUTCOME) ^ set(outcome))
    if off:
        raise ValueError(
            f'An outcome has {", ".join(OUTCOME)}; {", ".join(off)} is missing or new.'
        )
    status = outcome['status']
    if status not in STATUSES:
        raise ValueError(f'status={status!r}; there are: {", ".join(STATUSES)}.')
    for split in ('validation', 'test'):
        found = outcome[split]
        if found is None and status == 'not finite':
            continue
        if not isinstance(found, dict) or set(found) != set(MODES):
            raise ValueError(
                f'{split}={found!r} of a member that is {status}: give {{metric: value}} '
                f'in both modes, {" and ".join(MODES)}.'
            )


def _line(path):
    line = checksums.read_json(path)
    if not isinstance(line, dict) or 'sha256' not in line:
        raise ValueError('it is no line of a member')
    digest = line.pop('sha256')
    if digest != checksums.checksum(line):
        raise ValueError('its checksum does not fit: it was edited or damaged')
    known = line.get('side')
    if known:
        file = path.with_name(known['file'])
        if not file.is_file() or file.stat().st_size != known['bytes']:
            raise ValueError(f'its side file {known["file"]} is missing or cut')
    return line


def plain(value):
    """The same as JSON gives it back; None for what is not finite."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    is_number = isinstance(value, float)
    return None if is_number and not math.isfinite(value) else value


def _rounded(value):
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, float):
        short = float(f'{value:.6g}')
        return int(short) if short.is_integer() else short
    return value
