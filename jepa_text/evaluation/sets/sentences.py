"""Labeled sentence sets made from any text, to probe vectors for words and word order.

    word_content    which of some words does it contain? (SentEval's WC)
    bigram_shift    were two neighboring words swapped? (BShift)
    word_order      were the words shuffled?
    odd_words       was a quarter of the words replaced by words of other texts? (SOMO)

After Conneau et al. 2018 (1805.01070). Each source sentence is used once, so that a
random split never has a sentence on both sides, changed or not; the vocabulary is drawn
from all sentences.

A bag of words or tokens is at chance on bigram_shift and word_order, and near it on
odd_words, whose new words have the frequencies of the old ones. This is why the first
and the last word stay in place: their capital letter, their full stop and their missing
space would reveal that they had been moved. Report it alongside the model.

In scripts without spaces, words are letters (words.pieces).
"""

import functools
from typing import NamedTuple

import numpy as np

from jepa_text.evaluation.controls import words


class SentenceSet(NamedTuple):
    """Texts, their labels 0, 1, ..., and the index of the source text of each."""

    texts: list
    labels_N: np.ndarray
    sources_N: np.ndarray


def word_content(texts, seed=0, *, count=50, min_texts=5, highest=0.05):
    """Returns the texts with exactly one of `count` content words, which is the label.

    Uses content words of medium frequency, as SentEval does. Words with fewer than
    `min_texts` remaining texts are dropped. Nothing is drawn by the `seed`.
    Raises ValueError if fewer than two words remain.
    """
    vocabulary = words.content_words(
        texts, max_words=4 * count, min_texts=min_texts, highest=highest
    )
    start = max(0, (len(vocabulary) - count) // 2)
    chosen = vocabulary[start : start + count]
    member_NW = words.membership(texts, chosen)
    sources_N = np.flatnonzero(member_NW.sum(axis=1) == 1)
    label_N = member_NW[sources_N].argmax(axis=1)
    size_W = np.bincount(label_N, minlength=len(chosen))
    kept_N = size_W[label_N] >= min_texts
    if len(np.unique(label_N[kept_N])) < 2:
        raise ValueError(
            f'Too few of {len(texts)} texts contain exactly one of {len(chosen)} content '
            f'words: fewer than two words have {min_texts} such texts. Give more texts.'
        )
    sources_N = sources_N[kept_N]
    labels_N = np.unique(label_N[kept_N], return_inverse=True)[1]
    return SentenceSet([texts[n] for n in sources_N], labels_N, sources_N)


def bigram_shift(texts, seed=0):
    """Swaps two different neighboring words in half of the texts, which get label 1.

    The first and the last word are never swapped, so texts need four words or more.
    """
    return _half_changed(texts, _swap, seed)


def word_order(texts, seed=0):
    """Shuffles all words but the first and the last in half of the texts (label 1)."""
    return _half_changed(texts, _shuffle, seed)


def odd_words(texts, seed=0):
    """Replaces a quarter of the words of half of the texts, which get label 1.

    New words are drawn from the words of all texts, and so by their frequency.
    """
    pool = [piece for text in texts for piece in words.pieces(text)[0][1:-1]]
    return _half_changed(texts, functools.partial(_replace, pool=pool), seed)


def _half_changed(texts, change, seed):
    """Changes a random half of the texts that can be changed, and keeps their order.

    Whitespace becomes single spaces in all texts, as it would reveal changed ones. Pieces
    are those of `words.pieces`; gaps keep their places.
    """
    rng = np.random.default_rng(seed)
    both = []
    for source, text in enumerate(texts):
        pieces, gaps = words.pieces(text)
        changed = change(pieces, rng)
        if changed is not None:
            sides = (''.join(map(str.__add__, side, gaps)) for side in (pieces, changed))
            both.append((source, *sides))
    if len(both) < 2:
        raise ValueError(
            f'Only {len(both)} of {len(texts)} texts can be changed, but two are needed: '
            'give texts with at least two different words between the first and last.'
        )
    labels_N = rng.permutation(np.arange(len(both)) % 2)
    chosen = [pair[1 + label] for pair, label in zip(both, labels_N)]
    return SentenceSet(chosen, labels_N, np.array([source for source, _, _ in both]))


def _swap(pieces, rng):
    positions = [i for i in range(1, len(pieces) - 2) if pieces[i] != pieces[i + 1]]
    if not positions:
        return None
    i = int(rng.choice(positions))
    return [*pieces[:i], pieces[i + 1], pieces[i], *pieces[i + 2 :]]


def _shuffle(pieces, rng):
    inner = pieces[1:-1]
    if len(set(inner)) < 2:
        return None
    changed = inner
    while changed == inner:
        changed = [inner[i] for i in rng.permutation(len(inner))]
    return [pieces[0], *changed, pieces[-1]]


def _replace(pieces, rng, pool):
    changed, inner = list(pieces), range(1, len(pieces) - 1)
    for i in rng.choice(inner, -(-len(inner) // 4), replace=False) if inner else ():
        changed[i] = pool[rng.integers(len(pool))]
    return changed if changed != pieces else None
