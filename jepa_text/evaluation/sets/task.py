"""The task type: train, validation and test examples with targets, and a metric.

kind    first, second            target of an example              metrics
labels  texts, None or texts     a class                           'accuracy', 'mcc',
                                                                   'f1' (of class '1')
scores  texts, None or texts     a number                          'spearman'
texts   texts, None              none                              geometry only
tags    lists of words, None     a list with one tag per word      'entity_f1',
                                                                   'token_accuracy'
spans   questions, contexts      a list of (start character in     'f1' (of words)
                                 the context, text); [] if there
                                 is no answer
cloze   texts with one mask,     (the masked word, candidates;     'accuracy'
        None                     () for the whole vocabulary)
"""

import dataclasses
import itertools
import math
import warnings

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from jepa_text.data.corpora import invalid_text
from jepa_text.evaluation.sets import targets
from jepa_text.settings import resolve

SPLITS = ('train', 'validation', 'test')
VALIDATION_SHARE, VALIDATION_SEED = 0.05, 42  # of the papers


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
    """Examples of a split.

    `second` is None for single texts. `target` is None for unlabeled texts, an array for
    labels and scores, and a list of lists or tuples for tags, spans and cloze.
    """

    first: list
    second: list | None = None
    target: np.ndarray | list | None = None

    def __len__(self):
        return len(self.first)

    def texts(self):
        """Returns all first texts, then all second ones, with lists of words joined."""
        joined = (x if isinstance(x, str) else ' '.join(x) for x in self.first)
        return [*joined, *(self.second or ())]

    def take(self, index_M):
        """Returns the examples at these indices, in that order."""
        target = self.target
        if isinstance(target, list):
            target = [target[i] for i in index_M]
        elif target is not None:
            target = target[index_M]
        return Examples(
            [self.first[i] for i in index_M],
            self.second and [self.second[i] for i in index_M],
            target,
        )

    def draw(self, limit, seed=0):
        """Returns at most `limit` of the examples, drawn by `seed`, in order."""
        return self.take(drawn(len(self), limit, seed))


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """A task that is trained on `train` and scored on `test`.

    Geometry is measured on `test`.

    positive      for scores: a pair has the same meaning from this score on; for labels
                  of pairs: the class with the same meaning (None: no such class)
    validation    selects the learning rate (None: see with_validation)
    template      makes one text of a pair, e.g. 'Premise: {first}\nHypothesis: {second}'
                  ('': none)
    revision      commit of the data on the hub, or ''
    classes       for labels: all classes in order, in the type of the data, where targets
                  have their text; (): those of the targets, by targets.classes; for tags:
                  all tags in the order of a file that has their numbers, else ()
    zero_shot     whether it is answered without training (zero_shot.py); then only `test`
                  has examples
    """

    name: str
    kind: str
    metric: str
    train: Examples
    test: Examples
    positive: object = None
    validation: Examples | None = None
    template: str = ''
    revision: str = ''
    zero_shot: bool = False
    classes: tuple = ()


def named_set(kind, sets, task, path, own):
    """Returns the set that `task` names; `own` if it is '', for a set at `path`. Raises
    ValueError for an unknown name, and without a name or a path."""
    if task:
        resolve.check_choice(f'{kind}: task', task, sets)
    elif not path:
        raise ValueError(f'{kind} needs a path or one of the tasks {", ".join(sets)}.')
    return sets.get(task, own)


def examples(first, second=None, target=None, where='the task'):
    """Makes Examples of those with no empty text, and warns of how many were dropped;
    raises ValueError if fewer than four are left."""
    pairs = zip(first, second) if second is not None else ((text,) for text in first)
    full = [all(_is_text(text) for text in texts) for texts in pairs]
    kept = [i for i, is_full in enumerate(full) if is_full]
    if len(kept) < 4:
        bad = [text for text in (*first, *(second or ())) if not _is_text(text)]
        shown = f' (not {bad[0]!r})' if bad else ''
        raise ValueError(
            f'{where} has {len(kept)} examples of {len(first)} with texts that are not '
            f'empty{shown}, but at least four are needed. Check the file and the field '
            "names; a field in a field is named 'outer.inner'."
        )
    if empty := len(full) - len(kept):
        warnings.warn(
            f'{where}: {empty:,} of {len(full):,} examples have an empty text or a value '
            'that is not a string of valid Unicode, and are dropped, the first in row '
            f'{full.index(False) + 1:,}.',
            stacklevel=2,
        )
    target = None if target is None else np.asarray(target)
    return Examples(list(first), second and list(second), target).take(kept)


def classes(task):
    """Returns all classes of a task of labels, in order."""
    parts = (task.train, task.validation, task.test)
    values = [x for part in parts if part for x in np.asarray(part.target).tolist()]
    if any(isinstance(x, float) for x in values):
        return task.classes or tuple(sorted(set(values)))
    return task.classes or targets.classes(values)


def check_classes(task):
    """Raises ValueError if all training examples, or words, have one class or tag, and
    for a class that is given twice."""
    if len(set(map(str, task.classes))) < len(task.classes):
        raise ValueError(f'{task.name}: labels={list(task.classes)} must be unique.')
    target = task.train.target
    target = itertools.chain(*target) if task.kind == 'tags' else target
    if len(known := set(map(str, target))) < 2:
        raise ValueError(
            f'{task.name}: all training examples have the class {known.pop()!r}, but two '
            'classes are needed. Choose another field, or more training examples.'
        )


def check_names(tasks):
    """Raises ValueError if two tasks have one name."""
    names = [task.name for task in tasks]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(
            f'Two tasks are named {twice[0]!r}, so their results would be mixed: rename '
            "the file of one, or give it a `title`, as in dict(name='labeled', "
            "path='...', title='other')."
        )


def drawn(count, limit, seed=0):
    """Returns the indices of at most `limit` of `count` items, drawn by `seed`, in order.

    >>> drawn(4, 2).tolist(), drawn(2, 4).tolist()
    ([0, 2], [0, 1])
    """
    return np.sort(np.random.default_rng(seed).permutation(count)[:limit])


def make_splits(splits, make_split, seed=0, zero_shot=False):
    """Returns {train, validation, test: Examples, revision} of tables.Splits, for a Task.

    `make_split(rows, split)` makes the Examples of one split. A set without test rows is
    split by train_test_split; for a `zero_shot` task, all of its rows are the test set.
    """
    parts = {
        name: None if rows is None else make_split(rows, name)
        for name, rows in zip(SPLITS, splits)
    }
    if zero_shot:
        if parts['test'] is None:
            parts['test'], parts['train'] = parts['train'], None
        parts['train'] = parts['train'] or parts['test'].take([])
    elif parts['test'] is None:
        parts['train'], parts['test'] = train_test_split(parts['train'], seed)
    return parts | {'revision': splits.revision}


def train_test_split(whole, seed=0, test_share=0.4):
    """Splits Examples randomly by the seed; returns (train, test).

    Examples that share a text, directly or through other examples, stay on one side, so
    no text is on both. Groups too large for the test set go to the training set.
    """
    groups, is_test_N = _groups(whole), np.zeros(len(whole), bool)
    room = math.ceil(test_share * len(whole))
    for index in np.random.default_rng(seed).permutation(len(groups)):
        if len(groups[index]) <= room:
            is_test_N[groups[index]] = True
            room -= len(groups[index])
    if not is_test_N.any() and len(groups) > 1:
        is_test_N[min(groups, key=len)] = True
    if is_test_N.all() or not is_test_N.any():
        largest = max(map(len, groups))
        raise ValueError(
            f'{len(whole)} examples cannot be split without having a text on both sides: '
            f'{largest} are connected by shared texts. Give more examples, or a '
            'folder with files `train` and `test`; scores of pairs and retrieval need no '
            'training with zero_shot=True.'
        )
    return whole.take(np.flatnonzero(~is_test_N)), whole.take(np.flatnonzero(is_test_N))


def with_validation(task, share=VALIDATION_SHARE):
    """Returns the task with a validation set: its own, or this share of `train`.

    The share is drawn by VALIDATION_SEED. 5 % with seed 42 is the rule of arXiv
    2507.00994, section 3; unlike there, examples that share a text stay on one side.
    Raises ValueError if that is impossible.
    """
    if task.validation is not None:
        return task
    train, validation = train_test_split(task.train, VALIDATION_SEED, share)
    if len(validation) < share * len(task.train) / 2:
        warnings.warn(
            f'{task.name}: the validation set has {len(validation):,} of '
            f'{len(task.train):,} training examples, not {share:.0%}: most are connected '
            'by shared texts. Give a file `validation`.',
            stacklevel=2,
        )
    return dataclasses.replace(task, train=train, validation=validation)


def shared_texts(task):
    """Counts the test examples that share a text with the training set: either text of a
    pair, of spans the context; whitespace makes no difference."""
    known = {text for side in identifying_texts(task.train) for text in side}
    test = zip(*identifying_texts(task.test))
    return sum(not known.isdisjoint(texts) for texts in test)


def _groups(whole):
    """Returns lists of the indices of examples that share a text, directly or through
    others; for spans, a context."""
    columns = identifying_texts(whole)
    known = {text for side in columns for text in side}
    numbers = {text: n for n, text in enumerate(known)}
    ends = [[numbers[text] for text in side] for side in (columns[0], columns[-1])]
    links = sparse.coo_array((np.ones(len(whole)), ends), shape=(len(known),) * 2)
    _, group_of = csgraph.connected_components(links, directed=False)
    groups = {}
    for index, text in enumerate(columns[0]):
        groups.setdefault(group_of[numbers[text]], []).append(index)
    return list(groups.values())


def identifying_texts(whole):
    """Returns the columns of texts by which examples count as related.

    For spans, questions do not count: the same question has another answer in another
    context. Whitespace between words does not make another text.
    """
    texts, count = [normalize_spaces(text) for text in whole.texts()], len(whole)
    if whole.second is None:
        return [texts]
    is_spans = isinstance(whole.target, list)
    return [texts[count:]] if is_spans else [texts[:count], texts[count:]]


def normalize_spaces(text):
    """Replaces whitespace between words by single spaces."""
    return ' '.join(text.split())


def _is_text(text):
    is_full = isinstance(text, str) and bool(text.strip())
    return is_full and invalid_text.reason_of(text) != invalid_text.NOT_UTF8
