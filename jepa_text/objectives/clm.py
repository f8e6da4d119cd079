"""Causal language modelling: every position predicts the next token of its document."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from jepa_text.models.heads import LMHead, word_scores


def make(tokenizer, length, steps, tied=False, chunk=512):
    """`tied` scores words with the input embedding; `chunk` positions of a row have
    logits at a time."""
    return CLM(tied=tied, chunk=chunk)


@dataclasses.dataclass(frozen=True)
class CLM:
    """-log p(token i + 1 | tokens 1..i), where both are in the same document."""

    tied: bool
    chunk: int
    causal = True
    has_target = False

    def modules(self, encoder):
        return {'lm_head': LMHead(encoder.vocab_size, encoder.width, self.tied)}

    def corrupt(self, example, rng):
        segments_L = example['segment_ids']
        same_L = (segments_L[1:] == segments_L[:-1]) & (segments_L[1:] > 0)
        return example | {
            'inputs': example['tokens'],
            'loss_mask': np.append(same_L, False),
        }

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
        next_BL = jnp.roll(batch['tokens'], -1, axis=1)
        sums = word_scores(
            apply, params, hidden_BLD, next_BL, batch['loss_mask'], self.chunk
        )
        share = 1 / jnp.maximum(counts['tokens'], 1)
        loss = sums['loss'] * share
        return loss, {'clm_loss': loss, 'clm_accuracy': sums['correct'] * share}
