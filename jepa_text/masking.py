"""What is hidden: numpy samplers of fixed shape, on the host.

    tokens     <bos>  the  cat  sat  on  the  mat  .  <eos>  <pad> <pad>
    maskable     .     1    1    1   1    1    1   1    .      .     .
    mask         .     .    1    .   .    .    1   .    .      .     .     rate 0.3
    inputs     <bos>  the  [M]  sat  on  the  [M]  .  <eos>  <pad> <pad>

Specials and padding are never maskable. Randomness comes in as a generator, keyed by
the pipeline to the row, so a row is masked alike on every number of hosts.
"""

import math

import numpy as np


def maskable(tokens_L, segment_ids_L, special_ids):
    """Positions that may be hidden: in a document, and not a special token."""
    return (segment_ids_L > 0) & ~np.isin(tokens_L, special_ids)


def capacity(rate, length):
    """The most positions that a sampler here hides in a row of `length`."""
    return min(length, math.floor(rate * length) + 1)


def fixed_count(maskable_L, rate, rng):
    """Hides `rate` of the maskable positions: floor or ceiling, right in expectation.

    Exactly floor(rate * n + u) of n positions, u uniform in [0, 1), so short rows are
    not biased.
    """
    candidates = np.flatnonzero(maskable_L)
    count = math.floor(rate * len(candidates) + rng.random())
    mask_L = np.zeros(len(maskable_L), bool)
    mask_L[rng.choice(candidates, count, replace=False)] = True
    return mask_L


def iid(maskable_L, rate, rng):
    """Hides each maskable position with probability `rate` (arXiv 2507.00994, 2.4)."""
    return maskable_L & (rng.random(len(maskable_L)) < rate)


def limit(mask_L, most, rng):
    """Drops random positions of a mask until at most `most` are left."""
    chosen = np.flatnonzero(mask_L)
    if len(chosen) <= most:
        return mask_L
    mask_L = mask_L.copy()
    mask_L[rng.choice(chosen, len(chosen) - most, replace=False)] = False
    return mask_L


def replace(tokens_L, mask_L, rng, *, mask_id, random_ids, mask_share, random_share):
    """inputs_L: of the hidden positions a share becomes the mask token, a share a
    random word of `random_ids`, and the rest keeps its token (BERT's 80/10/10)."""
    inputs_L = tokens_L.copy()
    if mask_share == 1:
        inputs_L[mask_L] = mask_id
        return inputs_L
    draw_L = rng.random(len(tokens_L))
    words_L = rng.choice(random_ids, len(tokens_L))
    inputs_L[mask_L & (draw_L < mask_share)] = mask_id
    is_random_L = mask_L & (draw_L >= mask_share) & (draw_L < mask_share + random_share)
    inputs_L[is_random_L] = words_L[is_random_L]
    return inputs_L
