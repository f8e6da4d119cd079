"""Masked language modelling: hidden tokens are predicted from both sides."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from jepa_text import losses, masking
from jepa_text.models.heads import LMHead, word_scores

SAMPLERS = ('fixed', 'iid')


def make(
    tokenizer,
    length,
    steps,
    rate=0.3,
    sampler='fixed',
    mask_share=1.0,
    random_share=0.0,
    tied=False,
    chunk=512,
):
    """`rate` of the maskable tokens is hidden: a `fixed` number per row, or `iid`.

    Of the hidden tokens `mask_share` become the mask token, `random_share` a random
    word, and the rest stays as it is; the loss counts at all of them. Raises
    ValueError for shares or rates outside their range.
    """
    if not 0 < rate < 1:
        raise ValueError(f'mlm: rate={rate} is not between 0 and 1 (papers: 0.15-0.5).')
    if sampler not in SAMPLERS:
        raise ValueError(f'mlm: sampler={sampler!r}; there are: {", ".join(SAMPLERS)}.')
    kept = 1 - mask_share - random_share
    if min(mask_share, random_share) < 0 or kept < -1e-9:
        raise ValueError(
            f'mlm: mask_share={mask_share} and random_share={random_share} must be at '
            'least 0 and add up to at most 1 (the rest keeps its token).'
        )
    words = np.setdiff1d(np.arange(tokenizer.vocab_size), tokenizer.special_ids)
    return MLM(
        rate=rate,
        sampler=sampler,
        mask_share=mask_share,
        random_share=random_share,
        tied=tied,
        chunk=chunk,
        mask_id=tokenizer.mask_id,
        special_ids=tuple(tokenizer.special_ids),
        words=words.astype(np.int32),
        capacity=capacity(sampler, rate, length),
    )


def capacity(sampler, rate, length):
    """Room for hidden positions in a row: the fixed count, or the mean of the iid one
    plus six standard deviations (one row in 10^9 has more, and loses the rest)."""
    if sampler == 'fixed':
        return masking.capacity(rate, length)
    deviation = (length * rate * (1 - rate)) ** 0.5
    return min(length, int(np.ceil(rate * length + 6 * deviation)))


@dataclasses.dataclass(frozen=True, eq=False)
class MLM:
    """-log p(token i | the row with its hidden tokens replaced), at hidden i only."""

    rate: float
    sampler: str
    mask_share: float
    random_share: float
    tied: bool
    chunk: int
    mask_id: int
    special_ids: tuple
    words: np.ndarray
    capacity: int
    causal = False
    has_target = False

    def modules(self, encoder):
        return {'lm_head': LMHead(encoder.vocab_size, encoder.width, self.tied)}

    def corrupt(self, example, rng):
        tokens_L = example['tokens']
        allowed_L = masking.maskable(tokens_L, example['segment_ids'], self.special_ids)
        if self.sampler == 'fixed':
            mask_L = masking.fixed_count(allowed_L, self.rate, rng)
        else:
            mask_L = masking.iid(allowed_L, self.rate, rng)
            mask_L = masking.limit(mask_L, self.capacity, rng)
        inputs_L = masking.replace(
            tokens_L,
            mask_L,
            rng,
            mask_id=self.mask_id,
            random_ids=self.words,
            mask_share=self.mask_share,
            random_share=self.random_share,
        )
        return example | {'inputs': inputs_L, 'loss_mask': mask_L}

    def counts(self, batch):
        return {'tokens': jnp.sum(batch['loss_mask'])}

    def loss(self, apply, params, target, batch, step, counts):
        hidden_BLD = apply(
            'encoder',
            params,
            batch['inputs'],
            batch['segment_ids'],
            batch['positions'],
            causal=self.causal,
        )
        index_BM, where_BM = losses.select(batch['loss_mask'], self.capacity)
        hidden_BMD = losses.take(hidden_BLD, index_BM)
        return self.score(apply, params, hidden_BMD, index_BM, where_BM, batch, counts)

    def score(self, apply, params, hidden_BMD, index_BM, where_BM, batch, counts):
        """The loss from hidden states at the selected positions; the hybrid shares it."""
        labels_BM = jnp.take_along_axis(batch['tokens'], index_BM, axis=1)
        sums = word_scores(apply, params, hidden_BMD, labels_BM, where_BM, self.chunk)
        share = 1 / jnp.maximum(counts['tokens'], 1)
        loss = sums['loss'] * share
        return loss, {'mlm_loss': loss, 'mlm_accuracy': sums['correct'] * share}
