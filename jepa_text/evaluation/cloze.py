"""Which word stands at the mask? What a masked language model says, without training.

    text 'The whale is <mask>.', word 'white'
    -> ids of 'The whale is white.', those of the word masked
    -> log p(word) = sum of log p(token | the text without the word) over its tokens

All tokens of a word are masked at once: a pseudo-log-likelihood with as many masks as it
has tokens, by which longer words are at a disadvantage. Words of as many share a row.
"""

import functools
import json
import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.kinds import base, prediction

MARKS = ('<mask>', '[MASK]')
TOKENS = 1024  # of a batch, each with the whole vocabulary at its masks


class Question(NamedTuple):
    """What stands before and after the mask, the words that may be there, and which of
    them is right; `is_open`: every token of the vocabulary may be, beside the one."""

    before: str
    after: str
    words: tuple
    answer: int
    is_open: bool = False


class Told(NamedTuple):
    """`said` is the likeliest word, `rank` that of the right one, from 1, as many as are
    at least as likely; `log_likelihood` is the right one's, in nats."""

    said: str
    rank: int
    log_likelihood: float


class _Place(NamedTuple):
    """Of a row: where its masks are, and {word: its tokens} at them."""

    masks: tuple
    words: dict


def halves(text, where):
    """(what stands before the mask of a text, what after); ValueError unless there is
    one, MARKS."""
    count = sum(map(text.count, MARKS))
    if count != 1:
        raise ValueError(
            f'{where}: {text!r} has {count} masks, and must have one: '
            f'{" or ".join(MARKS)} in the place of the hidden word.'
        )
    mark = next(mark for mark in MARKS if mark in text)
    before, after = text.split(mark)
    return before, after


class Reading:
    """A load.Pretrained with a word head, in rows of at most `max_length` tokens."""

    def __init__(self, model, max_length=None):
        model.check_fills()
        self.model, self.reader = model, prediction.reader(model, max_length)
        self._unknown = _unknown(model.tokenizer)

    def told(self, questions):
        """[Told]. Raises ValueError for a word that the tokenizer does not know or cannot
        tell from another of its question, or, of an open one, has no single token for."""
        rows = self._rows(questions)
        found = [{} for _ in questions]
        for row, log_MV in self._read(rows):
            places_M = np.arange(len(row.notes.masks))
            for number, ids_M in row.notes.words.items():
                found[row.example][number] = float(log_MV[places_M, ids_M].sum())
            if questions[row.example].is_open:
                # Of one row, whose one mask it is.
                found[row.example] = self._of_all(log_MV[0], *row.notes.words.values())
        return [
            told if question.is_open else _best(question, told)
            for question, told in zip(questions, found)
        ]

    def _of_all(self, log_V, ids_1):
        right, best = float(log_V[ids_1[0]]), int(log_V.argmax())
        said = self.model.tokenizer.decode([best]).strip()
        return Told(said, int(np.sum(~(log_V < right))), right)

    def _rows(self, questions):
        """[base.Row] of all words; those that are masked alike share one."""
        texts = [q.before + word + q.after for q in questions for word in q.words]
        read = iter(self.reader.encode(texts))
        rows, cut = [], set()
        for index, question in enumerate(questions):
            known, seen = {}, {}
            for number, word in enumerate(question.words):
                ids, offsets = next(read)
                own = self._own(question, word, ids, offsets)
                if (same := seen.setdefault(tuple(ids[own]), word)) != word:
                    raise ValueError(
                        f'{self._name} reads {word!r} and {same!r} as the same tokens: '
                        f'leave one of them out{_in(question)}'
                    )
                tokens, masks = self._masked(ids, own)
                if len(ids) > self.reader.room:
                    cut.add(index)
                place = _Place(masks, {})
                row = known.setdefault(
                    tokens.tobytes(), base.Row(tokens, {}, index, place)
                )
                row.notes.words[number] = ids[own]
            rows += known.values()
        if cut:
            warnings.warn(
                f'{len(cut):,} of {len(questions):,} texts are longer than the '
                f'{self.reader.length:,} tokens that {self._name} reads: what is '
                'farthest from the mask is left out.',
                stacklevel=3,
            )
        return rows

    def _own(self, question, word, ids, offsets):
        """Places of the tokens that a word has in its text."""
        start, text = len(question.before), question.before + word + question.after
        stop = start + len(word)
        own = np.flatnonzero((offsets[:, 1] > start) & (offsets[:, 0] < stop))
        ends = (offsets[own[0], 0], offsets[own[-1], 1]) if len(own) else (0, 0)
        beside = text[ends[0] : start] + text[stop : ends[1]]
        if not len(own) or beside.strip():
            raise ValueError(
                f'{self._name} has no tokens for {word!r} alone: it hangs together with '
                f'what stands beside it{_in(question)}'
            )
        if self._unknown is not None and self._unknown in ids[own]:
            raise ValueError(
                f'{self._name} does not know the word {word!r}: take another, or leave '
                f'the text out{_in(question)}'
            )
        if question.is_open and len(own) > 1:
            raise ValueError(
                f'{word!r} has {len(own)} tokens for {self._name}, but without '
                f'candidates an answer must be one token: give candidates{_in(question)}'
            )
        return own

    def _masked(self, ids, own):
        """(tokens of the row, places of the masks in it): the whole text, or as much as
        fits, with the mask in its middle where it can be."""
        room, begin = self.reader.room, len(self.reader.begin)
        first = np.clip(own[0] - (room - len(own)) // 2, 0, max(0, len(ids) - room))
        ids = ids.copy()
        ids[own] = self.model.tokenizer.mask_id
        masks = begin + own - first
        if len(own) > room or masks[0] < self.model.shift:
            raise ValueError(
                f'{self._name} reads rows of {self.reader.length} tokens, and tells a '
                f'word by the position {self.model.shift} before it: there is no place '
                f'for {len(own)} masks at {masks[0]}.'
            )
        return self.reader.around(ids[first:]), tuple(masks.tolist())

    def _read(self, rows):
        """(row, log-probabilities of all tokens at its masks, [M, V]) of each."""
        pad_id = self.model.tokenizer.pad_id
        for count in sorted({len(row.notes.masks) for row in rows}):
            alike = [row for row in rows if len(row.notes.masks) == count]
            batches = prediction.batches(alike, pad_id, self.reader.length, TOKENS)
            for chosen, batch in batches:
                at_BM = np.full((len(batch['tokens']), count), self.model.shift)
                at_BM[: len(chosen)] = [alike[i].notes.masks for i in chosen]
                at_BM -= self.model.shift
                log_BMV = np.asarray(self._program(self.model.params, batch, at_BM))
                yield from ((alike[i], log_BMV[place]) for place, i in enumerate(chosen))

    @functools.cached_property
    def _program(self):
        network = self.model.network

        def log_probabilities(params, batch, at_BM):
            keys = 'tokens', 'segment_ids', 'positions'
            inputs = (batch[key] for key in keys)
            hidden_BLD = network.apply('encoder', params, *inputs, causal=False)
            masked_BMD = jnp.take_along_axis(hidden_BLD, at_BM[:, :, None], axis=1)
            embedding_VD = params['encoder']['embedding']
            logits_BMV = network.apply('lm_head', params, masked_BMD, embedding_VD)
            return jax.nn.log_softmax(logits_BMV.astype(jnp.float32))

        return jax.jit(log_probabilities)

    @property
    def _name(self):
        return self.model.name or 'The model'


def _best(question, told):
    """The Told of {word: log-likelihood}."""
    right, best = told[question.answer], max(sorted(told), key=told.get)
    rank = sum(not value < right for value in told.values())
    return Told(question.words[best], rank, right)


def _in(question):
    return f', in {question.before + MARKS[0] + question.after!r}.'


def _unknown(tokenizer):
    """The id of what stands for unknown text; None if there is none."""
    model = json.loads(tokenizer.content)['model']
    if model.get('unk_token') is not None:
        return tokenizer.backend.token_to_id(model['unk_token'])
    return model.get('unk_id')
