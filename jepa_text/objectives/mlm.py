"""Masked language modeling: predicts masked tokens from the rest of the row."""

import dataclasses
from typing import Literal

import jax
import numpy as np

from jepa_text.data.masking import tokens as token_masks
from jepa_text.objectives.base import TokenObjective
from jepa_text.optim import schedules
from jepa_text.settings import ranges


def make(
    tokenizer,
    length,
    steps,
    rate: float | dict = 0.3,
    sampler: Literal['fixed', 'iid', 'whole_word', 'span'] = 'fixed',
    span_length: int | None = None,
    mask_share=1.0,
    random_share=0.0,
    attends: Literal['bidirectional', 'causal'] = 'bidirectional',
    shift=0,
    tied=False,
    logits_mib=512,
    z_weight=0.0,
):
    """Returns an MLM that masks `rate` of the maskable tokens.

    `rate` is a number, or a section of schedules.py over the phase. `sampler` chooses the
    masked tokens: `fixed`, a fixed number of tokens; `iid`, each independently;
    `whole_word`; `span`, with geometric lengths as in SpanBERT, or all of `span_length`.
    Of the masked tokens, `mask_share` are replaced by the mask token and `random_share`
    by a random token, and the rest stay unchanged; the loss includes all of them.
    `attends` is 'bidirectional' or 'causal'. With `shift=1` token i is predicted at
    position i - 1, as in decoders that are adapted. `tied` scores tokens with the input
    embedding, logits take at most `logits_mib` MiB at a time, and `z_weight` is the
    weight of the z-loss. Raises ValueError for options out of range.
    """
    _check(mask_share, random_share, shift)
    if span_length is not None:
        ranges.number('mlm: span_length', span_length, whole=True, minimum=1)
        if sampler != 'span':
            raise ValueError(
                f"mlm: span_length={span_length} needs sampler='span', not {sampler!r}."
            )
    rates = _rates(rate, steps, length)
    random_ids = np.setdiff1d(np.arange(tokenizer.vocab_size), [*tokenizer.special_ids])
    return MLM(
        rate=rates,
        sampler=sampler,
        span_length=span_length,
        mask_share=mask_share,
        random_share=random_share,
        shift=shift,
        mask_id=tokenizer.mask_id,
        special_ids=tuple(tokenizer.special_ids),
        random_ids=random_ids.astype(np.int32),
        starts_word=tokenizer.starts_word if sampler == 'whole_word' else None,
        capacity=token_masks.capacity(rates.max(), length, sampler == 'iid'),
        length=length,
        attends=attends,
        tied=tied,
        logits_mib=logits_mib,
        z_weight=z_weight,
        label='mntp' if shift else 'mlm',
    )


def _check(mask_share, random_share, shift):
    ranges.number('mlm: shift', shift, whole=True, minimum=0, maximum=1)
    if min(mask_share, random_share) < 0 or mask_share + random_share > 1 + 1e-9:
        raise ValueError(
            f'mlm: mask_share={mask_share} and random_share={random_share} must be at '
            'least 0 and add up to at most 1 (the rest stays unchanged).'
        )


def _rates(rate, steps, length):
    """Returns the rate at each step of the phase, or one for all, float64."""
    # Computed once, on the host: the pipeline's threads look it up for each row.
    schedule = schedules.make(rate, steps, 'mlm: rate')
    if isinstance(rate, int | float):
        table = np.full(1, rate, float)
    else:
        table = np.asarray(jax.vmap(schedule)(np.arange(steps)), np.float64)
    if not 0 < table.min() <= table.max() < 1:
        raise ValueError(
            f'mlm: rate={rate} must stay between 0 and 1 (papers use 0.15 to 0.5).'
        )
    if table.max() * length < 0.1:
        raise ValueError(
            f'mlm: rate={rate} masks less than one token in ten rows of {length}, so '
            f'there is nothing to learn. It must reach {0.1 / length:.2g}.'
        )
    return table


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MLM(TokenObjective):
    """-log p(token i | the row with its masked tokens replaced), at masked i only."""

    rate: np.ndarray
    sampler: str
    span_length: int | None
    mask_share: float
    random_share: float
    mask_id: int
    special_ids: tuple
    random_ids: np.ndarray
    starts_word: np.ndarray | None
    length: int

    @property
    def fills(self):
        return self.mask_share > 0

    @property
    def can_drop(self):
        """True for the iid sampler, whose count is random and may exceed the capacity."""
        return self.sampler == 'iid' and self.capacity < self.length

    def scorings(self, rate):
        # Always a fixed number of mask tokens, so that runs and samplers are comparable.
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
            dropped = np.count_nonzero(chosen_L) - np.count_nonzero(mask_L)
            example = example | {'dropped': np.array(dropped, np.int32)}
        return example | {
            'inputs': inputs_L,
            'labels': np.roll(tokens_L, -self.shift) if self.shift else tokens_L,
            'loss_mask': np.roll(mask_L, -self.shift) if self.shift else mask_L,
        }

    def _sample(self, allowed_L, example, rng, step):
        """Returns which of the allowed positions are masked."""
        rate = self.rate[min(step, len(self.rate) - 1)]
        if self.sampler == 'whole_word':
            starts_L = token_masks.word_starts(
                example['tokens'], example['segment_ids'], self.starts_word
            )
            return token_masks.whole_word(allowed_L, rate, rng, starts_L)
        if self.sampler == 'span':
            return token_masks.span(allowed_L, rate, rng, fixed_length=self.span_length)
        sample = token_masks.iid if self.sampler == 'iid' else token_masks.fixed_count
        return sample(allowed_L, rate, rng)
