"""Cloze scoring: the probability of words at a mask, by a masked language model as it is.

    text 'The whale is <mask>.', word 'white'
    -> ids of 'The whale is white.', with the word's tokens masked
    -> log p(word) = sum of log p(token | the text without the word) over its tokens

All tokens of a word are masked at once: a pseudo-log-likelihood with one mask per token,
which disadvantages longer words. Words with the same number of tokens share a row.
"""

import functools
import re
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.data import truncation
from jepa_text.data.tokenizers import measures
from jepa_text.pretrained import base, prediction

MASKS = ('<mask>', '[MASK]')
TOKENS = 1024  # per batch; logits over the whole vocabulary are computed at its masks


class Question(NamedTuple):
    """A text with one mask, its candidate words, and the index of the correct one.

    `before` and `after` are the text around the mask. If `is_open`, every token of the
    vocabulary is a candidate, and `words` is the correct one only.
    """

    before: str
    after: str
    words: tuple
    answer: int
    is_open: bool = False


class Prediction(NamedTuple):
    """The likeliest candidate, and of the correct word its rank, from 1 (the number of
    candidates that are at least as likely), and its log-likelihood in nats."""

    word: str
    rank: int
    log_likelihood: float


class _AtMasks(NamedTuple):
    """The mask positions of a row, and {index of a candidate: its tokens} at them."""

    masks: tuple
    words: dict


def split_at_mask(text, where):
    """Returns the text [before, after] its mask; raises ValueError unless it has exactly
    one of MASKS."""
    parts = re.split('|'.join(map(re.escape, MASKS)), text)
    if len(parts) != 2:
        raise ValueError(
            f'{where}: {text!r} has {len(parts) - 1} masks, but must have exactly one: '
            f'{" or ".join(MASKS)} in place of the hidden word.'
        )
    return parts


class Scorer:
    """Answers questions by a load.Pretrained."""

    def __init__(self, model):
        model.check_fills()
        self.model, self.reader = model, prediction.reader(model)
        self._unknown = measures.unknown_id_of(model.tokenizer)

    def predict(self, questions):
        """Returns the Prediction for each question.

        Raises ValueError for a word that the tokenizer does not know, that has the same
        tokens as another candidate, or that is no single token in an open question.
        """
        predictions = [None] * len(questions)
        scores = [{} for _ in questions]
        for row, log_MV in self._log_probabilities(self._rows(questions)):
            masks_M = np.arange(len(row.notes.masks))
            for number, ids_M in row.notes.words.items():
                scores[row.example][number] = float(log_MV[masks_M, ids_M].sum())
            if questions[row.example].is_open:
                # An open question has one row with one mask.
                (ids_1,) = row.notes.words.values()
                predictions[row.example] = self._of_vocabulary(log_MV[0], ids_1[0])
        return [
            predicted or _of_candidates(*scored)
            for predicted, *scored in zip(predictions, questions, scores)
        ]

    def _of_vocabulary(self, log_V, answer_id):
        # An embedding may have more rows than there are tokens.
        log_V = log_V[: self.model.tokenizer.vocab_size]
        correct, best = float(log_V[answer_id]), int(log_V.argmax())
        word = self.model.tokenizer.decode([best]).strip()
        return Prediction(word, int(np.sum(~(log_V < correct))), correct)

    def _rows(self, questions):
        """Returns a base.Row for each different masked text of the questions."""
        texts = [q.before + word + q.after for q in questions for word in q.words]
        read = [*self.reader.encode(texts)]
        cut = sum(len(ids) > self.reader.room for ids, _ in read)
        truncation.warn(self._name, cut, len(texts), self.reader.length)
        read, rows = iter(read), []
        for index, question in enumerate(questions):
            known, seen = {}, {}
            for number, word in enumerate(question.words):
                ids, offsets = next(read)
                positions = self._token_positions(question, word, ids, offsets)
                if (same := seen.setdefault(tuple(ids[positions]), word)) != word:
                    raise ValueError(
                        f'{self._name} has the same tokens for {word!r} and {same!r}: '
                        f'remove one of them{_in(question)}'
                    )
                tokens, masks = self._masked_row(ids, positions)
                at_masks = _AtMasks(masks, {})
                row = known.setdefault(
                    tokens.tobytes(), base.Row(tokens, {}, index, at_masks)
                )
                row.notes.words[number] = ids[positions]
            rows += known.values()
        return rows

    def _token_positions(self, question, word, ids, offsets):
        start, text = len(question.before), question.before + word + question.after
        stop = start + len(word)
        positions = np.flatnonzero((offsets[:, 1] > start) & (offsets[:, 0] < stop))
        adjacent = ''
        if len(positions):
            first, last = offsets[positions[0], 0], offsets[positions[-1], 1]
            adjacent = text[first:start] + text[stop:last]
        if not len(positions) or adjacent.strip():
            raise ValueError(
                f'{self._name} has no separate tokens for {word!r}: they contain '
                f'adjacent text{_in(question)}'
            )
        if self._unknown is not None and self._unknown in ids[positions]:
            raise ValueError(
                f'{self._name} does not know the word {word!r}: use another, or remove '
                f'the text{_in(question)}'
            )
        if question.is_open and len(positions) > 1:
            raise ValueError(
                f'{word!r} has {len(positions)} tokens in {self._name}, but without '
                f'candidates an answer must be one token: give candidates{_in(question)}'
            )
        return positions

    def _masked_row(self, ids, positions):
        """Returns (tokens of the row, positions of its masks): the whole text, or as much
        as fits, with the mask in the middle if possible."""
        limit, count = self.reader.room, len(positions)
        start = positions[0] - (limit - count) // 2
        start = np.clip(start, 0, max(0, len(ids) - limit))
        ids = ids.copy()
        ids[positions] = self.model.tokenizer.mask_id
        masks = len(self.reader.begin) + positions - start
        if count > limit or masks[0] < self.model.shift:
            raise ValueError(
                f'{self._name} reads rows of {self.reader.length} tokens and predicts a '
                f'token from the position {self.model.shift} before it, so {count} '
                f'masks at position {masks[0]} do not fit.'
            )
        return self.reader.with_specials(ids[start:]), tuple(masks.tolist())

    def _log_probabilities(self, rows):
        """Yields (row, log_MV), the log-probabilities of all tokens at a row's masks."""
        pad_id = self.model.tokenizer.pad_id
        for count in sorted({len(row.notes.masks) for row in rows}):
            same_count = [row for row in rows if len(row.notes.masks) == count]
            batches = prediction.batches(same_count, pad_id, self.reader.length, TOKENS)
            for chosen, batch in batches:
                at_BM = np.full((len(batch['tokens']), count), self.model.shift)
                at_BM[: len(chosen)] = [same_count[i].notes.masks for i in chosen]
                at_BM -= self.model.shift
                log_BMV = np.asarray(self._program(self.model.params, batch, at_BM))
                yield from ((same_count[i], log_MV) for i, log_MV in zip(chosen, log_BMV))

    @functools.cached_property
    def _program(self):
        network = self.model.network

        def log_probabilities(params, batch, at_BM):
            hidden_BLD = base.hidden(network, params, batch)
            masked_BMD = jnp.take_along_axis(hidden_BLD, at_BM[:, :, None], axis=1)
            embedding_VD = params['encoder']['embedding']
            logits_BMV = network.apply('lm_head', params, masked_BMD, embedding_VD)
            return jax.nn.log_softmax(logits_BMV.astype(jnp.float32))

        return jax.jit(log_probabilities)

    @property
    def _name(self):
        return self.model.name or 'The model'


def _of_candidates(question, log_likelihoods):
    correct = log_likelihoods[question.answer]
    best = max(sorted(log_likelihoods), key=log_likelihoods.get)
    # Negated, so that NaN counts as likelier.
    rank = sum(not value < correct for value in log_likelihoods.values())
    return Prediction(question.words[best], rank, correct)


def _in(question):
    return f', in {question.before + MASKS[0] + question.after!r}.'
