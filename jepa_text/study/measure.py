"""What a study measures of its members, kept as soon as it is done.

workdir/evaluated/<member>.json   what is asked of which checkpoint, the answer, checksum
"""

import functools
import hashlib
import json

import jax

from jepa_text import load
from jepa_text.analysis import analyze
from jepa_text.config import resolve
from jepa_text.data import pipeline, tokenizers
from jepa_text.evaluation import representation
from jepa_text.files import checksums, kept
from jepa_text.parallel import sharding
from jepa_text.running import restore
from jepa_text.study import members
from jepa_text.training.evals import geometry as shapes
from jepa_text.training.evals import heldout, token_counts


def probes(config, rows):
    """([Probe], {name: why there is none}) of the corpus of the rows."""
    source, section = config['prepare']['source'], config['study']
    return representation.make(
        lambda split: resolve.build('data/sources', source, split=split),
        section['tasks'],
        section['label'],
        tokenizers.load(rows / 'tokenizer.json'),
        config['data']['row_length'],
    )


def evaluate(config, workdir, fingerprints, probes, missing):
    """Held-out losses, representation and predictions, untrained and of each member of
    `fingerprints`, as members.enroll gives them.

    {'unigram': nats, 'models': {name: {metric: value}}, 'probes': {name: counts, split,
    controls}, 'no_probe': {name: why}, 'recipes': {member: (recipe, seed)},
    'predictions': [...]}
    """
    rows = pipeline.Rows(workdir / 'rows', 'heldout')
    tokenizer = tokenizers.load(workdir / 'rows' / 'tokenizer.json')
    mesh = sharding.make_mesh(devices=jax.devices()[:1])
    results = {
        'models': {},
        'predictions': [],
        'no_probe': missing,
        'probes': {one.name: representation.described(one) for one in probes},
        'recipes': _recipes(workdir, fingerprints),
        'unigram': token_counts.unigram_entropy(rows, tokenizer.special_ids, len(rows)),
        'heldout_tokens': rows.manifest['splits']['heldout']['tokens'],
    }
    measure = _Measure(rows, mesh, probes, config['study']['sentences'])
    found, first = {}, next(iter(fingerprints))
    for name in (members.UNTRAINED, *fingerprints):
        of = fingerprints.get(name, fingerprints[first])
        # A failure later, or a kill, loses nothing of it.
        found[name] = kept.once(
            members.result_path(workdir, name),
            question(config, workdir, name, of),
            functools.partial(measure.model, workdir, name, first),
        )
        results['models'][name] = found[name]['values']
    for number, (text, answer) in enumerate(config['study']['sentences']):
        answers = {name: found[name]['answers'] for name in fingerprints}
        answers = {name: given[number] for name, given in answers.items() if given}
        results['predictions'].append({'text': text, 'answer': answer, 'models': answers})
    return results


def question(config, workdir, name, fingerprint):
    """What the measurements of a member depend on: its config, what is measured, on which
    rows, and its parameters.

    Raises ValueError where the parameters are gone, and what was measured of them does
    not answer it.
    """
    rows = pipeline.Rows(workdir / 'rows', 'heldout').fingerprint
    asked = {'study': config['study'], 'rows': rows, 'run': fingerprint}
    if name == members.UNTRAINED:
        return asked
    folder = workdir / name / 'checkpoints'
    step = restore.newest_good_step(folder)
    if step is not None:
        text = (folder / str(step) / checksums.NAME).read_text(encoding='utf-8')
        return {**asked, 'checkpoint': hashlib.sha256(text.encode()).hexdigest()}
    path = members.result_path(workdir, name)
    known = (kept.read(path) or {'config': {}})['config']
    if {**known, **asked} != known:
        raise ValueError(
            f'{folder} holds no good checkpoint, and {path} does not answer what the '
            f'study asks now. Bring the checkpoints back, or move {workdir / name} and '
            f'{path} away: the run is trained again then.'
        )
    return known


def is_known(config, workdir, name, fingerprint):
    """Is a member without any checkpoint measured already, so that none is needed?

    Raises ValueError where it was measured, but otherwise.
    """
    if restore.steps(workdir / name / 'checkpoints'):
        return False
    if not members.result_path(workdir, name).is_file():
        return False
    question(config, workdir, name, fingerprint)
    return True


def _recipes(workdir, names):
    """{member: (recipe, seed)}, by its name, or by the folders of runs without seeds."""
    found = {name: members.recipe_of(name) for name in names}
    alone = {str(workdir / name): name for name in names if not found[name]}
    named = analyze.named(list(alone))
    return found | {name: named[path] for path, name in alone.items()}


class _Measure:
    """What is measured of each model; those that are scored alike share a program."""

    def __init__(self, rows, mesh, probes, sentences):
        self._rows, self._mesh = rows, mesh
        self._probes, self._sentences = probes, sentences
        self._evaluators = {}

    def model(self, workdir, name, first):
        """{'values': {metric: value}, 'answers': of each sentence, or none}.

        The untrained model is that of the `first` member.
        """
        print(f'evaluating {name}')
        if name == members.UNTRAINED:
            model = load.untrained(workdir / first)
        else:
            model = load.load(workdir / name)
        shape = shapes.Evaluator(model.network, self._rows, self._mesh, batch_size=64)
        values = {
            **self._scored(model).run(model.params, model.network),
            **representation.run(model, self._probes),
            **shape.run(model.params),
        }
        able = name != members.UNTRAINED and 'lm_head' in model.params
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
