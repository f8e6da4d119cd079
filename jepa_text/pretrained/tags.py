"""Tagging of words in a text, such as entities or parts of speech."""

import dataclasses
import warnings
from collections import Counter

import numpy as np

from jepa_text.pretrained import base


@dataclasses.dataclass(frozen=True)
class Tags(base.Kind):
    """One of `labels` for each word; words are joined by single spaces.

    With `learn='first'`, the first token of a word is trained and predicts its tag. With
    'all', as in arXiv 2507.00994, every token is, and the majority decides. A word
    without a token, as it was truncated or the tokenizer drops its characters, is O; if
    there is no such tag, the first of `labels`.
    """

    labels: tuple = ()
    learn: str = 'first'
    act: str = ''
    dropout: float = 0.0
    name = 'tags'

    def __post_init__(self):
        if self.learn not in ('first', 'all'):
            raise ValueError(f'learn={self.learn!r}; there are: first, all.')

    def rows(self, reader, examples):
        texts = [' '.join(words) for words in examples.first]
        tags, lost = examples.target, Counter()
        rows = [
            self._row(reader, index, words, ids, offsets, tags and tags[index], lost)
            for index, (words, (ids, offsets)) in enumerate(
                zip(examples.first, reader.encode(texts, allow_empty=True))
            )
        ]
        if lost:
            warnings.warn(
                f'{lost.total():,} of {sum(map(len, examples.first)):,} words have no '
                f'token of this tokenizer, such as {next(iter(lost))!r}: they are '
                f'predicted as {self.missing!r}, and count like all others.',
                stacklevel=2,
            )
        return rows

    @property
    def missing(self):
        """The tag of words without a token."""
        return 'O' if 'O' in self.labels else self.labels[0]

    def _row(self, reader, index, words, ids, offsets, tags, lost):
        # The space before a word belongs to it, also as a token by itself.
        spaces = np.cumsum([len(word) + 1 for word in words]) - 1
        last_N = np.maximum(offsets[:, 1] - 1, offsets[:, 0])
        word_N = np.searchsorted(spaces[:-1], last_N, side='right')
        lost.update(words[n] for n in set(range(len(words))).difference(word_N))
        word_N = word_N[: reader.room]
        row = reader.with_specials(ids)
        word_L = np.full(len(row), -1)
        word_L[len(reader.begin) : len(reader.begin) + len(word_N)] = word_N
        if tags is None:
            return base.Row(row, {}, index, word_L)
        label_L = np.full(len(row), base.IGNORED, np.int32)
        number_W = np.array([base.label_index(self.labels, t) for t in tags], np.int32)
        label_L[word_L >= 0] = number_W[word_N]
        if self.learn == 'first':
            label_L[np.flatnonzero(word_L[1:] == word_L[:-1]) + 1] = base.IGNORED
        return base.Row(row, {'labels': label_L}, index, word_L)

    def modules(self, encoder):
        return base.head(encoder, len(self.labels), self.act, self.dropout)

    def loss(self, outputs_BLC, batch):
        return base.cross_entropy(outputs_BLC, batch['labels'])

    def answers(self, outputs, rows, examples):
        """[{'words', 'tags', 'probabilities'}]; words without a token have probability
        0."""
        predicted = []
        for logits_LC, row in zip(outputs, rows):
            words, word_L = examples.first[row.example], row.notes
            shares_LC = base.softmax(logits_LC)[: len(word_L)]
            tags, probabilities = [self.missing] * len(words), [0.0] * len(words)
            for word in np.unique(word_L[word_L >= 0]):
                shares_TC = shares_LC[word_L == word]
                shares_C = shares_TC[0]
                number = int(shares_C.argmax())
                if self.learn == 'all':
                    votes_C = np.bincount(shares_TC.argmax(axis=1))
                    number, shares_C = int(votes_C.argmax()), shares_TC.mean(axis=0)
                tags[word] = self.labels[number]
                probabilities[word] = float(shares_C[number])
            predicted.append(
                {'words': list(words), 'tags': tags, 'probabilities': probabilities}
            )
        return predicted
