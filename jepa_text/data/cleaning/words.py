"""Text to words as numpy arrays, with a 64-bit hash for every word and n-gram.

    "The cat's  hat." --folded--> the cat s hat    letters, digits and marks, case-folded
                      --spaced--> The cat's hat.   separated by whitespace

Chinese, Japanese, Thai, Lao, Burmese and Khmer have no spaces: when folded, each of their
characters is a word. Everything is vectorized, one block of text at a time:

    hash of a word     mix(sum_i (code[i] + 1) * BASE**i)  mod 2**64
    hash of an n-gram  sum_i word[i] * STEP**(n-1-i)        mod 2**64

The hashes are the same on every machine and in every process.
"""

import dataclasses
import functools
import unicodedata

import numpy as np

BLOCK = 2**16  # characters processed at a time; a longer word is cut
PLANES = 2**18  # code points of Unicode planes 0 to 3; higher ones have no words
BETWEEN, INSIDE, ALONE = 0, 1, 2  # between words, in a word, a word by itself
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
    """Words of a text: their hashes, uint64 [W]; their lengths in characters, int64 [W];
    and whether they contain a letter, bool [W]."""

    hashes: np.ndarray
    lengths: np.ndarray
    lettered: np.ndarray


def folded(text):
    """Yields uint64 [W], the hashes of the words of each block of a text: runs of
    letters, digits and marks, case-folded."""
    kinds, codes_of, _ = _folding()
    for codes in _blocks(text, kinds):
        yield _hashes(codes_of[codes], kinds[codes])[0]


def folded_together(texts):
    """Returns (uint64 [W], int64 [T]): the concatenated `folded` hashes of short texts,
    and how many words each text has."""
    kinds, codes_of, _ = _folding()
    codes = _codes('\n'.join(texts))
    begins = _begins(kinds[codes])
    ends = np.cumsum([len(text) + 1 for text in texts])
    counts = np.diff(np.searchsorted(np.flatnonzero(begins), ends), prepend=0)
    return _hashes(codes_of[codes], kinds[codes])[0], counts


def spaced(text):
    """Returns the Words of a text, separated by whitespace, all in memory at once."""
    kinds, letters = _spacing(), _folding()[2]
    found = [(np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, bool))]
    for codes in _blocks(text, kinds):
        hashes, starts = _hashes(codes, kinds[codes])
        if len(hashes):
            is_letter = letters[codes[kinds[codes] > 0]]
            lengths = np.diff(starts, append=len(is_letter))
            found.append((hashes, lengths, np.logical_or.reduceat(is_letter, starts)))
    return Words(*map(np.concatenate, zip(*found)))


def ngrams(hashes, n):
    """Returns uint64 [W - n + 1], the hash of every n-gram of the words `hashes` [W]."""
    found = hashes
    for size in range(2, n + 1):
        found = extend_ngrams(found, hashes, size)
    return found


def extend_ngrams(shorter, hashes, n):
    """Returns the hashes of the n-grams, given `shorter`, those of the (n - 1)-grams."""
    return shorter[:-1] * np.uint64(STEP) + hashes[n - 1 :]


def mix(hashes):
    """The 64-bit finalizer of MurmurHash3: every output bit depends on all input bits."""
    hashes = hashes ^ (hashes >> np.uint64(33))
    hashes *= np.uint64(0xFF51AFD7ED558CCD)
    hashes ^= hashes >> np.uint64(33)
    hashes *= np.uint64(0xC4CEB9FE1A85EC53)
    hashes ^= hashes >> np.uint64(33)
    return hashes


def overlapping(blocks, n):
    """Yields (hashes, new) for blocks of words, each prefixed with the n - 1 words before
    it, so that no n-gram is lost; `new` is the number of words in the block itself."""
    tail = np.zeros(0, np.uint64)
    for block in blocks:
        joined = np.concatenate([tail, block]) if len(tail) else block
        yield joined, len(block)
        tail = joined[max(len(joined) - n + 1, 0) :] if n > 1 else tail


def _blocks(text, kinds):
    """Yields uint32 codes of a text, at most BLOCK characters each, cut between words."""
    start = 0
    while start < len(text):
        codes = _codes(text[start : start + BLOCK])
        if start + BLOCK < len(text):
            # Cut at the last position outside a word, or else at the end of the block.
            places = np.flatnonzero(kinds[codes[1:]] != INSIDE)
            codes = codes[: places[-1] + 1] if len(places) else codes
        yield codes
        start += len(codes)


def _codes(text):
    codes = np.frombuffer(text.encode('utf-32-le', 'surrogatepass'), '<u4')
    return codes if text.isascii() else np.minimum(codes, PLANES - 1)


def _hashes(codes, kinds):
    """(uint64 [W], int64 [W]): the hash of each word, and the index of its first
    character among the characters that belong to words."""
    inside = kinds > 0
    starts = np.flatnonzero(_begins(kinds)[inside])
    if not len(starts):
        return np.zeros(0, np.uint64), starts
    # Codes count from 1, so that no character contributes nothing.
    letters = codes[inside].astype(np.uint64) + np.uint64(1)
    powers, inverse = _powers()
    letters *= powers[: len(letters)]
    sums = np.add.reduceat(letters, starts)
    sums *= inverse[starts]
    return mix(sums), starts


def _begins(kinds):
    """bool: positions where a word begins."""
    begins = kinds == INSIDE
    begins[1:] &= kinds[:-1] != INSIDE
    begins |= kinds == ALONE
    return begins


@functools.cache
def _powers():
    """(BASE**i, BASE**-i) mod 2**64, each uint64 [BLOCK]."""
    inverse = pow(BASE, -1, 2**64)
    ones = (np.full(BLOCK, base, np.uint64) for base in (BASE, inverse))
    tables = [np.multiply.accumulate(one) for one in ones]
    return tuple(np.concatenate([[np.uint64(1)], one[:-1]]) for one in tables)


@functools.cache
def _folding():
    """For every character: its kind uint8, its folded code uint32, and whether it is a
    letter, bool."""
    characters = [chr(code) for code in range(PLANES)]
    classes = [unicodedata.category(character)[0] for character in characters]
    kinds = np.array([INSIDE if one in 'LMN' else BETWEEN for one in classes], np.uint8)
    for first, last in WITHOUT_SPACES:
        kinds[first : last + 1] *= ALONE
    codes = np.array([ord(c.casefold()[0]) for c in characters], np.uint32)
    return kinds, codes, np.array([one == 'L' for one in classes])


@functools.cache
def _spacing():
    """For every character: BETWEEN if it is whitespace, otherwise INSIDE, uint8."""

    return np.array(
        [BETWEEN if chr(code).isspace() else INSIDE for code in range(PLANES)], np.uint8
    )
