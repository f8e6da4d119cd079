"""Zero-shot evaluation: tasks that a model answers without training.

    --config.tasks="({'name': 'stsb', 'zero_shot': True},)"

There is one member, with learning rate 0 and seed 0, as results are deterministic. If the
task has a separate test set, it is that of the same task with training, so both can be
compared; of a single file, all rows are answered. As nothing is selected, the values of
the test set stand for those of validation in a line.
"""

import dataclasses
import functools
import time

import numpy as np

from jepa_text.evaluation import (
    cloze,
    finetune,
    identity,
    retrieving,
    search,
)
from jepa_text.evaluation.members import grid
from jepa_text.evaluation.metrics import answers as metrics
from jepa_text.evaluation.metrics import ranking
from jepa_text.measures import probes
from jepa_text.pretrained import prediction
from jepa_text.running import numerics

MEMBER = grid.Member(0.0, 0)
DIGITS = 7  # significant decimals of a cosine of float32 vectors


def task_of(task, given):
    """Returns the task to be answered without training, under a name of its own.

    These are scores of pairs, retrieval, and cloze tasks. Raises ValueError for others,
    and if `given`, the option of the section, is not True.
    """
    name = f'{task.name} zero-shot'
    if task.kind == 'retrieval' and given is True:
        empty = dict(pairs=[], validation_qrels=None)
        return dataclasses.replace(task, name=name, zero_shot=True, **empty)
    is_cloze = is_zero_shot(task) and given in (None, True)
    is_single = task.kind == 'scores' and task.test.second is None
    is_scores = task.kind == 'scores' and not is_single and given is True
    if not is_cloze and not is_scores:
        target = 'scores of single texts' if is_single else task.kind
        raise ValueError(
            f'{task.name} has {target}, and zero_shot={given!r}: without training, only '
            'scores of pairs and retrieval are answered, with zero_shot=True, and cloze '
            'tasks, such as {"text": "I liked it. It was <mask>.", "answer": "good", '
            '"candidates": ["good", "bad"]} for classes.'
        )
    empty = dict.fromkeys(('train', 'validation'), task.test.take([]))
    if is_cloze:
        return dataclasses.replace(task, **empty)
    task = dataclasses.replace(task, name=name, zero_shot=True, **empty)
    finetune.check_scores(task)
    return task


def is_zero_shot(task):
    """Returns whether the task is answered without training."""
    return task.zero_shot is not None


def texts(task):
    """Returns the texts that a model reads, each once; masks hold the correct word."""
    if task.kind == 'retrieval':
        return retrieving.texts(task)
    if task.kind != 'cloze':
        return list(dict.fromkeys(task.test.texts()))
    questions = questions_of(task, task.test)
    return [q.before + q.words[q.answer] + q.after for q in questions]


class Examination(finetune.Measurement):
    """Measures a model as it is."""

    def __init__(self, model, task, settings):
        super().__init__(model, task, settings)
        reader = prediction.reader(model, settings.max_length or None)
        self.max_length = reader.length
        self.reader = reader
        self.truncated = dataclasses.replace(model, length=self.max_length)

    @functools.cached_property
    def config(self):
        """The config of the result line."""
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
            'examples': [0, 0, len(self.examples)],
            'texts_cut': retrieving.count_cut(self.reader, texts(task)),
        }

    @property
    def examples(self):
        """The test examples."""
        return self.task.test

    def details(self):
        """Returns the config fields that depend on the kind of task."""
        return {'pooling': '', 'template': ''}

    def gold(self, examples):
        """Returns the correct answer of each example."""
        return list(map(str, examples.target))

    def is_constant(self, answers):
        """Returns whether all answers are the same but should not be."""
        return len(set(answers)) == 1 < len(set(self.gold(self.examples)))

    def run(self, members, width=1, report=None):
        """Yields (Member, Outcome) of each member; all are the same."""
        for member in members:
            began = time.monotonic()
            result = self.measured(self.examples)
            outcome = {'validation': None, 'test': None, 'status': 'not finite'}
            per_instance, answers = {}, None
            if result is not None:
                test, answers = result
                outcome |= dict.fromkeys(('validation', 'test'), test.by_mode)
                per_instance = test.per_instance
                is_constant = self.is_constant(answers)
                outcome['status'] = 'collapsed' if is_constant else 'done'
            versions = identity.versions(self.config['kind']) | numerics.current()
            outcome |= {'losses': [], 'versions': versions}
            outcome['seconds'] = round(time.monotonic() - began, 3)
            yield member, finetune.Outcome(outcome, per_instance, answers, {})


class Similarity(Examination):
    """Correlation of the cosine of two texts' vectors with human scores.

    Vectors are pooled as the settings say, by default with the model's own pooling. A
    causal model reads causally, as it was trained.
    """

    def details(self):
        given = self.settings.pool
        return {'pooling': self.model.pool if given == 'auto' else given, 'template': ''}

    def measured(self, examples):
        """Returns (Measured, the cosine of each pair); None if a vector is not finite."""
        texts = list(dict.fromkeys(examples.texts()))
        number = {text: index for index, text in enumerate(texts)}
        vectors_ND = self.truncated.encode(texts, pool=self.details()['pooling'])
        if not np.isfinite(vectors_ND).all():
            return None
        sides = (
            vectors_ND[[number[text] for text in side]]
            for side in (examples.first, examples.second)
        )
        # Finer differences are rounding errors and would break ties of equal pairs.
        cosine_N = np.round(probes.pair_cosine(*sides), DIGITS)
        return metrics.scores(examples.target, cosine_N), cosine_N.tolist()


class Ranking(Examination):
    """Ranking of a corpus by the cosine of the model's own vectors, for each query.

    A causal model reads causally, as it was trained.
    """

    def details(self):
        return {'pooling': self.model.pool, 'template': ''}

    @property
    def examples(self):
        return self.task.qrels

    def is_constant(self, answers):
        return len({score for run in answers.values() for score in run.values()}) == 1

    def measured(self, examples):
        """Returns (Measured, the run {query: {document: score}})."""
        run = search.rank(self.truncated, self.task)
        return ranking.measure(examples, run), run


class Filling(Examination):
    """The word at a mask, by its log-likelihood (cloze.py).

    Candidates are those of a text, or the whole vocabulary.
    Raises ValueError for a model that cannot fill masks (Pretrained.check_fills), and as
    cloze.Scorer for words that it cannot score.
    """

    def gold(self, examples):
        return [answer for answer, _ in examples.target]

    @functools.cached_property
    def _scorer(self):
        return cloze.Scorer(self.model, self.max_length)

    def measured(self, examples):
        """Returns (Measured, the predicted answers).

        None if a probability is not finite.
        """
        questions = questions_of(self.task, examples)
        predicted = self._scorer.predict(questions)
        log_likelihood_N = np.array([p.log_likelihood for p in predicted])
        if not np.isfinite(log_likelihood_N).all():
            return None
        rank_N, words = [p.rank for p in predicted], [p.word for p in predicted]
        return metrics.cloze(rank_N, log_likelihood_N, questions[0].is_open), words


def questions_of(task, examples):
    """Returns the cloze.Question of each example."""
    return [
        cloze.Question(
            *cloze.split_at_mask(text, task.name),
            candidates or (answer,),
            (candidates or (answer,)).index(answer),
            is_open=not candidates,
        )
        for text, (answer, candidates) in zip(examples.first, examples.target)
    ]


KINDS = {
    'scores': Similarity,
    'cloze': Filling,
    'retrieval': Ranking,
}
