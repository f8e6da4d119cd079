"""Words against meaning: what vectors keep of the words, and what they say beyond them.

word_recovery        which content words a text has, read off its vector
high_overlap         agreement with people among pairs that share most words
balance_interval     meaning minus words, both corrected for chance
paper_*              the measures of arXiv 2606.05173, for comparison with its tables
"""

import numpy as np

from jepa_text.evaluation.controls import words
from jepa_text.measures import correlations, ridge, statistics

_RANKS = 10  # how far in rank of frequency a negative word may be


def word_recovery(train_ND, train_texts, test_ND, test_texts, vocabulary=None, seed=0):
    """Can the content words of a text be told from its vector? Chance is 0.5 exactly.

    `vocabulary` is words, commonest first; None: `content_words` of the training texts.
    One ridge regression from vectors to all words, on the training texts. On a test text,
    each content word that it has meets a word of about the same frequency (10 ranks at
    most) that it has not; AUC is how often the first scores higher, averaged over texts.
    So neither frequency nor the length of a text can help.

    {'auc', 'low', 'high' (over texts), 'chance_corrected' (2 auc - 1), 'words', 'texts',
    'values' (AUCs of the texts that have such words: the same texts for every model)}.
    Raises ValueError when too few texts have content words: see `words.content_words`.

    >>> texts = ['the cat', 'the dog', 'the cow', 'the fox'] * 20
    >>> vectors_ND = np.tile(np.eye(4), (20, 1))
    >>> vocabulary = ['cat', 'cow', 'dog', 'fox']
    >>> word_recovery(vectors_ND, texts, vectors_ND, texts, vocabulary)['auc']
    1.0
    """
    if vocabulary is None:
        vocabulary = words.content_words(train_texts)
    model = ridge.fit(train_ND, words.membership(train_texts, vocabulary))
    member_NW = words.membership(test_texts, vocabulary)
    if len(test_ND) != len(member_NW):
        raise ValueError(f'{len(test_ND)} test vectors, but {len(member_NW)} texts.')
    score_NW = model.predict(test_ND) - model.bias_T
    score_NW /= np.where(model.deviation_T > 0, model.deviation_T, 1.0)
    rng, values = np.random.default_rng(seed), []
    for score_W, member_W in zip(score_NW, member_NW):
        pairs_P2 = _matched(member_W, rng)
        if len(pairs_P2):
            difference_P = score_W[pairs_P2[:, 0]] - score_W[pairs_P2[:, 1]]
            values.append(np.mean((np.sign(difference_P) + 1) / 2))
    if not values:
        raise ValueError(
            f'None of {len(test_texts)} test texts has one of the {len(vocabulary)} '
            'content words of the training texts. Are they of one kind?'
        )
    auc = statistics.bootstrap_interval(np.mean, values, resamples=10_000, seed=seed)
    return {
        'auc': auc.value,
        'low': auc.low,
        'high': auc.high,
        'chance_corrected': 2 * auc.value - 1,
        'words': len(vocabulary),
        'texts': len(values),
        'values': np.array(values),
    }


def _matched(member_W, rng):
    """(word that is there, word of like frequency that is not), one for each there."""
    pairs = []
    for there in np.flatnonzero(member_W):
        near_W = np.arange(max(0, there - _RANKS), min(len(member_W), there + _RANKS + 1))
        absent_W = near_W[~member_W[near_W]]
        if len(absent_W):
            pairs.append((there, rng.choice(absent_W)))
    return np.array(pairs, int).reshape(-1, 2)


def high_overlap(similarity_N, positive_N, overlap_N, share=0.25):
    """Same words, same meaning? AUC among the `share` of pairs that overlap most.

    `positive_N`: pairs that mean the same, such as a score of 4 or more. {'auc', 'low',
    'high', 'overlap_auc' (of the overlap itself), 'least' overlap, 'pairs'}. AUCs are NaN
    where these pairs are all alike.

    >>> found = high_overlap([9, 1, 8, 2], [True, False] * 2, [0.9, 0.9, 0.1, 0.1], 0.5)
    >>> found['auc'], found['overlap_auc'], found['pairs']
    (1.0, 0.5, 2)
    """
    similarity_N, positive_N = np.asarray(similarity_N), np.asarray(positive_N, bool)
    overlap_N = np.asarray(overlap_N, np.float64)
    min_count = np.quantile(overlap_N, 1 - share, method='higher')
    kept_N = overlap_N >= min_count
    score_M, positive_M = similarity_N[kept_N], positive_N[kept_N]
    auc = low = high = float('nan')
    if positive_M.any() and not positive_M.all():
        auc, low, high = statistics.bootstrap_interval(
            correlations.auc, score_M, positive_M, resamples=1000
        )
    return {
        'auc': auc,
        'low': low,
        'high': high,
        'overlap_auc': correlations.auc(overlap_N[kept_N], positive_M),
        'minimum': float(min_count),
        'pairs': int(kept_N.sum()),
    }


def above_chance(value, chance):
    """(value - chance) / (1 - chance): 0 is chance, 1 perfect.

    >>> print(above_chance(0.75, 0.5))
    0.5
    """
    if not chance < 1:
        raise ValueError(f'Chance of {chance} leaves nothing to correct.')
    return (value - chance) / (1 - chance)


def balance_interval(semantic, semantic_chance, lexical, lexical_chance):
    """Semantic - lexical balance of two Intervals: above_chance(semantic) minus
    above_chance(lexical), with the uncertainty of both: an Interval.

    Chance is the share of the largest test class. Positive: more of the meaning that the
    task has than of the words; compare models on the same two tasks only.

    d - sqrt((a - a_low)^2 + (b_high - b)^2) to d + sqrt((a_high - a)^2 + (b - b_low)^2),
    of the two corrected for chance (Zou & Donner 2008): for values measured apart.

    >>> semantic = statistics.Interval(0.75, 0.70, 0.80)
    >>> exact = statistics.Interval(0.75, 0.75, 0.75)
    >>> print(*np.round(balance_interval(semantic, 0.5, exact, 0.5), 3))
    0.0 -0.1 0.1
    """
    one, two = (
        np.array([above_chance(x, chance) for x in interval])
        for interval, chance in ((semantic, semantic_chance), (lexical, lexical_chance))
    )
    value = one[0] - two[0]
    below = np.hypot(one[0] - one[1], two[2] - two[0])
    above = np.hypot(one[2] - one[0], two[0] - two[1])
    return statistics.Interval(*map(float, (value, value - below, value + above)))


def paper_probe_gap(semantic, token):
    """Semantic minus token accuracy: the 'balance' of arXiv 2606.05173.

    Accuracies of tasks with different numbers of classes, uncorrected: only for
    comparison with its tables; see `balance_interval`.

    >>> print(round(paper_probe_gap(0.617, 0.755), 3))
    -0.138
    """
    return semantic - token


def paper_token_labels(tokens_BL, valid_BL, min_count=5):
    """(labels_N, kept_N): the commonest id of each text, ties to the smallest.

    The target of that paper's token probe, specials counting, among ids with at least
    `min_count` texts. Small ids are punctuation in its vocabulary, so this is mostly
    which punctuation a text has.

    >>> tokens_BL = np.array([[7, 3, 3], [9, 4, 0]])
    >>> paper_token_labels(tokens_BL, np.array([[1, 1, 1], [1, 1, 0]]), min_count=1)
    (array([3, 4]), array([ True,  True]))
    """
    rows = zip(np.asarray(tokens_BL), np.asarray(valid_BL, bool))
    labels_N = np.array([np.bincount(row[where]).argmax() for row, where in rows])
    ids, counts = np.unique(labels_N, return_counts=True)
    return labels_N, np.isin(labels_N, ids[counts >= min_count])
