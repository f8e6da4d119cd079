"""Causal language modeling: each position predicts the next token of its document."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from jepa_text.objectives.base import TokenObjective


def make(tokenizer, length, steps, tied=False, logits_mib=512, z_weight=0.0):
    """Returns a CLM.

    `tied` scores tokens with the input embedding; logits take at most `logits_mib` MiB at
    a time; `z_weight` is the weight of the z-loss.
    """
    return CLM(
        capacity=length,
        attends='causal',
        shift=1,
        tied=tied,
        logits_mib=logits_mib,
        z_weight=z_weight,
        label='clm',
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CLM(TokenObjective):
    """-log p(token i + 1 | tokens 1..i), where both are in the same document."""

    def scorings(self, rate):
        return {'clm': {'name': 'clm'}}

    def derived(self, metrics, seen, diagnostics):
        return {'train/perplexity': jnp.exp(metrics['clm_loss'])}

    def corrupt(self, example, rng, step=0):
        segments_L = example['segment_ids']
        same_L = (segments_L[1:] == segments_L[:-1]) & (segments_L[1:] > 0)
        return example | {
            'inputs': example['tokens'],
            'labels': np.append(example['tokens'][1:], 0).astype(np.int32),
            'loss_mask': np.append(same_L, False),
        }
