"""Several runs on the same rows, one after the other, and a comparison of them.

workdir/
  rows/          prepared once, read by all
  <run>/         one training run each: config, checkpoints, metrics
  evaluated/     what was measured of each model, kept as soon as it is done
  results.json   every number and prediction of the report
  report.html
"""

import dataclasses
import functools
import hashlib
import json
import os
import time
from pathlib import Path

import jax

from jepa_text import load
from jepa_text.analysis import analyze
from jepa_text.config import resolve, schema
from jepa_text.data import pipeline, tokenizers
from jepa_text.data import prepare as prepared
from jepa_text.evaluation import representation
from jepa_text.evaluation.beside import EVALUATIONS
from jepa_text.files import checksums, kept, paths
from jepa_text.parallel import exits, sharding
from jepa_text.running import restore, signals, xla_flags
from jepa_text.study import report
from jepa_text.training import assemble, prepare, settle, switches, train
from jepa_text.training import config as settings
from jepa_text.training.evals import geometry as shapes
from jepa_text.training.evals import heldout, token_counts

UNTRAINED = 'untrained'
EVALUATED = 'evaluated'
# What a run cannot be called, as something else in the workdir is.
TAKEN = (UNTRAINED, EVALUATED, 'rows', 'results.json', 'report.html')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """The section `study`: what is measured of each run."""

    tasks: tuple[str, ...] = schema.field(
        representation.TASKS, 'sets of sentences: evaluation/tasks/sentences.py'
    )
    label: str = schema.field('', 'a field of the documents for a probe')
    sentences: tuple[tuple, ...] = schema.field((), '(text with one <mask>, the answer)')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(settings.Shared):
    """The config of a study: what its runs share, and what each has of its own."""

    prepare: prepared.Config = schema.field(doc='text to rows')
    runs: tuple[dict, ...] = schema.field(doc='a name, phases, and keys of its own, each')
    study: Measured = schema.section(Measured, 'what is measured of each run')


def plain(config):
    """The config of a study as plain dicts, with all defaults."""
    config = schema.plain(config)
    if not config.get('runs'):
        raise ValueError(
            'A study needs `runs`, as configs/quickstart.py has them; this config has '
            'none. A single run is for the command train.'
        )
    return schema.resolved(Config, config)


def study(config, workdir):
    """Prepares rows, trains every run of `config.runs`, evaluates them, and reports.

    Returns the results. What is done already is not done again: the same call resumes,
    or only says that all is complete.
    """
    xla_flags.mend()
    began = time.monotonic()
    with exits.refusals():
        config, workdir = plain(config), Path(paths.local('The workdir', workdir))
        _check_names(config)
        prepare.run(config, workdir / 'rows')
        # Now: what does not exist is not to be found out after training.
        made = _probes(config, workdir / 'rows')
        configs = {
            name: settle.matched(run_config, workdir / name)
            for name, run_config in run_configs(config, workdir / 'rows').items()
        }
        _check(config, configs, workdir)
    _train(configs, workdir)
    results = kept.once(
        workdir / 'results.json', config, lambda: evaluate(config, workdir, *made)
    )
    path = report.write(workdir, results, configs)
    report.show(results)
    print(f'\n{path}  (this call: {time.monotonic() - began:.0f} s)')
    return results


def _train(configs, workdir):
    """Trains the runs that are not finished. Raises exits.Stopped after a signal, also
    one that came in the last step of a run, which then needs no save."""
    with signals.Requests() as stop:
        for name, run_config in configs.items():
            if finished(workdir / name, run_config):
                print(f'{name}: complete, {assemble.size(run_config)[1]:,} steps')
            else:
                train.train(run_config, workdir / name, EVALUATIONS, stop=stop)
            if stop.asked:
                raise exits.Stopped(
                    f'stopped after run {name!r} as asked; all is saved, and the same '
                    'command goes on from there.'
                )


def run_configs(config, rows):
    """{name: config of that run}: the shared keys, overridden by the run's own."""
    at = {**config['data'], 'folder': os.path.abspath(rows)}
    shared = {key: x for key, x in config.items() if key != 'prepare'}
    own = [{**run, 'data': at} for run in config['runs']]
    return settings.of_runs({**shared, 'runs': own})


def _check_names(config):
    """Raises ValueError unless the names of the runs can be folders here."""
    names = [run.get('name') for run in config['runs']]
    for name in names:
        wrong = not isinstance(name, str) or not name or '/' in name or name in TAKEN
        if wrong or names.count(name) > 1:
            raise ValueError(
                f'runs: {name!r} is no name for a run: it must be text without a slash, '
                f'of one run only, and none of {", ".join(TAKEN)}.'
            )


def _check(config, configs, workdir):
    """Raises ValueError for a run or a sentence that would fail after others trained."""
    tokenizer = tokenizers.load(workdir / 'rows' / 'tokenizer.json')
    for item in config['study']['sentences']:
        if len(item) != 2 or item[0].count('<mask>') != 1:
            raise ValueError(
                f'study.sentences: {item!r} is not (a text with one <mask>, the answer).'
            )
        maximum = config['data']['row_length'] - 2
        if (found := len(tokenizer.encode_masked(item[0]))) > maximum:
            raise ValueError(
                f'study.sentences: {item[0]!r} has {found} tokens, but the runs read '
                f'{maximum}: shorten it, or raise data.row_length.'
            )
    for name, run_config in configs.items():
        try:
            whole = settle.completed(run_config, workdir / name)
            switches.check(assemble.make(whole, EVALUATIONS))
        except ValueError as error:
            raise ValueError(f'run {name!r}: {error}') from error


def finished(workdir, config):
    """Has this very run taken its last step already?"""
    path = Path(workdir) / 'config.json'
    if not path.is_file():
        return False
    if checksums.read_json(path) != settle.extended(config, workdir):
        return False
    newest = restore.newest_good_step(Path(workdir) / 'checkpoints')
    return newest == assemble.size(config)[1]


def _probes(config, rows):
    """([Probe], {name: why there is none}) of the corpus of the rows."""
    source, section = config['prepare']['source'], config['study']
    return representation.make(
        lambda split: resolve.build('data/sources', source, split=split),
        section['tasks'],
        section['label'],
        tokenizers.load(rows / 'tokenizer.json'),
        config['data']['row_length'],
    )


def evaluate(config, workdir, probes, missing):
    """Held-out losses, representation and predictions, untrained and of each run.

    {'unigram': nats, 'models': {name: {metric: value}}, 'probes': {name: counts, split,
    controls}, 'no_probe': {name: why}, 'recipes': {run: (recipe, seed)},
    'predictions': [...]}
    """
    rows = pipeline.Rows(workdir / 'rows', 'heldout')
    tokenizer = tokenizers.load(workdir / 'rows' / 'tokenizer.json')
    names = [run['name'] for run in config['runs']]
    mesh = sharding.make_mesh(devices=jax.devices()[:1])
    seeds = analyze.named([str(workdir / name) for name in names])
    results = {
        'models': {},
        'predictions': [],
        'no_probe': missing,
        'probes': {one.name: representation.described(one) for one in probes},
        'recipes': {name: seeds[str(workdir / name)] for name in names},
        'unigram': token_counts.unigram_entropy(rows, tokenizer.special_ids, len(rows)),
        'heldout_tokens': rows.manifest['splits']['heldout']['tokens'],
    }
    measure = _Measure(rows, mesh, probes, config['study']['sentences'])
    found = {}
    for name in (UNTRAINED, *names):
        # A failure later, or a kill, loses nothing of it.
        found[name] = kept.once(
            workdir / EVALUATED / f'{name}.json',
            _question(config, workdir, name),
            functools.partial(measure.model, workdir, name, names[0]),
        )
        results['models'][name] = found[name]['values']
    for number, (text, answer) in enumerate(config['study']['sentences']):
        answers = {name: found[name]['answers'] for name in names}
        answers = {name: given[number] for name, given in answers.items() if given}
        results['predictions'].append({'text': text, 'answer': answer, 'models': answers})
    return results


def _question(config, workdir, name):
    """What the measurements of a model depend on: the config, and its parameters."""
    shared = {key: value for key, value in config.items() if key != 'runs'}
    own = [run for run in config['runs'] if name in (UNTRAINED, run['name'])][:1]
    question = {'config': shared, 'run': own}
    if name != UNTRAINED:
        folder = workdir / name / 'checkpoints'
        step = restore.newest_good_step(folder)
        text = (folder / str(step) / checksums.NAME).read_text(encoding='utf-8')
        question['checkpoint'] = hashlib.sha256(text.encode()).hexdigest()
    return question


class _Measure:
    """What is measured of each model; those that are scored alike share a program."""

    def __init__(self, rows, mesh, probes, sentences):
        self._rows, self._mesh = rows, mesh
        self._probes, self._sentences = probes, sentences
        self._evaluators = {}

    def model(self, workdir, name, first):
        """{'values': {metric: value}, 'answers': of each sentence, or none}.

        The untrained model is that of the `first` run.
        """
        print(f'evaluating {name}')
        if name == UNTRAINED:
            model = load.untrained(workdir / first)
        else:
            model = load.load(workdir / name)
        shape = shapes.Evaluator(model.network, self._rows, self._mesh, batch_size=64)
        values = {
            **self._scored(model).run(model.params, model.network),
            **representation.run(model, self._probes),
            **shape.run(model.params),
        }
        able = name != UNTRAINED and 'lm_head' in model.params
        texts = [text for text, _ in self._sentences] if able else []
        return {'values': values, 'answers': [model.fill(text)[0] for text in texts]}

    def _scored(self, model):
        # As its last objective says.
        key = json.dumps(heldout.scorings([model.network]))
        if key not in self._evaluators:
            self._evaluators[key] = heldout.Evaluator(
                [model.network], self._rows, model.tokenizer, self._mesh, batch_size=64
            )
        return self._evaluators[key]
