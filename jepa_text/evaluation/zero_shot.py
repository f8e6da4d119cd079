"""Tasks that a model answers as it is: nothing is trained, and nothing chosen.

    --config.tasks="({'name': 'stsb', 'zero_shot': True},)"

There is one member, of learning rate 0 and seed 0, as chance has no part in it. The test
set is that of the same task with training, so both can be compared.
"""

import dataclasses
import functools
import time

import numpy as np

from jepa_text.evaluation import cloze, examination, finetune, identity
from jepa_text.evaluation.members import grid
from jepa_text.evaluation.metrics import base, classes, scores
from jepa_text.evaluation.metrics import cloze as ranks
from jepa_text.evaluation.sets import targets
from jepa_text.kinds import prediction
from jepa_text.measures import probes

MEMBER = grid.Member(0.0, 0)
DIGITS = 7  # that a cosine of float32 vectors has


def task_of(task, given):
    """The task to be answered without training, under a name of its own.

    `given` is True for scores of pairs; for labels, dict(template='{text} It was
    <mask>.', words={label: word}), the template of pairs with {first} and {second}.
    Raises ValueError for a task that this is not of, and for what does not fit.
    """
    if as_it_is(task) and given is True:
        return task
    kind = getattr(task, 'kind', 'retrieval')
    is_single = kind == 'scores' and task.test.second is None
    if kind == 'labels' and isinstance(given, dict):
        given = _verbalized(task, given)
    elif kind != 'scores' or is_single or given is not True:
        what = 'scores of single texts' if is_single else kind
        raise ValueError(
            f'{task.name} has {what}, and zero_shot={given!r}: without training, scores '
            'of pairs are answered by zero_shot=True, labels by '
            "zero_shot={'template': '{text} It was <mask>.', 'words': {label: word}}."
        )
    else:
        finetune.check_scores(task)
    return dataclasses.replace(task, name=f'{task.name} zero-shot', zero_shot=given)


def as_it_is(task):
    """Is a model measured on it without training?"""
    return getattr(task, 'zero_shot', None) is not None


def fills(task):
    """Does a model need a word head for it?"""
    return as_it_is(task) and task.kind in ('labels', 'cloze')


def texts(task, examples):
    """What a model reads of examples, each text once; of masks with the right word."""
    if not fills(task):
        return list(dict.fromkeys(examples.texts()))
    asked = questions_of(task, examples)
    return [one.before + one.words[one.answer] + one.after for one in asked]


def _verbalized(task, given):
    """{'template', 'words'}, checked."""
    where = f'{task.name}, zero_shot'
    if set(given) != {'template', 'words'} or not isinstance(given['words'], dict):
        raise ValueError(
            f'{where}={given!r}: give template, a text with <mask>, and words, {{label: '
            'word}}.'
        )
    words = {str(label): word for label, word in given['words'].items()}
    parts = (task.train, task.validation, task.test)
    labels = sorted({str(label) for part in parts for label in part.target})
    if sorted(words) != labels:
        raise ValueError(
            f'{where}: words are of {", ".join(words)}, but the labels are '
            f'{", ".join(labels)}: give one of each.'
        )
    bad = [x for x in words.values() if not isinstance(x, str) or not x.strip()]
    if bad or len(set(words.values())) < len(words):
        raise ValueError(f'{where}: words={words}: give each label a word of its own.')
    fields = ('text',) if task.test.second is None else ('first', 'second')
    targets.check_template(given['template'], where, fields)
    cloze.halves(given['template'], where)
    words = {label: words[label].strip() for label in labels}
    return {'template': given['template'], 'words': words}


class Examination(examination.Examination):
    """A model that is measured as it is."""

    def __init__(self, model, task, settings):
        super().__init__(model, task, settings)
        self.max_length = prediction.reader(model, settings.max_length or None).length
        self.reading = dataclasses.replace(model, length=self.max_length)

    @functools.cached_property
    def config(self):
        """What the line says."""
        task = self.task
        return {
            **self.common(),
            'kind': task.kind,
            'max_length': self.max_length,
            **self.details(),
            'steps': 0,
            'batch_size': 0,
            'precision': self.model.network.encoder.dtype,
            'causal': self.model.causal,
            'zero_shot': task.zero_shot,
            'examples': [len(part) for part in (task.train, task.validation, task.test)],
        }

    def details(self):
        """What of the config is of a kind."""
        return {'pooling': '', 'template': ''}

    def gold(self, examples):
        """What people said of each."""
        return list(map(str, examples.target))

    def run(self, members, width=1, tell=None):
        """Yields (Member, Outcome) of each; all are the same."""
        for member in members:
            began = time.monotonic()
            sides = [
                self.measured(part) for part in (self.task.validation, self.task.test)
            ]
            found = {'validation': None, 'test': None, 'status': 'not finite'}
            per_instance, said = {}, None
            if None not in sides:
                for split, (measured, _) in zip(('validation', 'test'), sides):
                    both = {'standard': measured.standard, 'paper': measured.paper}
                    found[split], per_instance = both, measured.per_instance
                said = sides[1][1]
                is_one = len(set(said)) == 1 < len(set(self.gold(self.task.test)))
                found['status'] = 'collapsed' if is_one else 'done'
            found |= {'losses': [], 'versions': identity.versions(self.task.kind)}
            found['seconds'] = round(time.monotonic() - began, 3)
            yield member, examination.Outcome(found, per_instance, said, {})


class Similarity(Examination):
    """The cosine of two texts' vectors against the scores that people gave.

    spearman, pearson           of the mean over all tokens
    own_spearman, own_pearson   of the pooling that the model brings with it

    A causal model reads causally, as it was trained.
    """

    POOL = 'mean'

    def details(self):
        own = {'own_pooling': self.model.pool}
        return {**own, 'pooling': self.POOL, 'template': ''}

    def measured(self, examples):
        """(metrics.base.Measured, the cosine of each pair by the mean); None where a
        vector is not finite."""
        pools = dict.fromkeys([self.POOL, self.model.pool])
        found = {pool: self._cosines(examples, pool) for pool in pools}
        if not all(np.isfinite(cosine_N).all() for cosine_N in found.values()):
            return None
        mean, own = (
            scores.measure(examples.target, found[pool])
            for pool in (self.POOL, self.model.pool)
        )
        measured = base.Measured(
            mean.standard | _own(own.standard),
            mean.paper,
            mean.per_instance | _own(own.per_instance),
        )
        return measured, found[self.POOL].tolist()

    def _cosines(self, examples, pool):
        known = texts(self.task, examples)
        place = {text: number for number, text in enumerate(known)}
        vectors_ND = self.reading.encode(known, pool=pool)
        sides = (
            vectors_ND[[place[text] for text in side]]
            for side in (examples.first, examples.second)
        )
        # What is finer is rounding, and would put equal pairs in an order.
        return np.round(probes.pair_cosine(*sides), DIGITS)


def _own(values):
    return {f'own_{name}': value for name, value in values.items()}


class Filling(Examination):
    """The word at a mask, by its log-likelihood (cloze.py): of the candidates of a text,
    of the whole vocabulary, or of the words that stand for labels.

    Raises ValueError for a model that fills no masks (Pretrained.check_fills), and as
    cloze.Reading for words that it cannot tell.
    """

    def details(self):
        given = self.task.zero_shot if self.task.kind == 'labels' else {}
        # What names a token is no part of the model's revision, which vectors depend on.
        head = {'head': identity.of_head(self.model), 'shift': self.model.shift}
        return {'template': given.get('template', ''), 'pooling': '', **head}

    def gold(self, examples):
        if self.task.kind == 'cloze':
            return [answer for answer, _ in examples.target]
        return super().gold(examples)

    @functools.cached_property
    def _reading(self):
        return cloze.Reading(self.model, self.max_length)

    def measured(self, examples):
        """(metrics.base.Measured, what is said of each); None where a probability is not
        finite."""
        questions = questions_of(self.task, examples)
        told = self._reading.told(questions)
        log_likelihood_N = np.array([one.log_likelihood for one in told])
        if not np.isfinite(log_likelihood_N).all():
            return None
        given = [one.rank for one in told], log_likelihood_N, questions[0].is_open
        found, said = ranks.measure(*given), [one.said for one in told]
        if self.task.kind == 'cloze':
            return found, said
        label_of = {word: label for label, word in self.task.zero_shot['words'].items()}
        said = [label_of[word] for word in said]
        labels = list(label_of.values())
        by_class = classes.measure(self.gold(examples), said, labels)
        measured = base.Measured(
            found.standard | by_class.standard,
            by_class.paper,
            found.per_instance | by_class.per_instance,
        )
        return measured, said


def questions_of(task, examples):
    """[cloze.Question] of examples."""
    if task.kind == 'cloze':
        return [
            cloze.Question(
                *cloze.halves(text, task.name),
                others or (answer,),
                (others or (answer,)).index(answer),
                is_open=not others,
            )
            for text, (answer, others) in zip(examples.first, examples.target)
        ]
    words, made = task.zero_shot['words'], []
    halves = cloze.halves(task.zero_shot['template'], task.name)
    names = ('text',) if examples.second is None else ('first', 'second')
    sides = [side for side in (examples.first, examples.second) if side is not None]
    for texts, target in zip(zip(*sides), examples.target):
        given = dict(zip(names, texts))
        filled = (half.format(**given) for half in halves)
        right = list(words).index(str(target))
        made.append(cloze.Question(*filled, tuple(words.values()), right))
    return made


KINDS = {'scores': Similarity, 'labels': Filling, 'cloze': Filling}
