"""`analyze(config, workdir)`: models x layers x poolings x tasks -> values one can trust.

workdir/
  analysis.json   what was analyzed, every value, tests and warnings
  analysis.csv    the values, one a row
  analysis.html   the page
  features/       vectors, computed once (or the folder that config.cache names)

Values are of texts that no probe learned from. Beside each model stand its controls
(controls.py) and, for the measures of the last layer, an interval over sentences; with
several training seeds of one name, as runs/a-0 and runs/a-1, also over these.
"""

import csv
import dataclasses
import io
import json
import math
import re
import time

from jepa_text import load
from jepa_text.analysis import features, findings, measuring, monitor, page
from jepa_text.config import schema
from jepa_text.config.schema import field
from jepa_text.evaluation import controls, tasks
from jepa_text.evaluation.sets import task as examples
from jepa_text.files import addresses, atomic, checksums, paths
from jepa_text.report import console
from jepa_text.running import compilation, download, mirror, xla_flags

COLUMNS = (
    *('task', 'model', 'seed', 'control', 'layer', 'pooling', 'form', 'metric'),
    *('value', 'low', 'high', 'count', 'other'),
)
# Keys of a run that do not change what is learned, and its seed.
NOT_LEARNED = (
    *('name', 'seed', 'checkpoint', 'compilation_cache', 'evaluate', 'geometry'),
    *('log_every', 'mesh', 'profile_steps', 'telemetry', 'watchdog'),
)
ANALYZED = ('labels', 'scores', 'texts')  # kinds of tasks
MIN_TEST = 8  # examples, without which there is nothing to correlate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The config of an analysis."""

    name: str = field('analysis', 'of the page')
    seed: int = field(0, 'of what is drawn', minimum=0)
    models: tuple[str, ...] = field(
        doc="workdirs of runs, and 'hf:' with a name or folder"
    )
    tasks: tuple[dict, ...] = field(
        doc="files of jepa_text/evaluation/tasks, as dict(name='bundled')"
    )
    layers: tuple[int, ...] = field((), 'all; 0 is the embedding, -1 the last')
    poolings: tuple[str, ...] = field(
        ('mean', 'max', 'cls', 'last4', 'attention'),
        'of tokens; the first is measured in every layer',
    )
    train: int = field(1500, 'examples that probes learn from; drawn by seed', minimum=2)
    test: int = field(1000, 'examples that all is measured on', minimum=MIN_TEST)
    half_samples: int = field(
        16,
        'random half-samples of the test texts behind intervals; 0: no intervals',
        minimum=0,
    )
    controls: tuple[str, ...] = field(
        ('untrained', 'bag of embeddings', 'TF-IDF'),
        'what else is measured',
        choices=tuple(controls.CONTROLS),
    )
    cache: str = field(
        '',
        "of features: a folder; '': in a workdir of here; 'private': of the user",
    )
    threads: int = field(0, 'that compute; 0: as many as there are cores', minimum=0)
    compilation_cache: str = compilation.choice()

    def __post_init__(self):
        if not self.models or not self.tasks:
            raise ValueError(
                'analyze needs models and tasks: '
                '--config=configs/analyze.py:models=runs/a,hf:NAME,tasks=bundled'
            )
        if self.half_samples == 1:
            raise ValueError(
                'half_samples=1: one has no standard deviation. Take 16, or 0 for no '
                'intervals.'
            )


def analyze(config, workdir):
    """Runs, or reads from its cache, an analysis; returns its results.

    Raises ValueError and FileNotFoundError, before any model is read, for tasks that
    cannot be made and settings that do not exist.
    """
    xla_flags.mend()
    with mirror.opened(workdir) as place:
        return _analyze(config, place)


def _analyze(config, place):
    config, began = _checked(config), time.monotonic()
    compilation.use_cache(config['compilation_cache'])
    chosen = _tasks(config)
    names, folder = named(config['models']), place.folder
    folder.mkdir(parents=True, exist_ok=True)
    place.begin()
    # Large, and made again where it is gone: it stays on this machine.
    usual = (
        compilation.PRIVATE if addresses.is_address(place.name) else folder / 'features'
    )
    cache = config['cache'] or usual
    cache = compilation.private_folder(str(cache), 'features', 'cache')
    progress = console.Progress('analysis', monitor.parts(config, chosen))
    with monitor.one_thread_each(), progress:
        tell = monitor.Telling(progress)
        found = measuring.Measured(config, chosen, cache, tell)
        for path, (name, seed) in names.items():
            tell.say(f'{name}{f" seed {seed}" if seed else ""}: {path}')
            found.model(load.load(path), name, seed)
        found.tf_idf()
        with tell.part('similarity of layers'):
            found.similarity()
        with tell.part('comparing'):
            compared = findings.compare(found.rows, found.deviations, found.single)
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
    print(f'\n{place.name}/analysis.html  ({results["seconds"]:.0f} s)')
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
    file = download.folder('models', path) / 'config.json'
    config = checksums.read_json(file) if file.is_file() else {}
    # What it starts from may be a run of the same seed, and its rows be named by that.
    own = re.compile(rf'[-_](seed)?({number}|{config.get("seed", number)})$')

    def plain(value):
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return own.sub('', value) if isinstance(value, str) else value

    kept = {key: value for key, value in config.items() if key not in NOT_LEARNED}
    return json.dumps(plain(kept), sort_keys=True)


def write(folder, results):
    """analysis.json, analysis.csv and analysis.html."""
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
    config = schema.resolved(Config, schema.plain(config))
    for path in config['models']:
        addresses.place('models', path, model=True)
        if config['models'].count(path) > 1:
            raise ValueError(f'models={config["models"]}: {path} is there twice.')
        if path.startswith(paths.MODEL):
            continue
        if not (download.folder('models', path) / 'config.json').is_file():
            raise FileNotFoundError(
                f'{path} holds no config.json, so no run of jepa-text. Give the '
                "--workdir of a training run, or 'hf:' and a folder or name."
            )
    features.combinations(1, None, config['poolings'])
    if not config['poolings'] or config['poolings'][0] in (*features.TRAINED, 'last4'):
        raise ValueError(
            f'poolings={config["poolings"]}: the first is measured in every layer and on '
            "every task, so it is one that needs no training, such as 'mean'."
        )
    return config


def _tasks(config):
    """The tasks, sampled; ValueError for one that has too little to be measured."""
    made = []
    for section in config['tasks']:
        task = tasks.build(section)
        check_kind(task)
        task = examples.sample(task, config['train'], config['test'], config['seed'])
        if len(task.test) < MIN_TEST:
            raise ValueError(
                f'{task.name} has {len(task.test)} test examples, but needs '
                f'{MIN_TEST}. Give more, or another task.'
            )
        labels = set(task.train.target.tolist()) if task.kind == 'labels' else ()
        if len(labels) == 1:
            raise ValueError(
                f'{task.name}: all {len(task.train)} training labels are '
                f'{labels.pop()!r}, but a probe needs two classes. Name another field, '
                'or raise `train`.'
            )
        if task.name in [other.name for other in made]:
            raise ValueError(
                f'Two tasks are called {task.name!r}, and their values would be one. '
                "Give one a `title`, as in dict(name='labeled', path='...', "
                "title='other'), or leave it out."
            )
        made.append(task)
    return made


def check_kind(task):
    """Raises ValueError for a task of a kind that is not analyzed."""
    kind = getattr(task, 'kind', 'retrieval')
    if kind not in ANALYZED or (kind == 'scores' and task.test.second is None):
        what = 'scores of single texts' if kind == 'scores' else kind
        raise ValueError(
            f'{task.name} has {what}, of which the analysis says nothing: it takes '
            'labels of texts or pairs, scores of pairs, and unlabeled texts. Leave the '
            'task out here.'
        )


def _stem(path):
    parts = [part for part in path.removeprefix('hf:').rstrip('/').split('/') if part]
    generic = len(parts) > 1 and parts[-1] in ('model', 'checkpoint', 'weights')
    return parts[-2] if generic else parts[-1]


def _described(task):
    made = {key: getattr(task, key) for key in ('name', 'kind', 'metric')}
    classes = set(task.test.target.tolist()) if task.kind == 'labels' else ()
    sizes = {'train': len(task.train), 'test': len(task.test)}
    return {**made, **sizes, 'classes': sorted(classes)}


def _is_missing(value):
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _for_json(value):
    """The same with None for what JSON has no number for."""
    if isinstance(value, dict):
        return {str(key): _for_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_for_json(item) for item in value]
    return None if _is_missing(value) else value


def _cell(value):
    """A value of the CSV: empty for what is not there."""
    if _is_missing(value):
        return ''
    return f'{value:.7g}' if isinstance(value, float) else value
