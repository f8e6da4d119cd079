"""What a task of the analysis is: texts, what people said of them, and a metric.

kind      target of an example             metrics
labels    a class of a text, or of a pair  'accuracy', 'f1' (of class 1), 'mcc'
scores    a number of a pair               'spearman'
texts     nothing                          geometry only
"""

import dataclasses

import numpy as np

KINDS = ('labels', 'scores', 'texts')


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
    """`second` is None for single texts, `target` is None for unlabelled ones."""

    first: list
    second: list | None = None
    target: np.ndarray | None = None

    def __len__(self):
        return len(self.first)

    def texts(self):
        """All texts: the first ones, then the second ones."""
        return [*self.first, *(self.second or ())]

    def take(self, index_M):
        """Those examples, in that order."""
        return Examples(
            [self.first[i] for i in index_M],
            self.second and [self.second[i] for i in index_M],
            None if self.target is None else self.target[index_M],
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """Probes learn from `train` and are scored on `test`; geometry is of `test`.

    `positive`: for scores, from which on a pair says the same; for labels of pairs, the
    class that does (None: no such).
    """

    name: str
    kind: str
    metric: str
    train: Examples
    test: Examples
    positive: object = None


def examples(first, second=None, target=None, where='the task'):
    """Examples without those that have an empty text; ValueError if few are left."""
    pairs = zip(first, second) if second is not None else ((text,) for text in first)
    kept = [i for i, texts in enumerate(pairs) if all(_is_text(t) for t in texts)]
    if len(kept) < 4:
        raise ValueError(
            f'{where} has {len(kept)} usable examples of {len(first)}: at least four '
            'need texts that are not empty. Is the right field named?'
        )
    target = None if target is None else np.asarray(target)
    return Examples(list(first), second and list(second), target).take(kept)


def scores(values, where):
    """float64 of numbers or their spellings; ValueError with the first bad one."""
    found = []
    for number, value in enumerate(values, 1):
        try:
            found.append(float(value))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f'{where}, row {number}: {value!r} is no number. Scores are numbers; '
                'classes belong into the task `labelled`.'
            ) from error
    return np.array(found)


def sample(task, train, test, seed):
    """The task with at most so many examples, drawn with the seed; in their order."""
    parts = []
    for part, most in ((task.train, train), (task.test, test)):
        index_M = np.random.default_rng(seed).permutation(len(part))[:most]
        parts.append(part.take(np.sort(index_M)))
    return dataclasses.replace(task, train=parts[0], test=parts[1])


def halves(whole, seed=0, test_share=0.4):
    """(train, test) of Examples that come as one: dealt by the seed.

    A text that occurs twice is on one side only.
    """
    keys = list(dict.fromkeys(_keys(whole)))
    order = np.random.default_rng(seed).permutation(len(keys))
    place = dict(zip(keys, order))
    is_test_N = np.array([place[k] < test_share * len(keys) for k in _keys(whole)])
    if is_test_N.all() or not is_test_N.any():
        raise ValueError(
            f'{len(keys)} different texts cannot be dealt into two sides. Give more.'
        )
    return whole.take(np.flatnonzero(~is_test_N)), whole.take(np.flatnonzero(is_test_N))


def _keys(whole):
    return list(zip(whole.first, whole.second)) if whole.second else list(whole.first)


def _is_text(text):
    return isinstance(text, str) and bool(text.strip())
