"""Measures the members of a study, and saves each result as soon as it exists.

workdir/evaluated/<member>.json   the question, which names the checkpoint; the answer; a
                                  checksum
"""

import jax

from jepa_text.data import pipeline, sources, tokenizers
from jepa_text.data.corpora import invalid_text
from jepa_text.evaluation import representation
from jepa_text.files import checksums
from jepa_text.parallel import sharding
from jepa_text.pretrained import load
from jepa_text.running import restore
from jepa_text.study import cached_result, members
from jepa_text.training import geometry, heldout

HELDOUT = 'heldout'


def split_of(section):
    """Returns the split that the section `study` measures."""
    return section.get('split') or HELDOUT


def probes(config, rows):
    """Returns ([Probe], {name: why there is no such probe}) of the corpus."""
    source, section = config['prepare']['source'], config['study']
    documents = sources.build(source, split_of(section))
    return representation.make(
        invalid_text.valid(documents, source['name']),
        section['tasks'],
        tokenizers.load(rows / 'tokenizer.json'),
        config['data']['row_length'],
    )


def question(config, workdir, name, fingerprint):
    """Returns what the measurements of a member depend on: its config, what is measured,
    on which rows, and its parameters.

    Raises ValueError if the parameters are missing and the saved result answers another
    question.
    """
    rows = pipeline.Rows(workdir / 'rows', split_of(config['study'])).fingerprint
    asked = {'study': config['study'], 'rows': rows, 'run': fingerprint}
    if name == members.UNTRAINED:
        return asked
    folder = workdir / name / 'checkpoints'
    if newest := restore.newest_good(folder):
        return {**asked, 'checkpoint': restore.identity(folder, newest[0])}
    path = members.result_path(workdir, name)
    saved = cached_result.read(path)
    known = (saved or {'config': {}})['config']
    if {**known, **asked} != known:
        problem = 'was made with other settings' if saved else 'is damaged'
        raise ValueError(
            f'{folder} has no good checkpoint, and {path} {problem}. Restore one of '
            f'them, or move {workdir / name} and {path} away to train the run again.'
        )
    return known


def is_known(config, workdir, name, fingerprint):
    """Whether a member without checkpoints has a result, so that it needs none; raises
    ValueError if it was measured with other settings."""
    if restore.steps(workdir / name / 'checkpoints'):
        return False
    if not members.result_path(workdir, name).is_file():
        return False
    question(config, workdir, name, fingerprint)
    return True


def is_measured(name, config, workdir, fingerprint):
    """Whether a member, or the untrained model, is measured with these settings."""
    path = members.result_path(workdir, name)
    asked = question(config, workdir, name, fingerprint)
    return cached_result.answer(path, asked) is not None


def once(name, config, workdir, fingerprint, first):
    """Measures a member unless its result is saved, and returns {metric: value}; for
    members.UNTRAINED, that is the model of the member `first` before any step."""
    return cached_result.get_or_compute(
        members.result_path(workdir, name),
        question(config, workdir, name, fingerprint),
        lambda: _measured(name, config, workdir, first),
    )


def results(config, workdir, configs, fingerprints):
    """Returns the results of measured members {name: config} and the untrained model.

    {'unigram': nats, 'models': {name: {metric: value}}, 'probes': {name: counts, split,
    controls}, 'no_probe': {name: reason}, 'recipes': {member: (recipe, seed)}}; saved in
    results.json.
    """
    sums = {
        name: checksums.checksum(question(config, workdir, name, fingerprints[name]))
        for name in (members.UNTRAINED, *configs)
    }
    return cached_result.get_or_compute(
        workdir / 'results.json',
        {'measured': sums},
        lambda: _collected(config, workdir, configs),
    )


def _collected(config, workdir, configs):
    rows = pipeline.Rows(workdir / 'rows', split_of(config['study']))
    tokenizer = tokenizers.load(workdir / 'rows' / 'tokenizer.json')
    measured = {
        name: cached_result.read(members.result_path(workdir, name))['results']
        for name in (members.UNTRAINED, *configs)
    }
    built, missing = probes(config, workdir / 'rows')
    return {
        'models': measured,
        'no_probe': missing,
        'probes': {one.name: representation.described(one) for one in built},
        'recipes': {name: members.recipe_of(name) for name in configs},
        'unigram': heldout.entropy(
            heldout.counts_of_rows(rows, tokenizer.special_ids, len(rows))
        ),
    }


def _measured(name, config, workdir, first):
    print(f'evaluating {name}')
    if name == members.UNTRAINED:
        model = load.untrained(workdir / first)
    else:
        model = load.load(workdir / name)
    rows = pipeline.Rows(workdir / 'rows', split_of(config['study']))
    mesh = sharding.make_mesh(devices=jax.devices()[:1])
    scored = heldout.Evaluator(
        [model.network], rows, model.tokenizer, mesh, batch_size=64
    )
    shape = geometry.Evaluator(rows, mesh, batch_size=64)
    return {
        **heldout.RunEvaluator([('', scored)], [scored], 0).run(
            model.params, model.network
        ),
        **representation.run(model, probes(config, workdir / 'rows')[0]),
        **shape.run(model.params, model.network),
        'geometry/dimensions': model.network.encoder.width,
    }
