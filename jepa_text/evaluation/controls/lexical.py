"""Lexical versus semantic content of vectors: word recovery, overlap and balance. What is
called paper_* is a measure of arXiv 2606.05173, for comparison with its tables."""

import numpy as np

from jepa_text.evaluation.controls import words
from jepa_text.measures import probes, statistics

_RANKS = 10  # largest distance in frequency rank between a word and its negative


def word_recovery(train_ND, train_texts, test_ND, test_texts, vocabulary=None, seed=0):
    """Measures how well the content words of a text can be predicted from its vector.

    One ridge regression maps vectors to the presence of all words and is fitted on the
    training texts. On a test text, each content word it contains is paired with a word it
    does not contain, of about the same frequency (at most 10 ranks apart). The AUC is how
    often the first scores higher, averaged over texts. Neither the frequency of words nor
    the length of a text can help, so chance is exactly 0.5.

    `vocabulary` is a list of words, the most frequent first; None: `content_words` of the
    training texts.

    Returns (Interval of the AUC over texts, AUCs of the texts with such words, which are
    the same texts for every model). Raises ValueError if too few texts have content words
    (see `words.content_words`).

    >>> texts = ['the cat', 'the dog', 'the cow', 'the fox'] * 20
    >>> vectors_ND = np.tile(np.eye(4), (20, 1))
    >>> vocabulary = ['cat', 'cow', 'dog', 'fox']
    >>> word_recovery(vectors_ND, texts, vectors_ND, texts, vocabulary)[0].value
    1.0
    """
    if vocabulary is None:
        vocabulary = words.content_words(train_texts)
    model = probes.ridge(
        train_ND, words.membership(train_texts, vocabulary).astype(float)
    )
    known_NW = model.predict(train_ND)
    member_NW = words.membership(test_texts, vocabulary)
    score_NW = model.predict(test_ND)
    if len(score_NW) != len(member_NW):
        raise ValueError(f'{len(score_NW)} test vectors, but {len(member_NW)} texts.')
    score_NW = probes.standardized([known_NW, score_NW])[1]
    rng, values, scored = np.random.default_rng(seed), [], []
    for text, score_W, member_W in zip(test_texts, score_NW, member_NW):
        pairs_P2 = _matched(member_W, rng)
        if len(pairs_P2):
            difference_P = score_W[pairs_P2[:, 0]] - score_W[pairs_P2[:, 1]]
            values.append(np.mean((np.sign(difference_P) + 1) / 2))
            scored.append(text)
    if not values:
        raise ValueError(
            f'None of {len(test_texts)} test texts contains any of the '
            f'{len(vocabulary)} content words of the training texts. Give training and '
            'test texts of the same domain.'
        )
    # A text that is there several times counts once.
    return statistics.mean_interval(values, 'share', [scored]), np.array(values)


def _matched(member_W, rng):
    pairs = []
    for present in np.flatnonzero(member_W):
        near_W = np.arange(
            max(0, present - _RANKS), min(len(member_W), present + _RANKS + 1)
        )
        absent_W = near_W[~member_W[near_W]]
        if len(absent_W):
            pairs.append((present, rng.choice(absent_W)))
    return np.array(pairs, int).reshape(-1, 2)


def balance_interval(semantic, semantic_chance, lexical, lexical_chance):
    """Returns the Interval of the semantic - lexical balance of two Intervals.

    Each is corrected for chance, the share of the largest test class: (value - chance) /
    (1 - chance) is 0 at chance and 1 for a perfect score. The balance is positive if
    vectors contain more of the task's meaning than of the words. Compare models on the
    same two tasks only. Raises ValueError for a chance of 1.

    The interval combines the uncertainty of both (Zou & Donner 2008), for values measured
    independently: with a and b corrected for chance and d = a - b, it is d - sqrt((a -
    a_low)^2 + (b_high - b)^2) to d + sqrt((a_high - a)^2 + (b - b_low)^2).
    """
    if not max(semantic_chance, lexical_chance) < 1:
        raise ValueError(
            f'chance={max(semantic_chance, lexical_chance)} must be below 1.'
        )
    first, second = (
        (np.array(interval) - chance) / (1 - chance)
        for interval, chance in ((semantic, semantic_chance), (lexical, lexical_chance))
    )
    value = first[0] - second[0]
    below = np.hypot(first[0] - first[1], second[2] - second[0])
    above = np.hypot(first[2] - first[0], second[0] - second[1])
    return statistics.Interval(*map(float, (value, value - below, value + above)))


def paper_token_labels(rows, min_count=5):
    """Returns (labels_N, kept_N): the most frequent token id of each text's row.

    This is the target of the token probe of arXiv 2606.05173. Ties go to the smallest id,
    and special tokens count; kept_N marks texts whose label occurs in at least
    `min_count` texts. Small ids are punctuation in that paper's vocabulary, so the label
    is mostly the most frequent punctuation of a text.
    """
    labels_N = np.array([np.bincount(row).argmax() for row in rows])
    ids, counts = np.unique(labels_N, return_counts=True)
    return labels_N, np.isin(labels_N, ids[counts >= min_count])
