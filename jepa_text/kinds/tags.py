"""Tagging of words in a text, such as entities or parts of speech."""

import dataclasses

import numpy as np

from jepa_text.kinds import base


@dataclasses.dataclass(frozen=True)
class Tags(base.Kind):
    """One of `labels` for each word; words are joined by single spaces.

    With `learn='first'`, the first token of a word is trained and predicts its tag. With
    'all', as in arXiv 2507.00994, every token is, and the majority decides. A word that
    was truncated gets the first of `labels`.
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
        tags = examples.target
        return [
            self._row(reader, index, words, ids, offsets, tags and tags[index])
            for index, (words, (ids, offsets)) in enumerate(
                zip(examples.first, reader.encode(texts))
            )
        ]

    def _row(self, reader, index, words, ids, offsets, tags):
        ends = np.cumsum([len(word) + 1 for word in words])
        # A token may start with the space before its word.
        word_N = np.searchsorted(ends, np.maximum(offsets[:, 1] - 1, 0), side='right')
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
        """[{'words', 'tags', 'probabilities'}]; truncated words have probability 0."""
        found = []
        for logits_LC, row in zip(outputs, rows):
            words, word_L = examples.first[row.example], row.notes
            shares_LC = base.softmax(logits_LC)[: len(word_L)]
            tags, probabilities = [self.labels[0]] * len(words), [0.0] * len(words)
            for word in np.unique(word_L[word_L >= 0]):
                shares_TC = shares_LC[word_L == word]
                shares_C = shares_TC[0]
                number = int(shares_C.argmax())
                if self.learn == 'all':
                    votes_C = np.bincount(shares_TC.argmax(axis=1))
                    number, shares_C = int(votes_C.argmax()), shares_TC.mean(axis=0)
                tags[word] = self.labels[number]
                probabilities[word] = float(shares_C[number])
            found.append(
                {'words': list(words), 'tags': tags, 'probabilities': probabilities}
            )
        return found
