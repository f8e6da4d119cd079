"""A text to its words as arrays, and a hash of 64 bits for every word and n-gram.

    "The cat's  hat." --folded--> the cat s hat    letters, digits and marks, case-folded
                      --spaced--> The cat's hat.   whatever stands between whitespace

Chinese, Japanese, Thai, Lao, Burmese and Khmer have no spaces: when folded, each of their
characters is a word. All is done in numpy, a block of text at a time:

    hash of a word     mix(sum_i (code[i] + 1) * BASE**i)  mod 2**64
    hash of an n-gram  sum_i word[i] * STEP**(n-1-i)        mod 2**64

The hashes are the same on any machine and in any process.
"""

import dataclasses
import functools
import unicodedata

import numpy as np

BLOCK = 2**16  # characters looked at together; a longer word is cut
PLANES = 2**18  # planes 0 to 3 of Unicode; above them there are no words
BETWEEN, INSIDE, ALONE = 0, 1, 2  # words, a word, a word of its own
BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse mod 2**64
STEP = 0xD1342543DE82EF95
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


@dataclasses.dataclass(frozen=True, eq=False)
class Words:
    """Words of a text: their hashes uint64 [W], their characters int64 [W], and whether
    one of these is a letter, bool [W]."""

    hashes: np.ndarray
    lengths: np.ndarray
    lettered: np.ndarray


def folded(text):
    """Yields uint64 [W], the hashes of the words of each block of a text: runs of
    letters, digits and marks, without regard to case."""
    kinds, codes_of, _ = _folding()
    for codes in _blocks(text, kinds):
        yield _hashes(codes_of[codes], kinds[codes])[0]


def folded_together(texts):
    """(uint64 [W], int64 [T]): the hashes of `folded` of some short texts, one after the
    other, and how many words each has."""
    kinds, codes_of, _ = _folding()
    codes = _codes('\n'.join(texts))
    begins = _begins(kinds[codes])
    ends = np.cumsum([len(text) + 1 for text in texts])
    counts = np.diff(np.searchsorted(np.flatnonzero(begins), ends), prepend=0)
    return _hashes(codes_of[codes], kinds[codes])[0], counts


def spaced(text):
    """The Words of a text, set apart by whitespace; one block, so the text is short."""
    kinds = _spacing()
    found = [
        (*_hashes(codes, kinds[codes]), codes, kinds[codes] > 0)
        for codes in _blocks(text, kinds)
    ]
    letters = _folding()[2]
    hashes, lengths, lettered = [], [], []
    for one, starts, codes, inside in found:
        if len(one):
            hashes.append(one)
            is_letter = letters[codes[inside]]
            lengths.append(np.diff(starts, append=len(is_letter)))
            lettered.append(np.logical_or.reduceat(is_letter, starts))
    if not hashes:
        return Words(np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, bool))
    return Words(*map(np.concatenate, (hashes, lengths, lettered)))


def ngrams(hashes, n):
    """uint64 [W - n + 1]: the hash of every n-gram of the words `hashes` [W]."""
    found = hashes
    for size in range(2, n + 1):
        found = longer(found, hashes, size)
    return found


def longer(found, hashes, n):
    """The hashes of n-grams from `found`, those of (n - 1)-grams."""
    return found[:-1] * np.uint64(STEP) + hashes[n - 1 :]


def mix(hashes):
    """The finalizer of MurmurHash3 for 64 bits: every bit depends on all."""
    hashes = hashes ^ (hashes >> np.uint64(33))
    hashes *= np.uint64(0xFF51AFD7ED558CCD)
    hashes ^= hashes >> np.uint64(33)
    hashes *= np.uint64(0xC4CEB9FE1A85EC53)
    hashes ^= hashes >> np.uint64(33)
    return hashes


def carried(blocks, n):
    """(hashes, new) of blocks of words, each with the last n - 1 words of those before
    it, so that no n-gram is lost; `new` is how many words of a block are its own."""
    tail = np.zeros(0, np.uint64)
    for block in blocks:
        joined = np.concatenate([tail, block]) if len(tail) else block
        yield joined, len(block)
        tail = joined[max(len(joined) - n + 1, 0) :] if n > 1 else tail


def _blocks(text, kinds):
    """uint32 codes of a text, BLOCK characters at a time, cut between words."""
    start = 0
    while start < len(text):
        codes = _codes(text[start : start + BLOCK])
        if start + BLOCK < len(text):
            # The last place that is not within a word, or else the block's end.
            places = np.flatnonzero(kinds[codes[1:]] != INSIDE)
            codes = codes[: places[-1] + 1] if len(places) else codes
        yield codes
        start += len(codes)


def _codes(text):
    codes = np.frombuffer(text.encode('utf-32-le', 'surrogatepass'), '<u4')
    return codes if text.isascii() else np.minimum(codes, PLANES - 1)


def _hashes(codes, kinds):
    """(uint64 [W], int64 [W]): the hash of each word, and where it begins in the codes
    that are within words."""
    inside = kinds > 0
    starts = np.flatnonzero(_begins(kinds)[inside])
    if not len(starts):
        return np.zeros(0, np.uint64), starts
    # From 1 on, so that no character counts for nothing.
    letters = codes[inside].astype(np.uint64) + np.uint64(1)
    powers, inverse = _powers()
    letters *= powers[: len(letters)]
    sums = np.add.reduceat(letters, starts)
    sums *= inverse[starts]
    return mix(sums), starts


def _begins(kinds):
    """bool, where a word begins."""
    begins = kinds == INSIDE
    begins[1:] &= kinds[:-1] != INSIDE
    begins |= kinds == ALONE
    return begins


@functools.cache
def _powers():
    """uint64 [BLOCK] twice: BASE**i and BASE**-i mod 2**64."""
    inverse = pow(BASE, -1, 2**64)
    ones = (np.full(BLOCK, base, np.uint64) for base in (BASE, inverse))
    tables = [np.multiply.accumulate(one) for one in ones]
    return tuple(np.concatenate([[np.uint64(1)], one[:-1]]) for one in tables)


@functools.cache
def _folding():
    """Of every character: uint8 what it is, uint32 its folded code, bool a letter?"""
    characters = [chr(code) for code in range(PLANES)]
    classes = [unicodedata.category(one)[0] for one in characters]
    kinds = np.array([INSIDE if one in 'LMN' else BETWEEN for one in classes], np.uint8)
    for first, last in WITHOUT_SPACES:
        kinds[first : last + 1] *= ALONE
    codes = np.array([ord(one.casefold()[0]) for one in characters], np.uint32)
    return kinds, codes, np.array([one == 'L' for one in classes])


@functools.cache
def _spacing():
    """uint8 of every character: is it BETWEEN words, or INSIDE one?"""
    return np.array(
        [BETWEEN if chr(code).isspace() else INSIDE for code in range(PLANES)], np.uint8
    )
