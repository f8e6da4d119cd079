"""Fine-tuning of a grid of members on a task, and measuring on validation and test.

zero_shot.py and retrieving.py measure models on tasks in the same form.
"""

import contextlib
import dataclasses
import functools
import itertools
import time
import warnings
from collections import Counter
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.evaluation import identity
from jepa_text.evaluation.config import RECIPE
from jepa_text.evaluation.members import fitting, grid
from jepa_text.evaluation.metrics import answers as metrics
from jepa_text.evaluation.sets import task as tasks
from jepa_text.pretrained import exported, labels, prediction, saved
from jepa_text.running import numerics
from jepa_text.settings import resolve


class Outcome(NamedTuple):
    """The result of a member: `outcome` as result_files.write takes it, values and
    predictions of every test instance, and the trained parameters with the head."""

    outcome: dict
    per_instance: dict
    predictions: list
    params: dict


class Measurement:
    """A load.Pretrained on a task.Task, by a config.Finetuning.

    `config` is what the configs of all members share; `run(members, width)` yields
    (Member, Outcome) of each member.
    """

    def __init__(self, model, task, settings):
        self.model, self.task, self.settings = model, task, settings

    def common(self):
        """Returns the fields of the config that describe the model and the data."""
        model, task = self.model, self.task
        # Other fields, names or templates give other examples of the same commit.
        revision = '-'.join(filter(None, (task.revision, identity.of_data(task))))
        return {
            'model': model.name,
            'model_revision': identity.of(model),
            'task': task.name,
            'data_revision': revision,
            'tokenizer': model.tokenizer.fingerprint,
            'metric': task.metric,
        }

    def width(self, count):
        """Returns how many of `count` members are trained at once."""
        return 1

    def config_of(self, member):
        """Returns the config of a member, as result_files.write takes it."""
        return {**self.config, **member._asdict()}


class Examination(Measurement):
    """Fine-tunes and measures each member.

    Raises ValueError for a task that cannot be learned or read, e.g. an answer outside
    its context, labels of one class only, or a question that fills a row.
    """

    def __init__(self, model, task, settings):
        super().__init__(model, task, settings)
        self.kind = kind_of(task, settings, model)
        reader = prediction.reader(model, settings.max_length or None)
        self.rows, self.sizes = self.read(reader)
        batches = -(-len(self.rows) // settings.batch_size)
        steps = min(settings.steps, settings.epochs * batches)
        self.recipe = dataclasses.replace(settings, steps=steps)
        self.grid = grid.Grid(model, self.kind, self.recipe, reader.length)
        self.max_length = reader.length
        self.cut = reader.counts['cut'], reader.counts['texts']

    def read(self, reader):
        """Returns (training rows, [number of examples of each split])."""
        task = self.task
        examples = task.train, task.validation, task.test
        splits = zip(('train', 'validation', 'test'), examples)
        train, *rest = (self._rows(reader, *split) for split in splits)
        self.parts = dict(zip(('validation', 'test'), zip(examples[1:], rest)))
        # Raise errors of metrics, e.g. missing packages, before training.
        for part, rows in self.parts.values():
            correct = part.target
            if task.kind == 'spans':
                correct = [spans[0][1] if spans else '' for spans in part.target]
            known = self._measure(part, rows, correct).standard
            resolve.check_choice(f'{task.name}: metric', task.metric, known)
        return train, list(map(len, examples))

    def _rows(self, reader, split, examples):
        try:
            return self.kind.rows(reader, examples)
        except ValueError as error:
            raise ValueError(f'{self.task.name}, {split}: {error}') from error

    @functools.cached_property
    def config(self):
        """The config that all members share."""
        kind = dataclasses.asdict(self.kind)
        return {
            **self.common(),
            'kind': self.kind.name,
            'max_length': self.max_length,
            'pooling': kind.get('pool', ''),
            'template': kind.get('template', ''),
            **{k: v for k, v in kind.items() if k != 'labels'},
            **{name: getattr(self.recipe, name) for name in RECIPE},
            'examples': self.sizes,
            'rows': self.settings.rows,
            'texts_cut': self.cut,
        }

    def width(self, count):
        """Returns as many members as fit into memory."""
        return fitting.width(self.grid, self.rows, count)

    def run(self, members, width=1):
        """Yields (Member, Outcome) of each member."""
        began = time.monotonic()
        training = self.grid.train(self.rows, members, width)
        # Closed also after an error, whose traceback would keep its bar open.
        with contextlib.closing(training):
            for member, params, losses_T in training:
                outcome, side = self._outcome(params, losses_T)
                outcome['seconds'] = round(time.monotonic() - began, 3)
                outcome['parameters'] = sum(x.size for x in jax.tree.leaves(params))
                outcome['versions'] = identity.versions() | numerics.current()
                yield member, Outcome(outcome, *side, params)
                began = time.monotonic()

    def _outcome(self, params, losses_T):
        """Returns (outcome without time and versions, test values and predictions)."""
        outcome = {'losses': [float(losses_T[0]), float(losses_T[-1])]}
        is_finite = (jnp.isfinite(x).all() for x in (losses_T, *jax.tree.leaves(params)))
        splits = ('validation', 'test') if all(is_finite) else ()
        found = [self.measured(split, params) for split in splits]
        if not found or None in found:
            empty = {'status': 'not finite', 'validation': None, 'test': None}
            return outcome | empty, ({}, None)
        (validation, _, said), (test, predictions, others) = found
        outcome |= {'validation': validation.by_mode, 'test': test.by_mode}
        # With few examples, all answers of one split may be the same by chance.
        is_constant = len(said | others) == 1 < len(self._targets())
        outcome['status'] = 'collapsed' if is_constant else 'done'
        return outcome, (test.per_instance, predictions)

    def _targets(self):
        parts = self.task.validation, self.task.test
        return {_hashable(target) for part in parts for target in part.target}

    def measured(self, split, params):
        """Returns (Measured, predictions, the set of different predictions); None if the
        outputs are not finite, as of large parameters."""
        examples, rows = self.parts[split]
        run = prediction.program(self.grid.network, self.kind)
        outputs = prediction.outputs(self.model, self.kind, rows, params, run)
        if not all(np.isfinite(output).all() for output in outputs):
            return None
        answers = self.kind.answers(outputs, rows, examples)
        predictions = list(map(_prediction, answers))
        tokens = [answer.get('tokens') for answer in answers]
        measured = self._measure(examples, rows, predictions, tokens)
        return measured, predictions, set(map(_hashable, predictions))

    def _measure(self, examples, rows, predictions, tokens=None):
        """Returns the Measured; `tokens` are those of spans (None: the correct ones)."""
        kind, positions = self.kind, None
        if kind.name == 'spans':
            gold = kind.gold(rows)
            positions = gold, gold if tokens is None else tokens
        classes = getattr(kind, 'labels', ())
        target = examples.target
        return metrics.measure(kind.name, target, predictions, classes, positions)


def kind_of(task, settings, model=None):
    """Returns the Kind of a task, configured by the settings; where they are 'auto', with
    the head of the family of the `model`."""
    if task.kind == 'retrieval':
        _check_retrieval(task)
        return with_head(labels.Vectors(), settings, model)
    if task.kind not in saved.KINDS:
        raise ValueError(
            f'{task.name} is a task of {task.kind}, which is not supported for '
            f'fine-tuning; supported: {", ".join(saved.KINDS)}.'
        )
    is_paper, options = settings.rows == 'paper', {'dropout': settings.dropout}
    if task.kind == 'tags':
        options['learn'] = 'all' if is_paper else 'first'
    if task.kind == 'spans':
        parts = task.train, task.validation, task.test
        options['learn'] = 'tokens' if is_paper else 'ends'
        options['unanswerable'] = not all(all(part.target) for part in parts)
        options |= {'stride': 0} if is_paper else {}
    if task.template:
        options['template'] = task.template
    if task.kind == 'scores':
        check_scores(task)
        # Years or prices, as they are, would be out of reach of a head near 0.
        known_N = task.train.target
        options |= dict(center=float(known_N.mean()), scale=float(known_N.std()))
    if task.kind in ('labels', 'tags'):
        options['labels'] = _labels(task)
    kind = saved.KINDS[task.kind](**options)
    return with_head(kind, settings, model)


def with_head(kind, settings, model):
    """Returns the kind with the pooling and act of the settings; see kind_of."""
    if model is not None:
        kind = exported.with_usual_head(kind, model)
    given = {'pool': settings.pool, 'act': settings.act}
    if kind.name in ('tags', 'spans') and settings.act not in ('auto', 'gelu_norm'):
        given['act'] = ''  # Only ModernBERT has a layer before the classes.
    fields = {field.name for field in dataclasses.fields(kind)}
    given = {k: v for k, v in given.items() if v != 'auto' and k in fields}
    return dataclasses.replace(kind, **given)


def _check_retrieval(task):
    if not task.pairs:
        raise ValueError(
            f'{task.name} has no training pairs: give a set with qrels/train, or '
            '`pairs`, a file with the fields query and positive; or set zero_shot=True '
            'to rank without training.'
        )
    if not task.validation_qrels:
        raise ValueError(
            f'{task.name} has no validation queries: give a set with qrels/dev.'
        )


def check_scores(task):
    """Raises ValueError if all scores of a split are equal."""
    for split in ('train', 'validation', 'test'):
        part = getattr(task, split)
        if part is not None and len(part) and np.ptp(part.target) == 0:
            raise ValueError(
                f'{task.name}: all {len(part)} scores of the {split} set are '
                f'{part.target[0]}, so correlations are undefined. Choose another field, '
                f'or give more examples, or a larger file `{split}`.'
            )


def _labels(task):
    """Returns all classes or tags in order: the task's if these are all, else O first."""
    is_tags = task.kind == 'tags'
    train, validation, test = (
        Counter(map(str, itertools.chain(*part.target) if is_tags else part.target))
        for part in (task.train, task.validation, task.test)
    )
    unseen = {label: count for label, count in test.items() if label not in train}
    if unseen:
        unit = 'words' if is_tags else 'examples'
        warnings.warn(
            f'{task.name}: {sum(unseen.values()):,} of {sum(test.values()):,} test '
            f'{unit} have a class or tag that is not in the training set: '
            f'{", ".join(sorted(unseen))}. They cannot be predicted correctly. To make '
            'them an error, set `labels`.',
            stacklevel=2,
        )
    tasks.check_classes(task)
    if not is_tags:
        return tasks.classes(task)
    known = {*train, *validation, *test}
    if known <= set(task.classes):
        return task.classes
    return tuple(sorted(known, key=lambda label: (label != 'O', label)))


def _hashable(value):
    if isinstance(value, list | tuple):
        # Tags and spans are compared as sets, as sentences differ in length.
        return tuple(sorted(set(map(_hashable, value))))
    return str(value)


def _prediction(answer):
    return next(
        answer[key] for key in ('label', 'score', 'tags', 'text') if key in answer
    )
