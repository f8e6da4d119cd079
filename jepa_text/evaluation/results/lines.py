"""Result files of members: a JSON line of metrics, and Parquet with per-instance values.

results/
  NAME.json       one line: what was trained, its config hash, and all metrics
  NAME.parquet    one row per test instance: its prediction and its values

A line contains checksums of itself and of its side file, so that a damaged one is
detected and trained again. It is written after the side file, so a line that exists is
complete.

The config hash covers all settings that change a number and no others: not names of
folders, machine or threads, nor how many members were trained together (`width`, `how`),
which only changes rounding, as machines do, and is recorded in the line. All other
settings count, so that a new setting is never mistaken for an old one.
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
# Required fields of a config. `model` is a name or folder, `model_revision` the commit on
# the hub or the checksum of the loaded model, `tokenizer` the tokenizer's fingerprint.
CONFIG = (
    *('model', 'model_revision', 'task', 'data_revision', 'tokenizer', 'kind'),
    *('learning_rate', 'seed', 'steps', 'batch_size', 'max_length', 'pooling'),
    *('precision', 'template'),
)
# Fields that change no number beyond rounding. `texts_cut` follows from length and data.
NOT_HASHED = (
    *('model', 'item', 'chosen', 'width', 'how', 'host', 'threads', 'devices', 'mesh'),
    'texts_cut',
)


def config_hash(config):
    """Returns the sha256 of the settings of a member's config that change a number.

    Numbers are rounded to six digits, so that 1e-5 has the same hash in float32. Raises
    ValueError if the model or data revision is empty.
    """
    for key in ('model_revision', 'data_revision'):
        if not config[key]:
            raise ValueError(
                f'{key} of a member is empty, so its results cannot be distinguished '
                'from others. If there is no commit, give a checksum.'
            )
    counted = {key: value for key, value in config.items() if key not in NOT_HASHED}
    return checksums.checksum(_rounded(plain(counted)))


def name_of(config):
    """Returns the file name of a member: task, model, learning rate, seed and hash.

    Like `read`, it distinguishes members of the same config by their item.

    >>> config = dict.fromkeys(CONFIG, 'x') | dict(model='hf:a/b', learning_rate=1e-5)
    >>> name_of(config | dict(task='sst2', seed=3))
    'sst2.b.lr1e-05.seed3.bfa9387ff7bf'
    """
    model = str(config['model']).removeprefix('hf:').rstrip('/').split('/')[-1]
    words = (str(config['task'])[:60], model[:60], f'lr{config["learning_rate"]:g}')
    digest = checksums.checksum([config_hash(config), config.get('item')])
    words = (*words, f'seed{config["seed"]}', digest[:12])
    return '.'.join(re.sub(r'[^\w.+-]+', '-', word) for word in words)


def write(folder, config, outcome, per_instance=None, predictions=None):
    """Writes a member's side file and then its line; returns the path of the line.

    config          the fields of CONFIG and all other settings
    outcome         {'status', 'validation', 'test', 'losses', 'seconds', 'versions'};
                    `validation` and `test` are {'standard': {}, 'paper': {}}, or None if
                    not finite; NaN is written as null
    per_instance    {metric: [N]} of the test set, as in metrics.base.Measured
    predictions     [N], or {query: {document: score}}

    Raises ValueError for columns of different lengths.
    """
    folder, name = Path(folder), name_of(config)
    folder.mkdir(parents=True, exist_ok=True)
    line = {'name': name, **config, **outcome, 'config_hash': config_hash(config)}
    if per_instance or predictions is not None:
        path = folder / f'{name}.parquet'
        atomic.write(path, _side_bytes(name, per_instance or {}, predictions))
        line['side'] = {'file': path.name, **checksums.file_entry(path)}
    line = plain(line)
    line['sha256'] = checksums.checksum(line)
    path = folder / f'{name}.json'
    atomic.write(path, json.dumps(line, allow_nan=False) + '\n')
    return path


def read(folder):
    """Returns ([line of each member], {file: error message}).

    If two files have the same config, the first by name counts and the other is reported.
    """
    lines, damaged, known = [], {}, {}
    for path in sorted(Path(folder).glob('*.json')):
        try:
            line = _read_line(path)
        except ValueError as error:
            damaged[path.name] = str(error)
            continue
        # A run and its export have the same config, but are two models in tables.
        first = known.setdefault((line['config_hash'], line.get('item')), path.name)
        if first == path.name:
            lines.append(line)
        else:
            damaged[path.name] = f'it has the same config as {first}'
    return lines, damaged


def with_short_names(lines):
    """Returns the lines with models named by the last part of their path, if unique.

    Pages and tables are shared, and other readers do not need this machine's folders.

    >>> names = ('runs/mlm', 'runs/mlm, bag of embeddings', 'hf:a/MiniLM', 'TF-IDF')
    >>> [line['model'] for line in with_short_names([{'model': name} for name in names])]
    ['mlm', 'mlm, bag of embeddings', 'MiniLM', 'TF-IDF']
    >>> [line['model'] for line in with_short_names([{'model': 'a/x'}, {'model': 'b/x'}])]
    ['a/x', 'b/x']
    """
    models = {line['model'] for line in lines}
    bare = {name: re.sub(r'^hf:|/(?=,|$)', '', name) for name in models}
    short = {name: path.split('/')[-1] for name, path in bare.items()}
    counts = Counter(short.values())
    return [
        line | {'model': name if counts[short[name]] > 1 else short[name]}
        for line in lines
        for name in [line['model']]
    ]


def read_side(folder, line):
    """Returns ({metric: [N]}, predictions as they were given) of a member's test set.

    Raises ValueError if the side file is missing or changed.
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
            f'{path} is missing or was changed: delete it and {line["name"]}.json to '
            'train the member again.'
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
        raise ValueError(f'{name}: columns differ in their number of values: {lengths}.')
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), sink, compression='zstd')
    return sink.getvalue().to_pybytes()


def _read_line(path):
    line = checksums.read_json(path)
    if not isinstance(line, dict) or 'sha256' not in line:
        raise ValueError("it is not a member's line")
    digest = line.pop('sha256')
    if digest != checksums.checksum(line):
        raise ValueError('its checksum is wrong: it was edited or damaged')
    known = line.get('side')
    if known:
        file = path.with_name(known['file'])
        if not file.is_file() or checksums.sha256(file) != known['sha256']:
            raise ValueError(f'its side file {known["file"]} is missing or was changed')
    return line


def plain(value):
    """Converts a value to types of JSON; numbers that are not finite become None."""
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
