"""Masked language modeling: masked tokens are predicted from what is left."""

import dataclasses

import jax
import numpy as np

from jepa_text.config import ranges
from jepa_text.data.masking import documents as document_masks
from jepa_text.data.masking import tokens as token_masks
from jepa_text.objectives.base import TokenObjective
from jepa_text.optim import schedules

SAMPLERS = ('fixed', 'iid', 'whole_word', 'span', 'sentence')
ATTENDS = ('bidirectional', 'causal')


def make(
    tokenizer,
    length,
    steps,
    rate=0.3,
    sampler='fixed',
    span_length=None,
    mask_share=1.0,
    random_share=0.0,
    attends='bidirectional',
    shift=0,
    tied=False,
    logits_mib=512,
    z_weight=0.0,
    label='mlm',
):
    """`rate` of the maskable tokens is hidden: a number, a section of schedules.py over
    the phase, or `[low, high]`, drawn uniformly for each document.

    `sampler` says which: `fixed`, a fixed number of tokens; `iid`; `whole_word`; `span`,
    of geometric lengths as SpanBERT's, or all of `span_length`; `sentence`. Of the
    masked tokens `mask_share` become the mask token, `random_share` a random token, and
    the rest stays as it is; the loss counts at all of them. `attends` is 'both' ways or
    to the 'left'; with `shift=1` token i is predicted at i - 1, as adapted decoders do.
    Raises ValueError for what is out of range.
    """
    _check(sampler, mask_share, random_share, attends, shift)
    if span_length is not None:
        ranges.number('mlm: span_length', span_length, whole=True, minimum=1)
        if sampler != 'span':
            raise ValueError(
                f"mlm: span_length={span_length} needs sampler='span', not {sampler!r}."
            )
    rates, per_document = _rates(rate, steps, length)
    every_id, special_ids = np.arange(tokenizer.vocab_size), {*tokenizer.special_ids}
    random_ids = np.setdiff1d(every_id, [*special_ids], assume_unique=True)
    return MLM(
        rate=rates,
        per_document=per_document,
        sampler=sampler,
        span_length=span_length,
        mask_share=mask_share,
        random_share=random_share,
        shift=shift,
        mask_id=tokenizer.mask_id,
        special_ids=tuple(tokenizer.special_ids),
        random_ids=random_ids.astype(np.int32),
        table=_table(tokenizer, sampler),
        capacity=capacity(sampler, rates.max(), length),
        length=length,
        attends=attends,
        tied=tied,
        logits_mib=logits_mib,
        z_weight=z_weight,
        label=label,
    )


def capacity(sampler, rate, length):
    """Room for masked positions in a row: the fixed count, or the mean of the iid one
    plus six standard deviations (one row in 10^9 has more, and loses the rest, which
    `train/dropped_masks` counts)."""
    if sampler != 'iid':
        return token_masks.capacity(rate, length)
    deviation = (length * rate * (1 - rate)) ** 0.5
    return min(length, int(np.ceil(rate * length + 6 * deviation)))


def _check(sampler, mask_share, random_share, attends, shift):
    for what, value, known in (
        ('sampler', sampler, SAMPLERS),
        ('attends', attends, ATTENDS),
        ('shift', shift, (0, 1)),
    ):
        if value not in known:
            listed = ', '.join(map(str, known))
            raise ValueError(f'mlm: {what}={value!r}; there are: {listed}.')
    if min(mask_share, random_share) < 0 or mask_share + random_share > 1 + 1e-9:
        raise ValueError(
            f'mlm: mask_share={mask_share} and random_share={random_share} must be at '
            'least 0 and add up to at most 1 (the rest keeps its token).'
        )


def _table(tokenizer, sampler):
    """What the sampler asks of a token, bool [V]: begins a word, or ends a sentence."""
    if sampler == 'whole_word':
        return np.asarray(tokenizer.starts_word)
    if sampler == 'sentence':
        return np.array(
            [
                tokenizer.decode([token]).rstrip('"\'”’) ').endswith(('.', '!', '?'))
                for token in range(tokenizer.vocab_size)
            ]
        )
    return None


def _rates(rate, steps, length):
    """The rate at every step of the phase, float64; and (low, high) per document."""
    if isinstance(rate, list | tuple):
        for share in rate:
            ranges.number(f'mlm: rate={rate}, of which', share)
        if len(rate) != 2 or rate[0] > rate[1]:
            raise ValueError(f'mlm: rate={rate} is not [low, high], two ascending rates.')
        table, documents = np.full(1, max(rate)), tuple(rate)
        lowest = min(rate)
    else:
        # On the host, once: the pipeline's threads ask for it row by row.
        schedule = schedules.make(rate, steps, 'mlm: rate')
        is_constant = isinstance(rate, int | float)
        wanted = np.arange(1 if is_constant else steps)
        table, documents = np.asarray(jax.vmap(schedule)(wanted), np.float64), None
        table = np.full(1, rate, float) if is_constant else table
        lowest = table.min()
    if not 0 < lowest <= table.max() < 1:
        raise ValueError(
            f'mlm: rate={rate} is not between 0 and 1 throughout (papers: 0.15-0.5).'
        )
    if table.max() * length < 0.1:
        raise ValueError(
            f'mlm: rate={rate} masks not one token in ten rows of {length}, so there is '
            f'nothing to learn: it must reach {0.1 / length:.2g}.'
        )
    return table, documents


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MLM(TokenObjective):
    """-log p(token i | the row with its masked tokens replaced), at masked i only."""

    rate: np.ndarray
    per_document: tuple | None
    sampler: str
    span_length: int | None
    mask_share: float
    random_share: float
    mask_id: int
    special_ids: tuple
    random_ids: np.ndarray
    table: np.ndarray | None
    length: int

    @property
    def can_drop(self):
        """Only the iid sampler has no fixed count, and may not fit."""
        return self.sampler == 'iid' and self.capacity < self.length

    def scorings(self, rate):
        # Always the fixed number of mask tokens, so that runs and samplers compare.
        section = {'name': 'mlm', 'rate': rate, 'attends': self.attends}
        if self.shift:
            return {'mntp': {**section, 'shift': self.shift}}
        return {'mlm': section}

    def corrupt(self, example, rng, step=0):
        tokens_L = example['tokens']
        allowed_L = token_masks.maskable(
            tokens_L, example['segment_ids'], self.special_ids
        )
        if self.shift:
            # The first token of a document has no position before it to predict it.
            allowed_L &= example['positions'] > 0
        chosen_L = self._sample(allowed_L, example, rng, step)
        mask_L = token_masks.limit(chosen_L, self.capacity, rng)
        inputs_L = token_masks.replace(
            tokens_L,
            mask_L,
            rng,
            mask_id=self.mask_id,
            random_ids=self.random_ids,
            mask_share=self.mask_share,
            random_share=self.random_share,
        )
        if self.can_drop:
            dropped = token_masks.overflow(chosen_L, self.capacity)
            example = example | {'dropped': np.array(dropped, np.int32)}
        return example | {
            'inputs': inputs_L,
            'labels': np.roll(tokens_L, -self.shift) if self.shift else tokens_L,
            'loss_mask': np.roll(mask_L, -self.shift) if self.shift else mask_L,
        }

    def _sample(self, allowed_L, example, rng, step):
        """Which of the allowed positions are masked."""
        tokens_L, segments_L = example['tokens'], example['segment_ids']
        sample = {
            'fixed': token_masks.fixed_count,
            'iid': token_masks.iid,
            'whole_word': lambda *given: token_masks.whole_word(
                *given, token_masks.word_starts(tokens_L, segments_L, self.table)
            ),
            'span': lambda *given: token_masks.span(
                *given, fixed_length=self.span_length
            ),
            'sentence': lambda *given: token_masks.sentence(
                *given, token_masks.sentence_ids(tokens_L, segments_L, self.table)
            ),
        }[self.sampler]
        if self.per_document is None:
            rate = self.rate[min(step, len(self.rate) - 1)]
            return sample(allowed_L, rate, rng)
        rates = document_masks.document_rates(
            segments_L, lambda count: rng.uniform(*self.per_document, count)
        )
        return document_masks.by_document(sample, allowed_L, rates, rng, segments_L)
