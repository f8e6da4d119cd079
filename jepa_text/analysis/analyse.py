"""`analyse(config, workdir)`: models x layers x poolings x tasks -> values one can trust.

workdir/
  analysis.json   what was analysed, every value, tests and warnings
  analysis.csv    the values, one a row
  analysis.html   the page
  features/       vectors, computed once (or the folder that config.cache names)

Values are of texts that no probe learned from. Beside each model stand its controls
(controls.py) and, for the measures of the last layer, an interval over sentences; with
several training seeds of one name, as runs/a-0 and runs/a-1, also over these.
"""

import csv
import io
import json
import math
import re
import time
from pathlib import Path

from jepa_text import load
from jepa_text.analysis import features, findings, measuring, page, telling, threads
from jepa_text.config import resolve
from jepa_text.evaluation import controls, tasks
from jepa_text.evaluation import task as examples
from jepa_text.files import atomic, paths, seal
from jepa_text.report import console
from jepa_text.running import compilation, xla_flags

COLUMNS = (
    *('task', 'model', 'seed', 'control', 'layer', 'pooling', 'form', 'metric'),
    *('value', 'low', 'high', 'count', 'other'),
)
# Keys of a run that do not change what is learned, and its seed.
NOT_LEARNED = (
    *('name', 'seed', 'checkpoint', 'compilation_cache', 'evaluate', 'geometry'),
    *('log_every', 'mesh', 'profile_steps', 'telemetry', 'watchdog'),
)
LEAST_TEST = 8  # examples, without which there is nothing to correlate
KEYS = (
    *('name', 'seed', 'models', 'tasks', 'layers', 'poolings', 'train', 'test'),
    *('halves', 'controls', 'cache', 'threads'),
)


def analyse(config, workdir):
    """Runs, or reads from its cache, an analysis; returns its results.

    Raises ValueError and FileNotFoundError, before any model is read, for tasks that
    cannot be made and settings that do not exist.
    """
    xla_flags.mend()
    folder = Path(paths.local('The workdir', workdir))
    config, began = _checked(config), time.monotonic()
    chosen = [_task(section, config) for section in config['tasks']]
    _check_titles([task.name for task in chosen])
    names = named(config['models'])
    folder.mkdir(parents=True, exist_ok=True)
    cache = config['cache'] or folder / 'features'
    cache = compilation.private_folder(str(cache), 'features', 'cache')
    total = telling.parts(config, chosen)
    with threads.one_thread_each(), console.Progress('analysis', total) as progress:
        found = measuring.Measured(config, chosen, cache, telling.Telling(progress))
        for path, (name, seed) in names.items():
            found.tell.say(f'{name}{f" seed {seed}" if seed else ""}: {path}')
            found.model(load.load(path), name, seed)
        found.tf_idf()
        found.likeness()
        found.tell.done()
        found.tell.part('comparing')
        compared = findings.compare(found.rows, found.deviations, found.single)
        found.tell.done()
    results = {
        'config': config,
        'models': {path: list(pair) for path, pair in names.items()},
        'tasks': [_described(task) for task in chosen],
        'cuts': [cut._asdict() for cut in found.cuts],
        'texts': {t.name: len(t.test.texts()) for t in chosen},
        'rows': found.rows + findings.over_seeds(found.rows),
        'spectra': found.spectra,
        **compared,
        'seconds': round(time.monotonic() - began, 1),
    }
    write(folder, results)
    page.show(results)
    print(f'\n{folder / "analysis.html"}  ({results["seconds"]:.0f} s)')
    return results


def named(paths):
    """{path: (name, seed)}: runs whose folders differ by a last number are seeds of one,
    if their configs differ in nothing else that a model learns from.

    >>> named(['runs/a-0', 'runs/a-1', 'runs/b-2'])
    {'runs/a-0': ('a', 0), 'runs/a-1': ('a', 1), 'runs/b-2': ('b-2', 0)}
    """
    stems = {path: _stem(path) for path in paths}
    parts = {p: re.fullmatch(r'(.+?)[-_](?:seed)?(\d+)', s) for p, s in stems.items()}
    recipes = {}
    for path, part in parts.items():
        if part and not path.startswith('hf:'):
            recipes.setdefault(part[1], {})[path] = _recipe(path, part[2])
    found = {path: (stem, 0) for path, stem in stems.items()}
    for base, runs in recipes.items():
        if len(runs) > 1 and len(set(runs.values())) == 1:
            found |= {path: (base, int(parts[path][2])) for path in runs}
    if len(set(found.values())) < len(found):
        return {path: (path, 0) for path in paths}
    return found


def _recipe(path, number):
    """What a run learns by, as text, but for its seed and the `number` of its folder."""
    file = Path(path) / 'config.json'
    config = seal.read_json(file) if file.is_file() else {}
    # What it starts from may be a run of the same seed, and its rows be named by that.
    own = re.compile(rf'[-_](seed)?({number}|{config.get("seed", number)})$')

    def plain(value):
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return own.sub('', value) if isinstance(value, str) else value

    kept = {key: value for key, value in config.items() if key not in NOT_LEARNED}
    return json.dumps(plain(kept), sort_keys=True)


def write(folder, results):
    """analysis.json, analysis.csv and analysis.html, each by rename."""
    text = json.dumps(_for_json(results), indent=1, allow_nan=False)
    atomic.write(folder / 'analysis.json', text)
    table = io.StringIO()
    writer = csv.DictWriter(table, COLUMNS, lineterminator='\n')
    writer.writeheader()
    for row in results['rows']:
        writer.writerow({key: _cell(row[key]) for key in COLUMNS})
    atomic.write(folder / 'analysis.csv', table.getvalue())
    page.write(folder / 'analysis.html', results)


def _checked(config):
    """The config as plain values, complete and known; ValueError says what is not."""
    config = config.to_dict() if hasattr(config, 'to_dict') else config
    config = json.loads(json.dumps(config))
    for key in config:
        if key not in KEYS:
            raise ValueError(
                f'analyse does not take {key!r}.{resolve.nearest(key, KEYS)}'
            )
    missing = [key for key in KEYS if key not in config]
    if missing:
        raise ValueError(f'analyse needs {", ".join(missing)}; see configs/analyse.py.')
    if not config['models'] or not config['tasks']:
        raise ValueError(
            'analyse needs models and tasks: '
            '--config=configs/analyse.py:models=runs/a,hf:NAME,tasks=bundled'
        )
    if len(set(config['models'])) < len(config['models']):
        raise ValueError(f'models={config["models"]}: one is there twice.')
    for path in config['models']:
        paths.local('models', path, model=True)
        if not path.startswith('hf:') and not (Path(path) / 'config.json').is_file():
            raise FileNotFoundError(
                f'{path} holds no config.json, so no run of jepa-text. Give the '
                "--workdir of a training run, or 'hf:' and a folder or name."
            )
    for name in config['controls']:
        if name not in controls.CONTROLS:
            raise ValueError(
                f'There is no control {name!r}.{resolve.nearest(name, controls.CONTROLS)}'
            )
    for key, least in (('train', 2), ('test', LEAST_TEST), ('halves', 0)):
        if not isinstance(config[key], int) or config[key] < least:
            raise ValueError(f'{key}={config[key]}: must be at least {least}.')
    if config['halves'] == 1:
        raise ValueError('halves=1: one has no spread. Take 16, or 0 for no intervals.')
    features.combinations(1, None, config['poolings'])
    if not config['poolings'] or config['poolings'][0] in (*features.TRAINED, 'last4'):
        raise ValueError(
            f'poolings={config["poolings"]}: the first is measured in every layer and on '
            "every task, so it is one that needs no training, such as 'mean'."
        )
    return config


def _task(section, config):
    task = tasks.build(section)
    task = examples.sample(task, config['train'], config['test'], config['seed'])
    if len(task.test) < LEAST_TEST:
        raise ValueError(
            f'{task.name} has {len(task.test)} test examples, but needs {LEAST_TEST}. '
            'Give more, or another task.'
        )
    labels = set(task.train.target.tolist()) if task.kind == 'labels' else ()
    if len(labels) == 1:
        raise ValueError(
            f'{task.name}: all {len(task.train)} training labels are {labels.pop()!r}, '
            'but a probe needs two classes. Name another field, or raise `train`.'
        )
    return task


def _check_titles(names):
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f'Two tasks are called {name!r}, and their values would be one. Give one '
                "a `title`, as in dict(name='labelled', path='...', title='other'), or "
                'leave it out.'
            )


def _stem(path):
    parts = [part for part in path.removeprefix('hf:').rstrip('/').split('/') if part]
    generic = len(parts) > 1 and parts[-1] in ('model', 'checkpoint', 'weights')
    return parts[-2] if generic else parts[-1]


def _described(task):
    return {
        'name': task.name,
        'kind': task.kind,
        'metric': task.metric,
        'train': len(task.train),
        'test': len(task.test),
        'classes': sorted(set(task.test.target.tolist()))
        if task.kind == 'labels'
        else [],
    }


def _for_json(value):
    """The same with None for what JSON has no number for."""
    if isinstance(value, dict):
        return {str(key): _for_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_for_json(item) for item in value]
    is_number = isinstance(value, float)
    return None if is_number and not math.isfinite(value) else value


def _cell(value):
    """A value of the CSV: empty for what is not there."""
    missing = value is None or (isinstance(value, float) and not math.isfinite(value))
    return '' if missing else f'{value:.7g}' if isinstance(value, float) else value
