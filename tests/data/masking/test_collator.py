"""Compares mask statistics with those of transformers' collator on the same text."""

import types

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from jepa_text.settings import resolve

LETTERS = 'abcdefghij'
COLLATED, LENGTH = 3000, 40


def collator(**settings):
    """Returns their collator for a WordPiece vocabulary of ten letters, each also as
    `##a`."""
    pytest.importorskip('torch')
    transformers = pytest.importorskip('transformers')
    tokenizers = pytest.importorskip('tokenizers')
    pieces = ['[PAD]', '[CLS]', '[SEP]', '[MASK]', *LETTERS]
    pieces += [f'##{letter}' for letter in LETTERS]
    vocab = {piece: number for number, piece in enumerate(pieces)}
    model = tokenizers.models.WordPiece(vocab, unk_token='a')
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(model),
        pad_token='[PAD]',
        cls_token='[CLS]',
        sep_token='[SEP]',
        mask_token='[MASK]',
    )
    return transformers.DataCollatorForLanguageModeling(
        tokenizer=fast, seed=0, return_tensors='np', **settings
    )


def text_rows(rng):
    """Returns (ids, is_special, starts_word) of rows: [CLS], words, [SEP], padding."""
    ids = rng.integers(4, 24, (COLLATED, LENGTH))
    ids[:, 1] = 4 + ids[:, 1] % 10
    lengths = rng.integers(LENGTH // 2, LENGTH + 1, COLLATED)
    place = np.arange(LENGTH)[None]
    ids[:, 0] = 1
    ids = np.where(place == lengths[:, None] - 1, 2, ids)
    ids = np.where(place >= lengths[:, None], 0, ids)
    return ids, ids < 4, (ids >= 4) & (ids < 14)


def collated(ids, is_special, starts, **settings):
    """Returns (inputs, masked) of their collator."""
    ends = np.cumsum(np.ones_like(ids), 1) + np.cumsum(starts | is_special, 1)
    features = [
        {
            'input_ids': row.tolist(),
            'special_tokens_mask': special.astype(int).tolist(),
            # A piece of the same word begins at the end of the last one.
            'offset_mapping': list(zip((end - 1).tolist(), end.tolist())),
        }
        for row, special, end in zip(ids, is_special, ends)
    ]
    if not settings.get('whole_word_mask'):
        for feature in features:
            del feature['offset_mapping']
    made = collator(**settings)(features)
    return np.asarray(made['input_ids']), np.asarray(made['labels']) != -100


def ours(ids, sampler, shares):
    tokenizer = types.SimpleNamespace(
        vocab_size=24, mask_id=3, special_ids=(0, 1, 2, 3), starts_word=np.arange(24) < 14
    )
    objective = resolve.build(
        'objectives',
        dict(name='mlm', rate=0.15, sampler=sampler, **shares),
        tokenizer=tokenizer,
        length=LENGTH,
        steps=1,
    )
    rng, made = np.random.default_rng(1), []
    for row in ids.astype(np.int32):
        segments = (row > 0).astype(np.int32)
        example = {'tokens': row, 'segment_ids': segments, 'positions': np.arange(LENGTH)}
        made.append(objective.corrupt(example, rng))
    return tuple(np.stack([row[key] for row in made]) for key in ('inputs', 'loss_mask'))


def is_near(count, n, share):
    return abs(count - n * share) < 4.5 * np.sqrt(n * share * (1 - share))


@pytest.mark.peer
def test_masks_match_the_statistics_of_the_transformers_collator():
    rows = text_rows(np.random.default_rng(0))
    ids, is_special, _ = rows
    shares = dict(mask_share=0.8, random_share=0.1)
    pairs = {
        'ours': (ours(ids, 'iid', shares), 20),
        # Their random tokens come from the whole vocabulary including [MASK].
        'theirs': (collated(*rows, mlm_probability=0.15), 24),
    }
    for (inputs, is_masked), words in pairs.values():
        assert not is_masked[is_special].any()
        assert_array_equal(inputs[~is_masked], ids[~is_masked])
        assert is_near(is_masked.sum(), (~is_special).sum(), 0.15)
        n = is_masked.sum()
        masked, kept = (inputs == 3) & is_masked, (inputs == ids) & is_masked
        is_theirs = words == 24
        assert is_near(masked.sum(), n, 0.8 + is_theirs * 0.1 / 24)
        assert is_near(kept.sum(), n, 0.1 + 0.1 / words)
        assert is_near(
            (is_masked & ~masked & ~kept).sum(), n, 0.1 * (words - 1 - is_theirs) / words
        )
        # Chi-square over positions, of mean k and variance 2k.
        candidates = (~is_special).sum(0)[1:-1]
        expected = 0.15 * candidates
        chi = ((is_masked.sum(0)[1:-1] - expected) ** 2 / (expected * 0.85)).sum()
        assert abs(chi - len(expected)) < 4.5 * np.sqrt(2 * len(expected))
    # The difference of the two is also below 4.5 of its standard deviations.
    both = [is_masked.sum() for (_, is_masked), _ in pairs.values()]
    n = (~is_special).sum()
    assert abs(both[0] - both[1]) < 4.5 * np.sqrt(2 * n * 0.15 * 0.85)


@pytest.mark.peer
def test_whole_words_match_the_transformers_collator():
    """Theirs draws each word independently, so the count varies between rows; the groups
    of tokens and the mean count are the same."""
    rows = text_rows(np.random.default_rng(0))
    ids, is_special, starts = rows
    word = np.cumsum(starts | is_special, 1)
    settings = dict(mlm_probability=0.15, whole_word_mask=True, mask_replace_prob=1.0)
    theirs = collated(*rows, random_replace_prob=0.0, **settings)
    mine = ours(ids, 'whole_word', dict(mask_share=1.0))
    for inputs, is_masked in (theirs, mine):
        assert not is_masked[is_special].any()
        assert_array_equal(inputs, np.where(is_masked, 3, ids))
        assert abs(is_masked.sum() / (~is_special).sum() - 0.15) < 0.005
        cut = 0
        for row in range(COLLATED):
            open_words = set(word[row][~is_masked[row] & ~is_special[row]])
            cut += bool(open_words & set(word[row][is_masked[row]]))
        # Ours cuts only the first word drawn, if it is longer than the count.
        assert cut / COLLATED < (0.12 if is_masked is mine[1] else 1e-9)
