"""Result files of members: a JSON line of metrics, and Parquet with per-instance values.

results/
  NAME.json       one line: what was trained, and all metrics
  NAME.parquet    one row per test instance: its prediction and its values

A line contains checksums of itself and of its side file, so that a damaged one is
detected and trained again. It is written after the side file, so a line that exists is
complete. A member is identified by its `item` (groups.py), learning rate and seed, and a
control by its name.
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


def name_of(config):
    """Returns the file name of a member.

    >>> config = dict(model='hf:a/b', task='sst2', learning_rate=1e-5, seed=3, item='x')
    >>> name_of(config)
    'sst2.b.lr1e-05.seed3.b4dc20d90120'
    """
    model = config['model'].removeprefix('hf:').rstrip('/').split('/')[-1]
    words = (config['task'][:60], model[:60], f'lr{config["learning_rate"]:g}')
    words = (*words, f'seed{config["seed"]}', checksums.checksum(_key(config))[:12])
    return '.'.join(re.sub(r'[^\w.+-]+', '-', word) for word in words)


def _key(config):
    names = ('item', 'control', 'learning_rate', 'seed')
    return plain([config.get(name) for name in names])


def write(folder, config, outcome, per_instance=None, predictions=None):
    """Writes a member's side file and then its line; returns the path of the line.

    config          model, task, learning_rate, seed and all other settings
    outcome         {'status', 'validation', 'test', 'losses', 'seconds', 'versions'};
                    `validation` and `test` are {'standard': {}, 'paper': {}}, or None if
                    not finite; NaN is written as null
    per_instance    {metric: [N]} of the test set, as in metrics.base.Measured
    predictions     [N], or {query: {document: score}}
    """
    folder, name = Path(folder), name_of(config)
    folder.mkdir(parents=True, exist_ok=True)
    line = {'name': name, **config, **outcome}
    if per_instance or predictions is not None:
        path = folder / f'{name}.parquet'
        atomic.write(path, _side_bytes(per_instance or {}, predictions))
        line['side'] = {'file': path.name, **checksums.file_entry(path)}
    line = plain(line)
    line['sha256'] = checksums.checksum(line)
    path = folder / f'{name}.json'
    atomic.write(path, json.dumps(line, allow_nan=False) + '\n')
    return path


def read(folder):
    """Returns ([line of each member], {file: error message}); of two files of one member,
    the first by name counts and the other is reported."""
    lines, damaged, known = [], {}, {}
    for path in sorted(Path(folder).glob('*.json')):
        try:
            line = _read_line(path)
        except ValueError as error:
            damaged[path.name] = str(error)
            continue
        first = known.setdefault(tuple(_key(line)), path.name)
        if first == path.name:
            lines.append(line)
        else:
            damaged[path.name] = f'it is of the same member as {first}'
    return lines, damaged


def with_short_names(lines):
    """Returns the lines with models named by the last part of their path, if unique:
    other readers do not need this machine's folders.

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

    if not line.get('side'):
        raise ValueError(
            f'{line["name"]} has no side file: its status is {line["status"]!r}.'
        )
    path = _checked_side(folder, line)
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


def _side_bytes(per_instance, predictions):
    import pyarrow
    import pyarrow.parquet

    columns = {key: np.asarray(value, float) for key, value in per_instance.items()}
    if isinstance(predictions, dict):
        columns['query'] = list(map(str, predictions))
        columns['prediction'] = [json.dumps(plain(x)) for x in predictions.values()]
    elif predictions is not None:
        columns['prediction'] = plain(list(predictions))
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
    if line.get('side'):
        _checked_side(path.parent, line)
    return line


def _checked_side(folder, line):
    path = Path(folder) / line['side']['file']
    if not path.is_file() or checksums.sha256(path) != line['side']['sha256']:
        raise ValueError(
            f'its side file {path.name} is missing or was changed: delete the line to '
            'train the member again'
        )
    return path


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
