"""What a study measures of its members, kept as soon as it is done.

workdir/evaluated/<member>.json   what is asked of which checkpoint, the answer, checksum
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
from jepa_text.training.evals import geometry as shapes
from jepa_text.training.evals import heldout, token_counts

HELDOUT = 'heldout'


def split_of(section):
    """The split that the section `study` measures."""
    return section.get('split') or HELDOUT


def probes(config, rows):
    """([Probe], {name: why there is none}) of the corpus of the rows."""
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
    """What the measurements of a member depend on: its config, what is measured, on which
    rows, and its parameters.

    Raises ValueError where the parameters are gone, and what was measured of them does
    not answer it.
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
        why = 'does not answer what the study asks now' if saved else 'is damaged'
        raise ValueError(
            f'{folder} holds no good checkpoint, and {path} {why}. Bring one of them '
            f'back, or move {workdir / name} and {path} away: the run is trained again '
            'then.'
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


class Measuring:
    """What is measured of the members of a study, each once; those that are scored alike
    share a program. `place` is as of view.opened, `marks` are their fingerprints, as
    members.enroll gives them, `found` what `probes` gives."""

    def __init__(self, config, place, marks, found):
        self._place, self._workdir = place, place.folder
        self._config, self._marks = config, marks
        self._probes, self._missing = found
        self._split = split_of(config['study'])
        self._rows = pipeline.Rows(place.folder / 'rows', self._split)
        self._mesh = sharding.make_mesh(devices=jax.devices()[:1])
        self._evaluators = {}

    def is_known(self, name):
        """Is a member, or the untrained model, measured as it is asked for?"""
        known = cached_result.read(members.result_path(self._workdir, name))
        return bool(known) and known['config'] == self._question(name)

    def once(self, name):
        """{'values': {metric: value}, 'answers': of each sentence, or none}; of the
        untrained model, which is that of the first member, too."""
        return cached_result.once(
            members.result_path(self._workdir, name),
            self._question(name),
            lambda: self._measured(name),
        )

    def results(self, names):
        """What was measured of these members, and of the untrained model.

        {'unigram': nats, 'models': {name: {metric: value}}, 'probes': {name: counts,
        split, controls}, 'no_probe': {name: why}, 'recipes': {member: (recipe, seed)},
        'predictions': [...]}
        """
        rows = self._rows
        tokenizer = tokenizers.load(self._workdir / 'rows' / 'tokenizer.json')
        found = {name: self.once(name) for name in (members.UNTRAINED, *names)}
        predictions = []
        for number, (text, answer) in enumerate(self._sentences):
            given = {name: found[name]['answers'] for name in names}
            given = {name: said[number] for name, said in given.items() if said}
            predictions.append({'text': text, 'answer': answer, 'models': given})
        return {
            'models': {name: one['values'] for name, one in found.items()},
            'predictions': predictions,
            'no_probe': self._missing,
            'probes': {one.name: representation.described(one) for one in self._probes},
            'recipes': _recipes(self._workdir, names),
            'unigram': token_counts.unigram_entropy(
                rows, tokenizer.special_ids, len(rows)
            ),
            'heldout_tokens': rows.manifest['splits'][self._split]['tokens'],
        }

    @property
    def _first(self):
        return next(iter(self._marks))

    @property
    def _sentences(self):
        return self._config['study']['sentences']

    def _question(self, name):
        mark = self._marks.get(name, self._marks[self._first])
        return question(self._config, self._workdir, name, mark)

    def _measured(self, name):
        print(f'evaluating {name}')
        if name == members.UNTRAINED:
            model = load.untrained(self._workdir / self._first)
        else:
            self._bring(name)
            model = load.load(self._workdir / name)
        shape = shapes.Evaluator(model.network, self._rows, self._mesh, batch_size=64)
        values = {
            **self._scored(model).run(model.params, model.network),
            **representation.run(model, self._probes),
            **shape.run(model.params),
        }
        able = name != members.UNTRAINED and 'lm_head' in model.params
        texts = [text for text, _ in self._sentences] if able else []
        return {'values': values, 'answers': [model.fill(text)[0] for text in texts]}

    def _bring(self, name):
        step = restore.newest_good_step(self._workdir / name / 'checkpoints')
        if step is None or not self._place.bring(name, step):
            raise RuntimeError(
                f'{name}: its last state is damaged or gone. The same command trains '
                'what is missing.'
            )

    def _scored(self, model):
        # As its last objective says.
        key = json.dumps(heldout.scorings([model.network]))
        if key not in self._evaluators:
            self._evaluators[key] = heldout.Evaluator(
                [model.network], self._rows, model.tokenizer, self._mesh, batch_size=64
            )
        return self._evaluators[key]
