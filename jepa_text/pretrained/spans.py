"""Extractive question answering: a span of the context, or no answer."""

import dataclasses
import warnings
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jepa_text.pretrained import base
from jepa_text.settings import ranges

MIN_CONTEXT = 8  # minimum tokens of the context per row


class _Window(NamedTuple):
    """The part of the context in a row.

    offsets_L2  characters of the context at each position, or -1
    first       index of its first token in the context
    gold        tokens of the first correct answer, as indices in the context
    """

    offsets_L2: np.ndarray
    first: int
    gold: tuple


@dataclasses.dataclass(frozen=True)
class Spans(base.Kind):
    """The first and last token of the answer, with windows sliding over a long context.

    Each row has the question and as much of the context as fits; the windows start
    `stride` tokens apart. With stride 0 there is one row, and the rest is truncated. The
    target of a row without the answer is position 0, which means 'no answer'. Answers
    have at most `longest` tokens. Without `unanswerable`, each question has an answer, so
    the best span is always returned. With `learn='tokens'`, as in arXiv 2507.00994 (with
    stride 0), the target of each token is whether it belongs to the first answer.
    """

    template: str = 'Question: {first}\nContext: {second}'
    stride: int = 128
    longest: int = 30
    learn: str = 'ends'
    act: str = ''
    dropout: float = 0.0
    unanswerable: bool = True
    name = 'spans'

    def __post_init__(self):
        if self.learn not in ('ends', 'tokens'):
            raise ValueError(f'learn={self.learn!r}; there are: ends, tokens.')
        ranges.number('stride', self.stride, whole=True, minimum=0)
        ranges.number('longest', self.longest, whole=True, minimum=1)
        if not self.template.endswith('{second}'):
            raise ValueError(
                f'template={self.template!r} must end with {{second}}, the context, so '
                'that a row can hold a part of it.'
            )

    def rows(self, reader, examples):
        answers, rows = examples.target, []
        encoded = self._encoded(reader, examples)
        for index, (question, context) in enumerate(encoded):
            answer = None if answers is None else answers[index]
            try:
                rows += self._windows(reader, index, question, context, answer)
            except ValueError as error:
                # Its index is that in a split, which may be drawn from a file.
                asked = examples.first[index][:60]
                raise ValueError(f'{error} The question begins with {asked!r}.') from None
        gold = self.gold(rows)
        long = sum(len(tokens) > self.longest for tokens in gold)
        if long and self.learn == 'ends':
            warnings.warn(
                f'{long:,} of {len(gold):,} answers have more than {self.longest} '
                'tokens: they are learned, but cannot be predicted.',
                stacklevel=2,
            )
        return rows

    def _encoded(self, reader, examples):
        """(ids of the question, (ids, offsets) of the context) of each example."""
        prompts = [
            self.template.removesuffix('{second}').format(first=question)
            for question in examples.first
        ]
        texts = [a + b for a, b in zip(prompts, examples.second)]
        for prompt, (ids, offsets) in zip(prompts, reader.encode(texts)):
            split = int(np.sum(offsets[:, 1] <= len(prompt)))
            context = ids[split:], np.maximum(offsets[split:] - len(prompt), 0)
            yield ids[:split], context

    def _windows(self, reader, index, question, context, answers):
        ids, offsets = context
        if not len(ids):
            raise ValueError(
                f'context {index} has no tokens to encode: leave its question out.'
            )
        room = reader.room - len(question)
        if room < min(MIN_CONTEXT, len(ids)):
            raise ValueError(
                f'question {index} has {len(question)} tokens, which leaves room for '
                f'{max(0, room)} of the context in a row of {reader.length}: give a '
                'larger max_length, or leave the question out.'
            )
        gold = _tokens_of(answers[0], offsets) if answers else ()
        if answers and not gold:
            raise ValueError(
                f'example {index}: the answer {answers[0]!r} has no token of its '
                'context. Fix its position, or give [] if there is no answer.'
            )
        step, windows = min(self.stride, room), []
        starts = range(0, max(1, len(ids) - room + step), step) if step else [0]
        reader.counts['cut'] += not step and len(ids) > room
        for first in starts:
            part = slice(first, first + room)
            row = reader.with_specials(np.concatenate([question, ids[part]]))
            offsets_L2 = np.full((len(row), 2), -1)
            at = len(reader.begin) + len(question)
            count = len(offsets[part])
            offsets_L2[at : at + count] = offsets[part]
            inside = [at + i - first for i in gold if first <= i < first + count]
            whole = len(inside) == len(gold)
            targets = {} if answers is None else self._targets(len(row), inside, whole)
            notes = _Window(offsets_L2, first, gold)
            windows.append(base.Row(row, targets, index, notes))
        return windows

    def _targets(self, length, inside, whole):
        if self.learn == 'tokens':
            label_L = np.zeros(length, np.int32)
            label_L[inside] = 1
            return {'labels': label_L}
        has_answer = whole and inside
        ends = (inside[0], inside[-1]) if has_answer else (0, 0)
        return {'start': np.int32(ends[0]), 'stop': np.int32(ends[1])}

    def modules(self, encoder):
        return base.head(encoder, 2, self.act, self.dropout)

    def postprocess(self, logits_BL2, batch):
        if self.learn == 'tokens':
            return logits_BL2
        # An answer cannot start or end in padding.
        lowest = jnp.finfo(jnp.float32).min
        is_real_BL1 = batch['segment_ids'][:, :, None] > 0
        return jnp.where(is_real_BL1, logits_BL2.astype(jnp.float32), lowest)

    def loss(self, outputs_BL2, batch):
        if self.learn == 'tokens':
            return base.cross_entropy(outputs_BL2, batch['labels'])
        first, count = base.cross_entropy(outputs_BL2[:, :, 0], batch['start'])
        last, _ = base.cross_entropy(outputs_BL2[:, :, 1], batch['stop'])
        return (first + last) / 2, count

    def answers(self, outputs, rows, examples):
        """[{'text', 'start', 'probability', 'no_answer', 'tokens'}]

        `text` is '' for no answer; `no_answer` is the score of no answer minus that of
        the best span, in logits; `tokens` are indices of tokens in the context.
        """
        answers = {}
        for logits_L2, row in zip(outputs, rows):
            logits_L2 = np.asarray(logits_L2, np.float64)[: len(row.tokens)]
            read = self._best if self.learn == 'ends' else self._marked
            answers.setdefault(row.example, []).append(read(logits_L2, row.notes))
        always = self.learn == 'ends' and not self.unanswerable
        return [
            _best_answer(answers[index], context, always)
            for index, context in enumerate(examples.second)
        ]

    def gold(self, rows):
        """[tokens of the first answer] per example, as tuples; () if it has no answer."""
        return list({row.example: row.notes.gold for row in rows}.values())

    def _best(self, logits_L2, notes):
        """(score, score of no answer, (start, stop) characters, tokens) of the best."""
        places_M = np.flatnonzero(notes.offsets_L2[:, 1] >= 0)
        start_M, stop_M = logits_L2[places_M].T
        # The scores of the ends up to `longest` tokens from each start.
        beyond = np.full(self.longest - 1, -np.inf)
        windows = np.lib.stride_tricks.sliding_window_view
        score_MK = start_M[:, None] + windows(np.append(stop_M, beyond), self.longest)
        i, k = np.unravel_index(score_MK.argmax(), score_MK.shape)
        j = i + k
        span = notes.offsets_L2[places_M[i], 0], notes.offsets_L2[places_M[j], 1]
        tokens = tuple(range(notes.first + i, notes.first + j + 1))
        return score_MK[i, k], logits_L2[0].sum(), span, tokens

    def _marked(self, logits_L2, notes):
        """As `_best`, for learn='tokens': the run of positive tokens with the largest sum
        of margins."""
        places_M = np.flatnonzero(notes.offsets_L2[:, 1] >= 0)
        margin_M = logits_L2[places_M, 1] - logits_L2[places_M, 0]
        marked = np.flatnonzero(margin_M > 0)
        if not len(marked):
            return margin_M.max(), 0.0, (0, 0), ()
        runs = np.split(marked, np.flatnonzero(np.diff(marked) > 1) + 1)
        run = max(runs, key=lambda run: margin_M[run].sum())
        ends = (
            notes.offsets_L2[places_M[run[0]], 0],
            notes.offsets_L2[places_M[run[-1]], 1],
        )
        return margin_M[run].sum(), 0.0, ends, tuple(notes.first + int(i) for i in marked)


def _tokens_of(answer, offsets):
    """Indices of the tokens of a context that an answer (start, text) overlaps."""
    start, text = answer
    stop = start + len(text)
    touched = (offsets[:, 1] > start) & (offsets[:, 0] < stop)
    return tuple(np.flatnonzero(touched).tolist())


def _best_answer(windows, context, always=False):
    """The answer from the windows of one context; never empty with `always`."""
    score, _, (start, stop), tokens = max(windows, key=lambda window: window[0])
    none = min(window[1] for window in windows)
    text = context[start:stop] if tokens and (always or score > none) else ''
    start += len(text) - len(text.lstrip())  # a token may start with a space
    text = text.strip()
    return {
        'text': text,
        'start': int(start) if text else -1,
        'probability': float(1 / (1 + np.exp(np.clip(none - score, -50, 50)))),
        'no_answer': float(none - score),
        'tokens': tuple(map(int, tokens)) if text else (),
    }
