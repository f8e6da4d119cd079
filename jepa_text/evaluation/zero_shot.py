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

from jepa_text.evaluation import cloze, finetune, identity, search
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

    Raises ValueError for others than scores of pairs, retrieval and cloze tasks, and if
    `given`, the option of the section, is not True.
    """
    is_single = task.kind == 'scores' and task.test.second is None
    is_asked = given is True or (given is None and task.zero_shot)
    if task.kind not in MEASURES or is_single or not is_asked:
        target = 'scores of single texts' if is_single else task.kind
        raise ValueError(
            f'{task.name} has {target}, and zero_shot={given!r}: without training, only '
            'scores of pairs and retrieval are answered, with zero_shot=True, and cloze '
            'tasks, such as {"text": "I liked it. It was <mask>.", "answer": "good", '
            '"candidates": ["good", "bad"]} for classes.'
        )
    name = task.name if task.kind == 'cloze' else f'{task.name} zero-shot'
    empty = dict(pairs=[], validation_qrels=None)
    if task.kind != 'retrieval':
        empty = dict.fromkeys(('train', 'validation'), task.test.take([]))
    task = dataclasses.replace(task, name=name, zero_shot=True, **empty)
    if task.kind == 'scores':
        finetune.check_scores(task)
    return task


class Examination(finetune.Measurement):
    """Measures a model as it is, by the function of MEASURES for the kind of the task.

    Of pairs and retrieval, vectors are the model's own; a causal model reads causally, as
    it was trained. Raises ValueError for a cloze task and a model that cannot fill masks
    (Pretrained.check_fills), and as cloze.Scorer for words that it cannot score.
    """

    def __init__(self, model, task, settings):
        super().__init__(model, task, settings)
        if task.kind == 'retrieval':
            ranking.measure(task.qrels, {})  # raises for a missing package at once
        self.max_length = prediction.reader(model, settings.max_length or None).length
        given = settings.pool if task.kind in ('retrieval', 'scores') else ''
        self.pool = model.pool if given == 'auto' else given

    @functools.cached_property
    def config(self):
        """The config of the result line."""
        task = self.task
        examples = task.qrels if task.kind == 'retrieval' else task.test
        return {
            **self.common(),
            'kind': task.kind,
            'max_length': self.max_length,
            'pooling': self.pool,
            'template': '',
            'steps': 0,
            'batch_size': 0,
            'precision': self.model.network.encoder.dtype,
            'causal': self.model.causal,
            'zero_shot': task.zero_shot,
            'examples': [0, 0, len(examples)],
        }

    def run(self, members, width=1):
        """Yields (Member, Outcome) of each member; all are the same."""
        began = time.monotonic()
        outcome = {'validation': None, 'test': None, 'status': 'not finite'}
        per_instance, answers, model = {}, None, self.model
        model = dataclasses.replace(model, length=self.max_length, pool=self.pool)
        if (result := MEASURES[self.task.kind](model, self.task)) is not None:
            test, answers, is_constant = result
            outcome |= dict.fromkeys(('validation', 'test'), test.by_mode)
            outcome['status'] = 'collapsed' if is_constant else 'done'
            per_instance = test.per_instance
        outcome |= {'losses': [], 'versions': identity.versions() | numerics.current()}
        outcome['seconds'] = round(time.monotonic() - began, 3)
        for member in members:
            yield member, finetune.Outcome(outcome, per_instance, answers, {})


def similarity(model, task):
    """Correlation of the cosine of two texts' vectors with human scores.

    Returns (Measured, the cosine of each pair, whether all are equal); None if a vector
    is not finite.
    """
    test = task.test
    texts = list(dict.fromkeys(test.texts()))
    number = {text: index for index, text in enumerate(texts)}
    vectors_ND = model.encode(texts, normalize=False)
    if not np.isfinite(vectors_ND).all():
        return None
    sides = (
        vectors_ND[[number[text] for text in side]] for side in (test.first, test.second)
    )
    # Finer differences are rounding errors and would break ties of equal pairs.
    cosine_N = np.round(probes.pair_cosine(*sides), DIGITS)
    measured = metrics.scores(test.target, cosine_N)
    return measured, cosine_N.tolist(), np.ptp(cosine_N) == 0


def retrieved(model, task):
    """Ranking of a corpus by the cosine of vectors, for each query.

    Returns (Measured, the run {query: {document: score}}, whether all scores are equal);
    None if a vector is not finite.
    """
    if (run := search.rank(model, task)) is None:
        return None
    scores = {score for found in run.values() for score in found.values()}
    return ranking.measure(task.qrels, run), run, len(scores) == 1


def filled(model, task):
    """The word at a mask, by its log-likelihood (cloze.py), among the candidates of a
    text or the whole vocabulary.

    Returns (Measured, the predicted words, whether all are equal but should not be); None
    if a probability is not finite.
    """
    questions = [
        cloze.Question(
            *cloze.split_at_mask(text, task.name),
            candidates or (answer,),
            (candidates or (answer,)).index(answer),
            is_open=not candidates,
        )
        for text, (answer, candidates) in zip(task.test.first, task.test.target)
    ]
    predicted = cloze.Scorer(model).predict(questions)
    log_likelihood_N = np.array([p.log_likelihood for p in predicted])
    if not np.isfinite(log_likelihood_N).all():
        return None
    rank_N, words = [p.rank for p in predicted], [p.word for p in predicted]
    is_constant = len(set(words)) == 1 < len({answer for answer, _ in task.test.target})
    measured = metrics.cloze(rank_N, log_likelihood_N, questions[0].is_open)
    return measured, words, is_constant


MEASURES = {'scores': similarity, 'cloze': filled, 'retrieval': retrieved}
