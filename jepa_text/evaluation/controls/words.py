"""The words of texts: which are content words, who shares which, TF-IDF.

A word is a run of letters and digits, in lower case, with inner apostrophes and hyphens;
so any language that puts spaces between words.
"""

import re
from collections import Counter

import numpy as np

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def words(text, cased=False):
    """The words of a text, in order; `cased` as they are written.

    >>> words("Don't re-read: it's HIS 2nd_book!")
    ["don't", 're-read', "it's", 'his', '2nd', 'book']
    """
    return _WORD.findall(text if cased else text.lower())


def document_frequency(texts, cased=False):
    """Counter: in how many texts a word is.

    >>> document_frequency(['a b b', 'b'])['b']
    2
    """
    return Counter(word for text in texts for word in set(words(text, cased)))


def content_words(texts, *, max_words=500, min_texts=5, highest=0.05):
    """Words that say what a text is about, the commonest first, at most `max_words`.

    In at least `min_texts` texts, in at most the share `highest` of them (which leaves
    out function words without a list for every language), of three letters or more.
    Raises ValueError if there are fewer than two.

    >>> texts = ['the whale', 'the sea', 'the whale', 'a sea']
    >>> content_words(texts, min_texts=2, highest=0.5)
    ['sea', 'whale']
    """
    bound = highest * len(texts)
    found = sorted(
        (-count, word)
        for word, count in document_frequency(texts).items()
        if min_texts <= count <= bound and len(word) > 2
    )
    if len(found) < 2:
        raise ValueError(
            f'{len(texts)} texts have {len(found)} content word(s): in at least '
            f'{min_texts} texts and in at most {highest:.0%} of them. Give more texts, '
            'or a lower `min_texts`, or a higher `highest`.'
        )
    return [word for _, word in found[:max_words]]


def membership(texts, vocabulary):
    """member_NW: whether text n has word w.

    >>> membership(['a b', 'b'], ['a', 'b']).tolist()
    [[True, True], [False, True]]
    """
    place = {word: index for index, word in enumerate(vocabulary)}
    member_NW = np.zeros((len(texts), len(vocabulary)), bool)
    for row, text in enumerate(texts):
        member_NW[row, [place[word] for word in words(text) if word in place]] = True
    return member_NW


def tf_idf(texts, fitted_on, max_words=2048):
    """vectors_NW, float32, length 1: a control that has read no other text.

    Count times log((1 + N) / (1 + n_w)) + 1, over the `max_words` commonest words of the
    texts `fitted_on`, which n_w are counted in: scikit-learn's formula. A text without
    any of them is a row of zeros.

    >>> tf_idf(['b b'], ['a b', 'b']).tolist()
    [[0.0, 1.0]]
    """
    counts = document_frequency(fitted_on)
    chosen = sorted(counts, key=lambda word: (-counts[word], word))[:max_words]
    chosen.sort()
    place = {word: index for index, word in enumerate(chosen)}
    vectors_NW = np.zeros((len(texts), len(chosen)), np.float32)
    for row, text in enumerate(texts):
        for word, count in Counter(words(text)).items():
            if word in place:
                rarity = np.log((1 + len(fitted_on)) / (1 + counts[word])) + 1
                vectors_NW[row, place[word]] = count * rarity
    norm_N1 = np.linalg.norm(vectors_NW, axis=1, keepdims=True)
    return vectors_NW / np.where(norm_N1 > 0, norm_N1, 1)


def overlap(first_texts, second_texts):
    """Shared words over all words of each pair (Jaccard), 0 to 1; two empty texts: 1.

    >>> overlap(['the whale sank', 'a'], ['the whale swam', 'b']).tolist()
    [0.5, 0.0]
    """
    if len(first_texts) != len(second_texts):
        raise ValueError(
            f'Overlap is of pairs, but there are {len(first_texts)} and '
            f'{len(second_texts)} texts.'
        )
    shares = []
    for one, two in zip(first_texts, second_texts):
        one, two = set(words(one)), set(words(two))
        shares.append(len(one & two) / len(one | two) if one | two else 1.0)
    return np.array(shares)
