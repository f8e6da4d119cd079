"""A model, a task, a grid of members: each fine-tuned, and measured on what it was not
trained on.

    examination = Examination(model, task, settings)
    for member, made in examination.run(members): ...
"""

import dataclasses
import functools
import time
import warnings
from collections import Counter

import jax
import numpy as np

from jepa_text.evaluation import examination, identity
from jepa_text.evaluation.members import fitting, grid
from jepa_text.evaluation.metrics import classes, scores, spans, tags
from jepa_text.kinds import prediction, saved


class Examination(examination.Examination):
    """Each member is fine-tuned by itself, and measured.

    Raises ValueError for what cannot be learned or read: an answer outside its context,
    labels of one class only, a question that fills a row.
    """

    def __init__(self, model, task, settings):
        super().__init__(model, task, settings)
        self.kind = self.kind_of()
        reader = prediction.reader(model, settings.max_length or None)
        self.parts = {}
        rows, self.sizes = self.read(reader)
        batches = -(-len(rows) // settings.batch_size)
        self.recipe = settings.recipe(min(settings.steps, settings.epochs * batches))
        self.grid = grid.Grid(model, self.kind, self.recipe, reader.length)
        self.max_length = reader.length
        self.cut = reader.counts['cut'], reader.counts['texts']
        # A frozen encoder reads each text once, whatever the number of members.
        self.rows = self.grid.read(rows)
        for name, (examples, rows) in self.parts.items():
            self.parts[name] = examples, self.grid.read(rows)

    def kind_of(self):
        """What the task asks."""
        return kind_of(self.task, self.settings)

    def read(self, reader):
        """(rows that are learned from, [how many examples there are of each part])."""
        task = self.task
        examples = task.train, task.validation, task.test
        splits = zip(('train', 'validation', 'test'), examples)
        train, *rest = (self._rows(reader, *split) for split in splits)
        self.parts = dict(zip(('validation', 'test'), zip(examples[1:], rest)))
        # What cannot be measured, or lacks a package for it, is told before training.
        for part, rows in self.parts.values():
            measure(task.kind, self.kind, part, rows, right(self.kind, part, rows))
        return train, list(map(len, examples))

    def _rows(self, reader, split, examples):
        try:
            return self.kind.rows(reader, examples)
        except ValueError as error:
            raise ValueError(f'{self.task.name}, {split}: {error}') from error

    @functools.cached_property
    def config(self):
        """What every member has in common, for results.config_hash."""
        return {
            **self.common(),
            'kind': self.kind.name,
            'max_length': self.max_length,
            'pooling': getattr(self.kind, 'pool', ''),
            'template': getattr(self.kind, 'template', ''),
            **_settings_of(self.kind),
            **dataclasses.asdict(self.recipe),
            'examples': self.sizes,
            'rows': self.settings.rows,
            'texts_cut': self.cut,
        }

    def width(self, count):
        """As many as the memory holds."""
        return fitting.width(self.grid, self.rows, count)

    def run(self, members, width=1, tell=None):
        """Yields (Member, Outcome) of each."""
        began = time.monotonic()
        for member, params, losses_T in self.grid.train(self.rows, members, width, tell):
            found, side = self._outcome(params, losses_T)
            found['seconds'] = round(time.monotonic() - began, 3)
            found['versions'] = identity.versions(self.kind.name)
            yield member, examination.Outcome(found, *side, params)
            began = time.monotonic()

    def _outcome(self, params, losses_T):
        """(outcome without its time, (values, predictions) of the test set)."""
        found = {'losses': [float(losses_T[0]), float(losses_T[-1])]}
        if not np.isfinite(losses_T).all() or not _finite(params):
            empty = {'status': 'not finite', 'validation': None, 'test': None}
            return found | empty, ({}, None)
        alike = []
        for split in ('validation', 'test'):
            measured, said, is_one = self.measured(split, params)
            found[split] = {'standard': measured.standard, 'paper': measured.paper}
            alike.append(is_one)
        # Of few examples, one side alone may have one answer by chance.
        found['status'] = 'collapsed' if all(alike) else 'done'
        return found, (measured.per_instance, said)

    def measured(self, split, params):
        """(metrics.base.Measured, [what is said of each instance], is it the same of all
        where people said several things?)"""
        examples, rows = self.parts[split]
        run = prediction.program(self.grid.network, self.kind)
        made = prediction.outputs(self.model, self.kind, rows, params, run)
        answers = self.kind.answers(made, rows, examples)
        found = measure(self.task.kind, self.kind, examples, rows, answers)
        return found, list(map(_said, answers)), collapsed(examples, answers)


def _settings_of(kind):
    """What of a kind changes a number; None is of models of others."""
    given = dataclasses.asdict(kind).items()
    return {k: v for k, v in given if k != 'labels' and v is not None}


def kind_of(task, settings):
    """The kind of a task, as the settings have it: kinds/."""
    if task.kind not in saved.KINDS:
        raise ValueError(
            f'{task.name} is a task of {task.kind}, which nothing can be fine-tuned to '
            f'answer; there are: {", ".join(saved.KINDS)}.'
        )
    given = {'dropout': settings.dropout}
    if task.kind in ('labels', 'scores'):
        given |= {'pool': settings.pool, 'act': settings.act}
    if task.kind in ('tags', 'spans'):
        ours = 'first' if task.kind == 'tags' else 'ends'
        paper = 'all' if task.kind == 'tags' else 'tokens'
        given |= {'learn': paper if settings.rows == 'paper' else ours}
        # Without a layer before the classes, but where ModernBERT has one.
        given |= {'act': settings.act if settings.act == 'gelu_norm' else ''}
    if task.kind == 'spans':
        parts = task.train, task.validation, task.test
        given |= {'unanswerable': not all(all(part.target) for part in parts)}
    if task.kind == 'spans' and settings.rows == 'paper':
        given |= {'stride': 0}
    if task.template:
        given |= {'template': task.template}
    if task.kind == 'scores':
        check_scores(task)
    if task.kind in ('labels', 'tags'):
        given |= {'labels': _labels(task)}
    return saved.KINDS[task.kind](**given)


def check_scores(task):
    """Raises ValueError for a split whose numbers are all equal."""
    for split in ('train', 'validation', 'test'):
        target_N = getattr(task, split).target
        if np.ptp(target_N) == 0:
            raise ValueError(
                f'{task.name}: all {len(target_N)} scores of the {split} set are '
                f'{target_N[0]}, which nothing correlates with. Name another field, or '
                f'give a larger file `{split}`.'
            )


def _labels(task):
    """All classes or tags of a task; of tags, O first, as what is beyond a row has it."""
    parts = [task.train, task.validation, task.test]
    found = {
        str(one) for part in parts for target in part.target for one in _each(target)
    }
    learned = {str(one) for target in task.train.target for one in _each(target)}
    unseen = (
        Counter(str(one) for one in task.test.target) if task.kind == 'labels' else {}
    )
    if unseen := {one: count for one, count in unseen.items() if one not in learned}:
        warnings.warn(
            f'{task.name}: {sum(unseen.values()):,} of {len(task.test):,} test examples '
            f'have a class that no training example has: {", ".join(sorted(unseen))}. '
            'None can be right of these. Give `labels`, and another is an error.',
            stacklevel=2,
        )
    if len(learned) < 2:
        raise ValueError(
            f'{task.name}: all training examples say {learned.pop()!r}, but two classes '
            'are needed. Name another field, or raise `train`.'
        )
    return tuple(sorted(found, key=lambda label: (label != 'O', label)))


def _each(target):
    return target if isinstance(target, list | tuple) else [target]


def measure(kind_name, kind, examples, rows, answers):
    """metrics.base.Measured of answers to examples."""
    if kind_name == 'labels':
        said = [one['label'] for one in answers]
        return classes.measure(list(map(str, examples.target)), said, kind.labels)
    if kind_name == 'scores':
        return scores.measure(examples.target, [one['score'] for one in answers])
    if kind_name == 'tags':
        return tags.measure(examples.target, [one['tags'] for one in answers])
    has_none = not all(examples.target)
    return spans.measure(
        examples.target,
        [one['text'] for one in answers],
        [one['no_answer'] for one in answers] if has_none else None,
        positions=(kind.gold(rows), [one['tokens'] for one in answers]),
    )


def right(kind, examples, rows):
    """Answers that say what people said."""
    if kind.name != 'spans':
        key = {'labels': 'label', 'scores': 'score', 'tags': 'tags'}[kind.name]
        return [{key: str(x) if key == 'label' else x} for x in examples.target]
    return [
        {'text': one[0][1] if one else '', 'no_answer': 0.0, 'tokens': tokens}
        for one, tokens in zip(examples.target, kind.gold(rows))
    ]


def collapsed(examples, answers):
    """Is the answer to everything the same, where people said several things?"""
    said = {_plain(_said(one)) for one in answers}
    return len(said) == 1 and len({_plain(one) for one in examples.target}) > 1


def _plain(value):
    if isinstance(value, list | tuple):
        # Of tags and spans: which occur, as sentences differ in length.
        return tuple(sorted({_plain(one) for one in value}))
    return str(value)


def _said(answer):
    """The part of an answer that is kept for each instance."""
    return next(
        answer[key] for key in ('label', 'score', 'tags', 'text') if key in answer
    )


def _finite(params):
    return all(bool(jax.numpy.isfinite(leaf).all()) for leaf in jax.tree.leaves(params))
