"""What a task is: texts, what people said of them, and a metric.

kind    first, second            target of an example              metrics
labels  texts, None or texts     a class                           'accuracy', 'mcc',
                                                                   'f1' (of class '1')
scores  texts, None or texts     a number                          'spearman'
texts   texts, None              nothing                           geometry only
tags    lists of words, None     a list with a tag a word          'entity_f1',
                                                                   'token_accuracy'
spans   questions, contexts      a list of (start character in     'f1' (of words)
                                 the context, text); [] where
                                 there is no answer
cloze   texts with one mask,     (the hidden word, all words       'accuracy'
        None                     that may be it; () any)
"""

import dataclasses
import math
import warnings

import numpy as np

from jepa_text.config import resolve

KINDS = ('labels', 'scores', 'texts', 'tags', 'spans', 'cloze')
VALIDATION_SHARE, VALIDATION_SEED = 0.05, 42  # of the papers


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
    """`second` is None for single texts, `target` is None for unlabeled ones, an array
    of labels and scores, and a list of lists or tuples for tags, spans and cloze."""

    first: list
    second: list | None = None
    target: np.ndarray | list | None = None

    def __len__(self):
        return len(self.first)

    def texts(self):
        """All texts: the first ones, words of them joined by spaces; then the second."""
        joined = (x if isinstance(x, str) else ' '.join(x) for x in self.first)
        return [*joined, *(self.second or ())]

    def take(self, index_M):
        """Those examples, in that order."""
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


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """One learns from `train` and is scored on `test`; geometry is of `test`.

    `positive`: for scores, from which on a pair says the same; for labels of pairs, the
    class that does (None: no such). `validation` is what a learning rate is chosen by
    (None: see with_validation). `template` makes one text of the two of a pair, such as
    'Premise: {first}\nHypothesis: {second}' ('': none is given). `revision`: the commit
    of the hub that the data are of, or ''.
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
    zero_shot: object = None


def named_set(kind, sets, task, path, own):
    """The one of `sets` that `task` names; `own` for '', which is a set at `path`.

    Raises ValueError for a name of none of them, and for neither a name nor a path.
    """
    if task:
        resolve.check_choice(f'{kind}: task', task, sets)
    elif not path:
        raise ValueError(f'{kind} needs a path, or a task; there are: {", ".join(sets)}')
    return sets.get(task, own)


def examples(first, second=None, target=None, where='the task'):
    """Examples without those that have an empty text, with a warning of how many;
    ValueError if few are left."""
    pairs = zip(first, second) if second is not None else ((text,) for text in first)
    full = [all(_is_text(text) for text in texts) for texts in pairs]
    kept = [i for i, is_full in enumerate(full) if is_full]
    if len(kept) < 4:
        raise ValueError(
            f'{where} has {len(kept)} usable examples of {len(first)}: at least four '
            'need texts that are not empty. Is the right field named?'
        )
    if empty := len(full) - len(kept):
        warnings.warn(
            f'{where}: {empty:,} of {len(full):,} examples have an empty text, or '
            'what is no text, and are left out, the first in row '
            f'{full.index(False) + 1:,}.',
            stacklevel=2,
        )
    target = None if target is None else np.asarray(target)
    return Examples(list(first), second and list(second), target).take(kept)


def sample(task, train, test, seed):
    """The task with at most so many examples, drawn with the seed; in their order."""
    parts = []
    for part, limit in ((task.train, train), (task.test, test)):
        index_M = np.random.default_rng(seed).permutation(len(part))[:limit]
        parts.append(part.take(np.sort(index_M)))
    return dataclasses.replace(task, train=parts[0], test=parts[1])


def sides(splits, side, seed=0):
    """{train, validation, test: Examples, revision} of tables.Splits, for a Task.

    `side(rows, split)` makes the Examples of one. A set without test rows is dealt by
    train_test_split.
    """
    made = {
        name: None if rows is None else side(rows, name)
        for name, rows in zip(('train', 'validation', 'test'), splits)
    }
    if made['test'] is None:
        made['train'], made['test'] = train_test_split(made['train'], seed)
    return made | {'revision': splits.revision}


def train_test_split(whole, seed=0, test_share=0.4):
    """(train, test) of Examples that come as one: dealt by the seed.

    A text that occurs twice is on one side only: examples that share a text, also by
    way of others, stay together. Groups too large for the test set are trained on.
    """
    groups = {}
    for number, root in enumerate(roots(whole)):
        groups.setdefault(root, []).append(number)
    groups, is_test_N = list(groups.values()), np.zeros(len(whole), bool)
    room = math.ceil(test_share * len(whole))
    for place in np.random.default_rng(seed).permutation(len(groups)):
        if len(groups[place]) <= room:
            is_test_N[groups[place]] = True
            room -= len(groups[place])
    if not is_test_N.any() and len(groups) > 1:
        is_test_N[min(groups, key=len)] = True
    if is_test_N.all() or not is_test_N.any():
        largest = max(map(len, groups))
        raise ValueError(
            f'{len(whole)} examples cannot be dealt into two sides without a text on '
            f'both: {largest} hang together by the texts that they share. Give more, or '
            'a folder with files `train` and `test`.'
        )
    return whole.take(np.flatnonzero(~is_test_N)), whole.take(np.flatnonzero(is_test_N))


def with_validation(task, share=VALIDATION_SHARE, seed=VALIDATION_SEED):
    """The task with a validation set: its own, or so much of `train`, dealt by the seed.

    5 % with seed 42 is the rule of arXiv 2507.00994, section 3; other than there,
    examples that share a text stay on one side. Raises ValueError where that cannot be.
    """
    if task.validation is not None:
        return task
    if not 0 < share < 1:
        raise ValueError(
            f'share={share!r} of the training set becomes the validation set: give more '
            'than 0 and less than 1.'
        )
    train, validation = train_test_split(task.train, seed, share)
    if len(validation) < share * len(task.train) / 2:
        warnings.warn(
            f'{task.name}: {len(validation):,} of {len(task.train):,} training examples '
            f'are the validation set, not {share:.0%}: most hang together by the texts '
            'that they share. Give a file `validation`.',
            stacklevel=2,
        )
    return dataclasses.replace(task, train=train, validation=validation)


def shared_texts(task):
    """How many test examples have a text that the training set has, either side of a
    pair, of spans the context; the same words with other white space between them are
    the same text."""
    known = {text for side in _telling(task.train) for text in side}
    return sum(not known.isdisjoint(one) for one in zip(*_telling(task.test)))


def roots(whole):
    """For each example a text, the same for all that hang together (union-find): those
    that share a text, also by way of others; of spans those that share a context."""
    first, *others = _telling(whole)
    parent = {text: text for side in (first, *others) for text in side}

    def root(text):
        while parent[text] != text:
            parent[text] = text = parent[parent[text]]
        return text

    for one, other in zip(first, *others) if others else ():
        parent[root(other)] = root(one)
    return [root(text) for text in first]


def _telling(whole):
    """The columns of texts by which one example may tell of another. Not the questions
    of spans: of another context, the same question has another answer. White space
    between words does not make another text."""
    texts, count = [squeezed(text) for text in whole.texts()], len(whole)
    if whole.second is None:
        return [texts]
    is_spans = isinstance(whole.target, list)
    return [texts[count:]] if is_spans else [texts[:count], texts[count:]]


def squeezed(text):
    """The text with single spaces between its words."""
    return ' '.join(text.split())


def _is_text(text):
    return isinstance(text, str) and bool(text.strip())
