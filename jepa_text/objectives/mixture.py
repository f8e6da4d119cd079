"""Several token objectives in one run, mixed row by row.

arXiv 2507.00994 names this as future work. One forward pass serves all objectives: the
attention mask is defined per row, so a batch may contain masked and causal rows.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np

from jepa_text import losses
from jepa_text.objectives.base import TokenObjective
from jepa_text.objectives.mlm import MLM
from jepa_text.settings import ranges, resolve


def make(tokenizer, length, steps, parts: list, shares: list | None = None):
    """Returns a Mixture of `parts`, sections of token objectives (mlm, clm, mntp).

    Each row uses one part, drawn with probabilities in proportion to `shares` (equal by
    default). Raises ValueError for parts that do not only predict tokens, and for shares
    that do not fit the parts.
    """
    common = dict(tokenizer=tokenizer, length=length, steps=steps)
    parts = tuple(resolve.build('objectives', part, **common) for part in parts)
    shares = [1] * len(parts) if shares is None else list(shares)
    _check(parts, shares)
    return Mixture(
        parts=parts,
        shares=tuple(shares),
        capacity=max(part.capacity for part in parts),
        attends='rows',
        # That of the first part that masks; without one, the next token is predicted.
        shift=next((part.shift for part in parts if isinstance(part, MLM)), 1),
        tied=parts[0].tied,
        logits_mib=parts[0].logits_mib,
        z_weight=parts[0].z_weight,
        label='mixture',
    )


def _check(parts, shares):
    if len(parts) < 2 or not all(isinstance(part, TokenObjective) for part in parts):
        raise ValueError(
            'mixture: parts must be two or more sections of objectives that only '
            'predict tokens (mlm, clm, mntp).'
        )
    if len({(part.tied, part.logits_mib, part.z_weight) for part in parts}) > 1:
        raise ValueError(
            'mixture: all parts need the same tied, logits_mib and z_weight.'
        )
    for share in shares:
        ranges.number('mixture: shares', share, above=0)
    if len(shares) != len(parts):
        raise ValueError(
            f'mixture: shares={shares} must be {len(parts)} numbers above 0, one per '
            'part.'
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Mixture(TokenObjective):
    """Each row uses one of the parts; all predicted positions have the same weight."""

    parts: tuple
    shares: tuple

    @property
    def fills(self):
        return any(part.fills for part in self.parts)

    @property
    def can_drop(self):
        return any(part.can_drop for part in self.parts)

    def scorings(self, rate):
        scorings = {}
        for part in self.parts:
            scorings |= part.scorings(rate) | scorings
        return scorings

    def corrupt(self, example, rng, step=0):
        share = np.asarray(self.shares, float)
        part = int(rng.choice(len(self.parts), p=share / share.sum()))
        row = self.parts[part].corrupt(example, rng, step)
        if 'order' not in row:
            is_causal = self.parts[part].attends == 'causal'
            order_L = row['positions'] if is_causal else np.zeros_like(row['positions'])
            row = row | {'order': order_L}
        if self.can_drop:
            row = {'dropped': np.zeros((), np.int32)} | row
        return row | {'part': np.full(1, part, np.int32)}

    def score(self, params, view, hidden_BMD, index_BM, where_BM):
        loss, metrics = super().score(params, view, hidden_BMD, index_BM, where_BM)
        counts_B = jnp.sum(view.batch['loss_mask'], axis=1)
        for number, part in enumerate(self.parts):
            # This part's share of the predicted positions in the batch.
            chosen_B = view.batch['part'][:, 0] == number
            share = losses.masked_sum(counts_B.astype(jnp.float32), chosen_B)
            name = f'mixture/share_{number}_{part.label}'
            metrics[name] = share / jnp.maximum(view.counts['tokens'], 1)
        return loss, metrics
