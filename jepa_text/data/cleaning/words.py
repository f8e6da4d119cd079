"""Folded words of a text, and search for phrases in it.

    The cat's  hat. --folded--> the cat s hat    letters, digits and marks, case-folded

So case, punctuation and white space are ignored. Chinese, Japanese, Thai, Lao, Burmese
and Khmer have no spaces: each of their characters is a word.
"""

import unicodedata

import numpy as np

PLANES = 2**18  # code points of Unicode planes 0 to 3; higher ones have no words
STEP = np.uint64(0xD1342543DE82EF95)  # odd
WITHOUT_SPACES = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),
    (0x3040, 0x30FF),  # kana
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),  # ideographs
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)


class _Folding(dict):
    """What each character becomes, for str.translate; filled as characters occur."""

    def __missing__(self, code):
        letter, self[code] = chr(code), ' '
        if code < PLANES and unicodedata.category(letter)[0] in 'LMN':
            is_word = any(first <= code <= last for first, last in WITHOUT_SPACES)
            folded = letter.casefold()[0]
            self[code] = f' {folded} ' if is_word else folded
        return self[code]


_FOLDING = _Folding()


def folded(text):
    """Yields the words of a text in order.

    >>> list(folded("The cat's hat, 帽子"))
    ['the', 'cat', 's', 'hat', '帽', '子']
    """
    for line in text.splitlines():  # so that few words are in memory at a time
        yield from line.translate(_FOLDING).split()


def hashes(text):
    """Returns uint64 [W], a hash of each word; another one in another process."""
    return np.fromiter(map(hash, folded(text)), np.int64).view(np.uint64)


def ngrams(hashes, n):
    """Returns uint64 [W - n + 1], the hash of every n-gram of the words `hashes` [W].

    It is sum_i word[i] * STEP**(n - 1 - i) mod 2**64.
    """
    count = len(hashes) - n + 1
    grams = hashes[:count]
    for start in range(1, n):
        grams = grams * STEP + hashes[start : start + count]
    return grams


class Phrases:
    """Sets of phrases to search texts for.

    Each set is a list of texts. One of `longest` words or more gives all its runs of
    `longest` words, a shorter one itself, and one of fewer than `shortest` words nothing;
    `short` is the number of these for each set.
    """

    def __init__(self, sets, shortest, longest):
        grams, self.short = {}, []
        for number, texts in enumerate(sets):
            hashed = [hashes(text) for text in texts]
            self.short.append(sum(len(one) < shortest for one in hashed))
            for one in hashed:
                n = min(len(one), longest)
                if n >= shortest:
                    own = ngrams(one, n)
                    grams.setdefault(n, []).append((own, np.full(len(own), number)))
        self._tables = {n: _table(pairs) for n, pairs in sorted(grams.items())}

    def find(self, text):
        """Returns the number of the first set with a phrase in the text, or None."""
        if not self._tables:
            return None
        words, owners = hashes(text), []
        for n, (known, owner) in self._tables.items():
            if len(words) >= n:
                grams = ngrams(words, n)
                at = np.minimum(np.searchsorted(known, grams), len(known) - 1)
                owners += owner[at[known[at] == grams]].tolist()
        return min(owners, default=None)


def _table(pairs):
    """Returns the sorted hashes of phrases, uint64 [P], and the number of the first set
    of each, int64 [P]."""
    grams, owners = map(np.concatenate, zip(*pairs, strict=True))
    # np.unique returns first occurrences: of equal hashes, the one of the first set.
    grams, first = np.unique(grams, return_index=True)
    return grams, owners[first]
