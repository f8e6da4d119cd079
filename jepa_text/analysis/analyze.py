"""`jepa-text analyze`: measures the representations of models, with controls.

workdir/
  analysis.json   config, all values and tests
  analysis.html   the report
  features/       cached vectors

All values are measured on texts that no probe was trained on. Each model is compared with
its controls (controls.py). Measures of the last layer have an interval over texts; models
with several training seeds, such as runs/a-0 and runs/a-1, also one over seeds.
"""

import contextlib
import dataclasses
import json
import os
import re
import time
from pathlib import Path

import jax

from jepa_text import engine
from jepa_text.analysis import features, findings, measuring, page
from jepa_text.engine import Options
from jepa_text.evaluation import controls, examiner, finetune, tasks
from jepa_text.evaluation.config import check_given
from jepa_text.evaluation.results import result_files
from jepa_text.evaluation.sets.task import check_classes, check_names, classes
from jepa_text.files import atomic, checksums, paths
from jepa_text.models import pooling
from jepa_text.pretrained import load, prediction, saved
from jepa_text.report import progress
from jepa_text.running import compilation, places, xla_flags
from jepa_text.settings import schema
from jepa_text.settings.schema import field

# Config keys that do not change what a run learns, and its seed.
NOT_LEARNED = (
    *('name', 'seed', 'checkpoint', 'evaluate', 'geometry'),
    *('log_every_steps', 'mesh', 'profile_steps', 'telemetry', 'watchdog'),
)
ANALYZED = ('labels', 'scores', 'texts')  # supported kinds of tasks
MIN_TEST = 8  # different test examples; correlations and ranks need at least this many


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The config of an analysis."""

    seed: int = field(0, 'seed of all sampling', minimum=0)
    models: tuple[str, ...] = field(
        doc="'small', runs, folders of finetune or save, or 'hf:' and a name or folder"
    )
    tasks: tuple[dict, ...] = field(
        doc="tasks of jepa_text/evaluation/tasks, such as dict(name='bundled')"
    )
    layers: tuple[int, ...] = field(
        (), 'layers to measure; all if empty; 0 is the embedding, -1 the last'
    )
    poolings: tuple[str, ...] = field(
        ('mean', 'max', 'cls', 'last4'),
        'poolings of tokens; probes of every layer use the first',
    )
    train: int = field(1500, 'training examples of probes, sampled by seed', minimum=2)
    test: int = field(1000, 'test examples of all measures', minimum=MIN_TEST)
    max_length: int = field(0, "tokens per row; 0: the model's maximum", minimum=0)
    half_samples: int = field(
        16,
        'random half-samples of the test texts for intervals; 0 for no intervals',
        minimum=0,
    )
    controls: tuple[str, ...] = field(
        ('untrained', 'bag of embeddings', 'TF-IDF'),
        'controls to measure',
        choices=tuple(controls.CONTROLS),
    )
    threads: int = field(0, 'threads that measure; 0 for the number of cores', minimum=0)
    engine: Options = schema.field({}, 'where vectors of models are computed')

    def __post_init__(self):
        check_given('analyze', models=self.models, tasks=self.tasks)
        if self.half_samples == 1:
            raise ValueError(
                'half_samples=1 has no standard deviation. Use 16, or 0 for no intervals.'
            )


def analyze(config, workdir):
    """Runs an analysis, with vectors from its cache if present, and returns its results.

    Raises ValueError or FileNotFoundError for invalid settings before it loads a model.
    """
    xla_flags.apply()
    folder = Path(paths.local('The workdir', workdir)).absolute()
    began, config = time.monotonic(), _checked(config)
    compilation.use_cache()
    for path in config['models']:
        # Raises if there is no model, or one without these layers, or that does not read
        # as many tokens.
        model = load.outline(path)
        depth = model.network.encoder.depth
        features.combinations(depth, config['layers'] or None, config['poolings'])
        if config['max_length']:
            prediction.reader(model, config['max_length'])
    chosen = _tasks(config)
    names = run_names(config['models'])
    options = schema.read(Options, config['engine'], 'engine')
    with contextlib.ExitStack() as stack:
        run = stack.enter_context(engine.opened(options, folder))
        cache = str(folder / 'features')
        if not options.is_in_process:
            _encode_elsewhere(config, names, cache, run)
        stack.enter_context(measuring.one_blas_thread())
        costs = measuring.costs(config, len(names), len(chosen))
        parts = sum(count for count, _ in costs)
        bar = stack.enter_context(progress.Progress('analyze', parts, 0, costs))
        measured, facts = measuring.Measurements(config, chosen, cache, bar), {}
        for path, (name, seed) in names.items():
            bar.log(f'{name}{f" seed {seed}" if seed else ""}: {path}')
            model = _model(config, path)
            size = sum(leaf.size for leaf in jax.tree.leaves(model.params))
            facts[path] = {'parameters': size, **load.trained(path)}
            measured.model(model, name, seed)
        measured.tf_idf()
        maps = measured.similarity()
        with measuring.part(bar, 'comparison'):
            compared = findings.compare(
                measured.rows, measured.deviations, measured.per_example
            )
    results = {
        'config': config,
        'models': {path: list(pair) for path, pair in names.items()},
        'facts': facts,
        'tasks': [_summary(task) for task in chosen],
        'cuts': [cut._asdict() for cut in measured.cuts],
        'texts': {t.name: len(t.test.texts()) for t in chosen},
        'rows': measured.rows + findings.over_seeds(measured.rows),
        'spectra': measured.spectra,
        'similarity': maps,
        **compared,
        'seconds': round(time.monotonic() - began, 1),
    }
    write(folder, results)
    page.show(results)
    print(f'\n{folder}/analysis.html  ({results["seconds"]:.0f} s)')
    return results


def _model(config, path):
    model = load.load(path)
    return dataclasses.replace(model, length=config['max_length'] or model.length)


def _encode_elsewhere(config, names, cache, run):
    """Fills the cache by tasks of an engine, one for each model.

    Raises the error of the first that failed.
    """
    function = f'{__name__}.{encode.__name__}'
    tasks = [
        engine.Task(f'vectors of {path}', function, [config, path, seed, cache])
        for path, (_, seed) in names.items()
    ]
    for outcome in run(tasks).values():
        if outcome.error:
            raise outcome.error


def encode(config, path, seed, cache):
    """Caches the vectors of a model and of its untrained control on all tasks."""
    xla_flags.apply()
    compilation.use_cache()
    model = _model(config, path)
    models = [model]
    if controls.UNTRAINED in config['controls']:
        models.append(measuring.untrained(config, model, seed))
    for task in _tasks(config):
        for one in models:
            measuring.vectors(config, one, task, cache)


def _saved_config(path):
    """The config of a run; empty if it has none. Other saved models are no seeds."""
    folder = places.model_folder('models', path)
    if saved.is_saved(folder):
        return {'weights': saved.outline(folder)[1]['sha256']}
    file = folder / 'config.json'
    return checksums.read_json(file) if file.is_file() else {}


def run_names(paths, stem_of=None):
    """{path: (name, seed)}. Runs whose folders differ only in a final number are seeds of
    the same name, if their configs differ only in seeds; copies of one run are not. So
    are members of a study, as mlm/seed_0.

    If folders in different places have the same name, models have their paths as names,
    without the folders that all have in common.

    >>> run_names(['runs/a-0', 'runs/a-1', 'runs/b-2'])
    {'runs/a-0': ('a', 0), 'runs/a-1': ('a', 1), 'runs/b-2': ('b-2', 0)}
    """
    stems = {path: (stem_of or _stem)(path) for path in paths}
    groups = {}
    for path, stem in stems.items():
        part = re.fullmatch(r'(.+?)(?:[-_](?:seed)?|/seed_)(\d+)', stem)
        # Another model may have the name that they would share.
        if part and not path.startswith('hf:') and part[1] not in stems.values():
            groups.setdefault(part[1], {})[path] = part[2]
    names = {path: (stem, 0) for path, stem in stems.items()}
    for base, numbers in groups.items():
        configs = [({'seed': n} | _saved_config(p), n) for p, n in numbers.items()]
        runs = {(_recipe(config, ''), config['seed']) for config, _ in configs}
        if len({_recipe(*one) for one in configs}) == 1 < len(runs) == len(numbers):
            names |= {path: (base, int(number)) for path, number in numbers.items()}
    if len(set(names.values())) < len(names):
        if stem_of:
            return {path: (path, 0) for path in paths}
        common = len(os.path.commonprefix([path.split('/') for path in paths]))
        return run_names(paths, lambda path: path.split('/', common)[-1])
    return names


def _recipe(config, number):
    """A config as text, without its seed and the `number` of the folder of its run."""
    # Paths, such as init_from or data.folder, may also end in the seed.
    suffix = re.compile(rf'[-_](seed)?({number}|{config["seed"]})$')

    def without_seed(value):
        if isinstance(value, dict):
            return {key: without_seed(item) for key, item in value.items()}
        return suffix.sub('', value) if isinstance(value, str) else value

    learned = {key: value for key, value in config.items() if key not in NOT_LEARNED}
    return json.dumps(without_seed(learned), sort_keys=True)


def write(folder, results):
    """Writes analysis.json and analysis.html."""
    text = json.dumps(result_files.plain(results), indent=1, allow_nan=False)
    atomic.write(folder / 'analysis.json', text)
    page.write(folder / 'analysis.html', results)


def _checked(config):
    """The config as plain values with all defaults. Raises ValueError for invalid
    settings."""
    config = schema.resolved(Config, schema.plain(config))
    for path in config['models']:
        if config['models'].count(path) > 1:
            raise ValueError(f'models={config["models"]} contains {path} twice.')
    features.combinations(1, None, config['poolings'])
    if not config['poolings'] or pooling.base(config['poolings'][0]) == 'last4':
        raise ValueError(
            f'poolings={config["poolings"]}: the first pooling is used in every layer, '
            "so it must be one that every layer has, such as 'mean'."
        )
    return config


def _tasks(config):
    """The sampled tasks. Raises ValueError for a task with too few examples or classes,
    and for duplicate names."""
    made, seed = [], config['seed']
    for section in config['tasks']:
        task = tasks.build(section)
        check_kind(task)
        if shared := examiner.said_of_shared(task):
            print(shared)
        drawn = {k: getattr(task, k).draw(config[k], seed) for k in ('train', 'test')}
        task = dataclasses.replace(task, **drawn)
        if task.kind == 'scores':
            finetune.check_scores(task)
        if (few := min(len(task.test), len(set(task.test.texts())))) < MIN_TEST:
            raise ValueError(
                f'{task.name} has {few} different test examples, but at least '
                f'{MIN_TEST} are needed.'
            )
        if task.kind == 'labels':
            check_classes(task)
        made.append(task)
    check_names(made)
    return made


def check_kind(task):
    """Raises ValueError for an unsupported kind of task."""
    is_scores = task.kind == 'scores'
    if task.kind not in ANALYZED or (is_scores and task.test.second is None):
        what = 'scores of single texts' if is_scores else task.kind
        raise ValueError(
            f'{task.name} has {what}, which the analysis does not support: it supports '
            'labels of texts or pairs, scores of pairs, and unlabeled texts. Remove the '
            'task.'
        )


def _stem(path):
    parts = [part for part in path.removeprefix('hf:').rstrip('/').split('/') if part]
    if len(parts) > 1 and parts[-1] in ('model', 'checkpoint', 'weights'):
        return parts[-2]
    # A member of a study is named after its run.
    return '/'.join(parts[-2:]) if re.fullmatch(r'seed_\d+', parts[-1]) else parts[-1]


def _summary(task):
    fields = {key: getattr(task, key) for key in ('name', 'kind', 'metric')}
    present = ()
    if task.kind == 'labels':
        labels = set(map(str, task.test.target))
        present = [name for name in map(str, classes(task)) if name in labels]
    sizes = {'train': len(task.train), 'test': len(task.test)}
    return {**fields, **sizes, 'classes': list(present)}
