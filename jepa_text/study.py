"""Several runs on the same rows, one after the other, and a comparison of them.

workdir/
  rows/          prepared once, read by all
  <run>/         one training run each: config, checkpoints, metrics
  results.json   every number and prediction of the report
  report.html
"""

import json
import os
import time
from pathlib import Path

import jax

from jepa_text import (
    load,
    paths,
    recipe,
    resolve,
    sharding,
    study_report,
    tokenizers,
    train,
)
from jepa_text.analysis import analyse
from jepa_text.data import pipeline, prepare
from jepa_text.evals import geometry as shapes
from jepa_text.evals import heldout, representation
from jepa_text.planning import baseline
from jepa_text.running import exits, restore, xla_flags

UNTRAINED = 'untrained'


def study(config, workdir):
    """Prepares rows, trains every run of `config.runs`, evaluates them, and reports.

    Returns the results. What is done already is not done again: the same call resumes,
    or only says that all is complete.
    """
    xla_flags.mend()
    began = time.monotonic()
    with exits.refusals():
        config, workdir = recipe.plain(config), Path(paths.local('The workdir', workdir))
        prepare.run(config, workdir / 'rows')
        # Now: what does not exist is not to be found out after training.
        made = _probes(config, workdir / 'rows')
        configs = {
            name: baseline.matched(run_config, workdir / name)
            for name, run_config in run_configs(config, workdir / 'rows').items()
        }
    for name, run_config in configs.items():
        if finished(workdir / name, run_config):
            print(f'{name}: complete, {recipe.size(run_config)[1]:,} steps')
        else:
            train.train(run_config, workdir / name)
    results = _once(
        workdir / 'results.json', config, lambda: evaluate(config, workdir, *made)
    )
    path = study_report.write(workdir, results, configs)
    study_report.show(results)
    print(f'\n{path}  (this call: {time.monotonic() - began:.0f} s)')
    return results


def run_configs(config, rows):
    """{name: config of that run}: the shared keys, overridden by the run's own."""
    shared = {k: v for k, v in config.items() if k not in ('runs', 'prepare', 'study')}
    return {
        own['name']: {
            **shared,
            **own,
            'data': {**shared['data'], 'folder': os.path.abspath(rows)},
        }
        for own in config['runs']
    }


def finished(workdir, config):
    """Has this very run taken its last step already?"""
    path = Path(workdir) / 'config.json'
    if not path.is_file() or json.loads(path.read_text()) != config:
        return False
    newest = restore.newest_good_step(Path(workdir) / 'checkpoints')
    return newest == recipe.size(config)[1]


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
    section = config['study']
    rows = pipeline.Rows(workdir / 'rows', 'heldout')
    names = [run['name'] for run in config['runs']]
    models = {UNTRAINED: load.untrained(workdir / names[0])}
    models |= {name: load.load(workdir / name) for name in names}
    mesh = sharding.make_mesh(devices=jax.devices()[:1])
    first = models[UNTRAINED]
    results = {'models': {}, 'predictions': [], 'no_probe': missing}
    results['probes'] = {one.name: representation.described(one) for one in probes}
    seeds = analyse.named([str(workdir / name) for name in names])
    results['recipes'] = {name: seeds[str(workdir / name)] for name in names}
    evaluators = {}
    for name, model in models.items():
        print(f'evaluating {name}')
        # As its last objective says; models that are scored alike share what is compiled.
        key = json.dumps(heldout.scorings([model.network]))
        if key not in evaluators:
            evaluators[key] = heldout.Evaluator(
                [model.network], rows, model.tokenizer, mesh, batch_size=64
            )
        results['models'][name] = {
            **evaluators[key].run(model.params, model.network),
            **representation.run(model, probes),
            **shapes.Evaluator(model.network, rows, mesh, batch_size=64).run(
                model.params
            ),
        }
    special_ids = first.tokenizer.special_ids
    results['unigram'] = heldout.unigram_entropy(rows, special_ids, len(rows))
    results['heldout_tokens'] = rows.manifest['splits']['heldout']['tokens']
    for text, answer in section['sentences']:
        able = [name for name in names if 'lm_head' in models[name].params]
        answers = {name: models[name].fill(text)[0] for name in able}
        results['predictions'].append({'text': text, 'answer': answer, 'models': answers})
    return results


def _once(path, config, compute):
    """The results of this config, from the file if they are there."""
    if path.is_file():
        saved = json.loads(path.read_text())
        if saved['config'] == config:
            return saved['results']
    results = compute()
    temporary = path.with_suffix('.tmp')
    temporary.write_text(json.dumps({'config': config, 'results': results}, indent=1))
    temporary.replace(path)
    return results
