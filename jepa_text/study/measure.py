"""Measures the members of a study, and saves each result as soon as it exists.

workdir/evaluated/<member>.json   the question, which names the checkpoint; the answer; a
                                  checksum
"""

import hashlib
import json

import jax

from jepa_text import load
from jepa_text.analysis import analyze
from jepa_text.config import resolve
from jepa_text.data import pipeline, tokenizers
from jepa_text.evaluation import representation
from jepa_text.files import cached_result, checksums
from jepa_text.parallel import sharding
from jepa_text.running import restore
from jepa_text.study import members
from jepa_text.training import geometry, heldout

HELDOUT = 'heldout'


def split_of(section):
    """Returns the split that the section `study` measures."""
    return section.get('split') or HELDOUT


def probes(config, rows):
    """Returns ([Probe], {name: why there is no such probe}) of the corpus."""
    source, section = config['prepare']['source'], config['study']
    measured = {HELDOUT: split_of(section)}
    return representation.make(
        lambda split: resolve.build(
            'data/sources', source, split=measured.get(split, split)
        ),
        section['tasks'],
        section['label'],
        tokenizers.load(rows / 'tokenizer.json'),
        config['data']['row_length'],
    )


def question(config, workdir, name, fingerprint):
    """Returns what the measurements of a member depend on.

    This is its config, what is measured, on which rows, and its parameters. Raises
    ValueError if the parameters are missing and the saved result answers another
    question.
    """
    rows = pipeline.Rows(workdir / 'rows', split_of(config['study'])).fingerprint
    asked = {'study': config['study'], 'rows': rows, 'run': fingerprint}
    if name == members.UNTRAINED:
        return asked
    folder = workdir / name / 'checkpoints'
    step = restore.newest_good_step(folder)
    if step is not None:
        text = (folder / str(step) / checksums.NAME).read_text(encoding='utf-8')
        return {**asked, 'checkpoint': hashlib.sha256(text.encode()).hexdigest()}
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
    """Whether a member without checkpoints has a result, so that it needs none.

    Raises ValueError if its result was measured with other settings.
    """
    if restore.steps(workdir / name / 'checkpoints'):
        return False
    if not members.result_path(workdir, name).is_file():
        return False
    question(config, workdir, name, fingerprint)
    return True


def recipes(configs):
    """Returns {member: (recipe, seed)} of {member: config}.

    Members without a seed in their name are seeds of one recipe as in analyze.run_names.
    """
    found = {name: members.recipe_of(name) for name in configs}
    alone = [name for name, pair in found.items() if not pair]
    return found | analyze.run_names(alone, configs.get)


class Measuring:
    """Measures members of a study, each once. Members scored alike share a program.

    `place` is as of shared_runs.opened; `fingerprints` are as of members.enroll; `probes`
    is the result of `probes`.
    """

    def __init__(self, config, place, fingerprints, probes):
        self._place, self._workdir = place, place.folder
        self._config, self._fingerprints = config, fingerprints
        self._probes, self._missing = probes
        self._split = split_of(config['study'])
        self._rows = pipeline.Rows(place.folder / 'rows', self._split)
        self._mesh = sharding.make_mesh(devices=jax.devices()[:1])
        self._evaluators = {}

    def is_known(self, name):
        """Whether a member, or the untrained model, is measured with these settings."""
        known = cached_result.read(members.result_path(self._workdir, name))
        return bool(known) and known['config'] == self._question(name)

    def questions(self, names):
        """Returns {name: checksum of what its measurements depend on}."""
        names = (members.UNTRAINED, *names)
        return {name: checksums.checksum(self._question(name)) for name in names}

    def once(self, name):
        """Measures a member, or the untrained model, unless its result is saved.

        Returns {'values': {metric: value}, 'answers': one per sentence, or empty}.
        """
        return cached_result.get_or_compute(
            members.result_path(self._workdir, name),
            self._question(name),
            lambda: self._measured(name),
        )

    def results(self, configs):
        """Returns the results of {member: config} and of the untrained model.

        {'unigram': nats, 'models': {name: {metric: value}}, 'probes': {name: counts,
        split, controls}, 'no_probe': {name: reason}, 'recipes': {member: (recipe, seed)},
        'predictions': [...]}
        """
        rows = self._rows
        tokenizer = tokenizers.load(self._workdir / 'rows' / 'tokenizer.json')
        found = {name: self.once(name) for name in (members.UNTRAINED, *configs)}
        predictions = []
        for number, (text, answer) in enumerate(self._sentences):
            answers = {name: found[name]['answers'] for name in configs}
            predicted = {name: own[number] for name, own in answers.items() if own}
            predictions.append({'text': text, 'answer': answer, 'models': predicted})
        return {
            'models': {name: one['values'] for name, one in found.items()},
            'predictions': predictions,
            'no_probe': self._missing,
            'probes': {one.name: representation.described(one) for one in self._probes},
            'recipes': recipes(configs),
            'unigram': heldout.unigram_entropy(rows, tokenizer.special_ids, len(rows)),
            'heldout_tokens': rows.manifest['splits'][self._split]['tokens'],
        }

    @property
    def _first(self):
        return next(iter(self._fingerprints))

    @property
    def _sentences(self):
        return self._config['study']['sentences']

    def _question(self, name):
        # The untrained model is that of the first member.
        fingerprint = self._fingerprints.get(name, self._fingerprints[self._first])
        return question(self._config, self._workdir, name, fingerprint)

    def _measured(self, name):
        print(f'evaluating {name}')
        if name == members.UNTRAINED:
            model = load.untrained(self._workdir / self._first)
        else:
            self._download(name)
            model = load.load(self._workdir / name)
        shape = geometry.Evaluator(self._rows, self._mesh, batch_size=64)
        values = {
            **self._scored(model).run(model.params, model.network),
            **representation.run(model, self._probes),
            **shape.run(model.params, model.network),
            'geometry/dimensions': model.network.encoder.width,
        }
        predicts = name != members.UNTRAINED and 'lm_head' in model.params
        texts = [text for text, _ in self._sentences] if predicts else []
        return {'values': values, 'answers': [model.fill(text)[0] for text in texts]}

    def _download(self, name):
        step = restore.newest_good_step(self._workdir / name / 'checkpoints')
        if step is None or not self._place.fetch(name, step):
            raise RuntimeError(
                f'{name}: its last checkpoint is damaged or missing. Run the same '
                'command to train the missing steps.'
            )

    def _scored(self, model):
        """Returns the Evaluator for the last objective of a model."""
        key = json.dumps(heldout.scorings([model.network]))
        if key not in self._evaluators:
            self._evaluators[key] = heldout.Evaluator(
                [model.network], self._rows, model.tokenizer, self._mesh, batch_size=64
            )
        return self._evaluators[key]
