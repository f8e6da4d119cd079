"""Mask statistics are those of transformers' collator."""

import numpy as np
import test_objectives
from numpy.testing import assert_array_equal

RATE, WORDS = 0.15, 27


def assert_near(count, n, share):
    assert abs(count - n * share) < 4.5 * np.sqrt(n * share * (1 - share))


def test_masks_match_the_statistics_of_the_transformers_collator(rng):
    shares = dict(mask_share=0.8, random_share=0.1)
    objective = test_objectives.build('mlm', rate=RATE, sampler='iid', **shares)
    rows = test_objectives.rows(rng, 3000)
    made = [objective.corrupt(row, rng) for row in rows]
    ids, inputs, is_masked = (
        np.stack([row[key] for row in made]) for key in ('tokens', 'inputs', 'loss_mask')
    )
    is_special = ids < 4
    assert not is_masked[is_special].any()
    assert_array_equal(inputs[~is_masked], ids[~is_masked])
    n = is_masked.sum()
    assert_near(n, (~is_special).sum(), RATE)
    is_hidden, is_kept = (inputs == 3) & is_masked, (inputs == ids) & is_masked
    assert_near(is_hidden.sum(), n, 0.8)
    assert_near(is_kept.sum(), n, 0.1 + 0.1 / WORDS)
    # Chi-square over positions, of mean k and variance 2k.
    expected = RATE * (~is_special).sum(0)[:8]
    differences = is_masked.sum(0)[:8] - expected
    chi = (differences**2 / (expected * (1 - RATE))).sum()
    assert abs(chi - len(expected)) < 4.5 * np.sqrt(2 * len(expected))
