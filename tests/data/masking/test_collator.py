"""Compares mask statistics with those of transformers' collator on the same text."""

import numpy as np
import pytest
import test_objectives
from numpy.testing import assert_array_equal

RATE = 0.15


def theirs(rows):
    """Returns (inputs, masked) of their collator."""
    pytest.importorskip('torch')
    transformers = pytest.importorskip('transformers')
    tokenizers = pytest.importorskip('tokenizers')
    pieces = ['[PAD]', '[CLS]', '[SEP]', '[MASK]']
    pieces += [f'word{n}' for n in range(4, test_objectives.V)]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    model = tokenizers.models.WordLevel(vocabulary, unk_token='word4')
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(model),
        pad_token='[PAD]',
        mask_token='[MASK]',
    )
    collator = transformers.DataCollatorForLanguageModeling(
        tokenizer=fast, mlm_probability=RATE, seed=0, return_tensors='np'
    )
    features = [
        {'input_ids': ids, 'special_tokens_mask': [int(i < 4) for i in ids]}
        for ids in (row['tokens'].tolist() for row in rows)
    ]
    made = collator(features)
    return np.asarray(made['input_ids']), np.asarray(made['labels']) != -100


def ours(rows):
    """Returns (inputs, masked) of the objective."""
    shares = dict(mask_share=0.8, random_share=0.1)
    objective = test_objectives.build('mlm', rate=RATE, sampler='iid', **shares)
    rng = np.random.default_rng(1)
    made = [objective.corrupt(row, rng) for row in rows]
    return tuple(np.stack([row[key] for row in made]) for key in ('inputs', 'loss_mask'))


def assert_near(count, n, share):
    assert abs(count - n * share) < 4.5 * np.sqrt(n * share * (1 - share))


@pytest.mark.peer
# Their random tokens come from the whole vocabulary including [MASK].
@pytest.mark.parametrize(('collate', 'words', 'masks'), [(ours, 27, 0), (theirs, 31, 1)])
def test_masks_match_the_statistics_of_the_transformers_collator(collate, words, masks):
    rows = test_objectives.rows(np.random.default_rng(0), 9000)
    ids = np.stack([row['tokens'] for row in rows])
    is_special = ids < 4
    inputs, is_masked = collate(rows)
    assert not is_masked[is_special].any()
    assert_array_equal(inputs[~is_masked], ids[~is_masked])
    n = is_masked.sum()
    assert_near(n, (~is_special).sum(), RATE)
    is_hidden, is_kept = (inputs == 3) & is_masked, (inputs == ids) & is_masked
    assert_near(is_hidden.sum(), n, 0.8 + masks * 0.1 / words)
    assert_near(is_kept.sum(), n, 0.1 + 0.1 / words)
    # Chi-square over positions, of mean k and variance 2k.
    expected = RATE * (~is_special).sum(0)[:8]
    differences = is_masked.sum(0)[:8] - expected
    chi = (differences**2 / (expected * (1 - RATE))).sum()
    assert abs(chi - len(expected)) < 4.5 * np.sqrt(2 * len(expected))
