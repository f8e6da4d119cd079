"""MinHash: how alike two texts are, from 128 numbers each; and the bands that find them.

    shingles     A = the n-grams of the words of a text
    signature    s_k = min over x in A of (a_k * h(x) + b_k  mod 2**32),  a_k odd
    estimate     of |A & B| / |A | B|  =  the share of k where s_k(A) = s_k(B)
    bands        b pieces of r numbers; two texts meet if one piece is equal:
                 with Jaccard similarity s, in 1 - (1 - s**r)**b of cases

Broder 1997; Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, chapter 3. The
permutations are those that datasketch 2 calls affine32: given the same hashes, a and b,
the signatures are equal to the bit; and so is the choice of bands.
"""

import functools
import hashlib

import numpy as np

from jepa_text.data.cleaning import words

SHORT = words.BLOCK // 8  # characters of a text that is done with others
NOTHING = np.uint32(2**32 - 1)  # in all places: a text without words
# Those that meet are compared, which takes time; those that miss each other both stay.
MEET, MISS = 0.1, 0.9
TOGETHER = 2048  # hashes permuted together: what fits in a cache


@functools.cache
def permutations(count):
    """uint32 [count] twice: the odd factors and the summands, the same everywhere."""
    stream = hashlib.shake_128(b'jepa_text minhash').digest(8 * count)
    both = np.frombuffer(stream, '<u4').astype(np.uint32)
    return both[:count] | np.uint32(1), both[count:]


def signature(hashes, factors, summands):
    """uint32 [K] of a set of hashes uint32 [N]: the least of each permutation."""
    found = np.full(len(factors), NOTHING)
    mixed = _mix(hashes)
    for start in range(0, len(mixed), TOGETHER):
        some = mixed[start : start + TOGETHER]
        permuted = factors[:, None] * some
        permuted += summands[:, None]
        np.minimum(found, permuted.min(axis=1), out=found)
    return found


def of_text(text, ngram, count):
    """uint32 [count], the signature of a text by its n-grams of `ngram` words.

    A shorter text is one shingle, and one without words NOTHING in all places.
    """
    factors, summands = permutations(count)
    found = np.full(count, NOTHING)
    before = 0
    for hashes, new in words.carried(words.folded(text), ngram):
        if not new:
            continue
        size = min(len(hashes), ngram)
        grams = words.mix(words.ngrams(hashes, size)).astype(np.uint32)
        if size > before:
            # What came before was a text of fewer words.
            found[:] = NOTHING
            before = size
        np.minimum(found, signature(grams, factors, summands), out=found)
    return found


def of_texts(texts, ngram, count):
    """uint32 [T, count]: what `of_text` says of each; short ones are done together."""
    found = np.full((len(texts), count), NOTHING)
    short, characters = [], 0
    for number, text in enumerate(texts):
        if len(text) > SHORT:
            found[number] = of_text(text, ngram, count)
            continue
        if characters + len(text) > 4 * SHORT:
            found[short] = _together([texts[n] for n in short], ngram, count)
            short, characters = [], 0
        short.append(number)
        characters += len(text)
    if short:
        found[short] = _together([texts[n] for n in short], ngram, count)
    return found


def _together(texts, ngram, count):
    """uint32 [T, count] of short texts."""
    factors, summands = permutations(count)
    hashes, sizes = words.folded_together(texts)
    found = np.full((len(texts), count), NOTHING)
    grams, counts = _shingles(hashes, sizes, ngram)
    grams = _mix(words.mix(grams).astype(np.uint32))
    some = np.flatnonzero(counts)
    ends = np.cumsum(counts[some])
    first = 0
    while first < len(some):
        begin = ends[first] - counts[some[first]]
        last = max(int(np.searchsorted(ends, begin + TOGETHER)), first + 1)
        permuted = factors[:, None] * grams[begin : ends[last - 1]]
        permuted += summands[:, None]
        starts = ends[first:last] - counts[some[first:last]] - begin
        found[some[first:last]] = np.minimum.reduceat(permuted, starts, axis=1).T
        first = last
    return found


def _shingles(hashes, sizes, ngram):
    """(uint64 [S], int64 [T]): the n-grams of texts of `sizes` [T] words, or of a shorter
    one its whole, one after the other, and how many each has."""
    starts = np.cumsum(sizes) - sizes
    left = np.repeat(starts + sizes, sizes) - np.arange(len(hashes))
    is_first = np.zeros(len(hashes), bool)
    is_first[starts[sizes > 0]] = True
    grams = found = hashes.copy()
    for n in range(2, ngram + 1):
        found = words.longer(found, hashes, n)
        # Of a shorter text, what its words have made so far stays.
        reach = left[: len(found)] >= n
        grams[: len(found)][reach] = found[reach]
    counts = np.where(sizes > 0, np.maximum(sizes - ngram + 1, 1), 0)
    return grams[(left >= ngram) | is_first], counts


def estimate(first, second):
    """The estimated Jaccard similarity of signatures [..., K], float64 [...]."""
    return np.mean(first == second, axis=-1)


@functools.cache
def bands(threshold, count):
    """(bands, rows in each) by which texts that are alike miss each other in few cases,
    and those that are not alike meet in few.

    With p(s) = 1 - (1 - s**r)**b and the threshold t, over all b * r <= count, the least
    of  MEET * integral_0^t p(s) ds + MISS * integral_t^1 (1 - p(s)) ds.
    """
    # Exact for polynomials of degree `count`.
    at, weights = np.polynomial.legendre.leggauss(count // 2 + 1)
    at, weights = (at + 1) / 2, weights / 2
    best = (np.inf, 0, 0)
    for b in range(1, count + 1):
        rows = np.arange(1, count // b + 1)[:, None]
        below = 1 - (1 - (threshold * at) ** rows) ** b
        above = (1 - (threshold + (1 - threshold) * at) ** rows) ** b
        error = MEET * threshold * below @ weights
        error += MISS * (1 - threshold) * above @ weights
        lowest = int(np.argmin(error))
        best = min(best, (float(error[lowest]), b, lowest + 1))
    return best[1:]


def band_keys(signatures, bands, rows):
    """uint64 [bands, N]: what each band of signatures [N, K] is found by."""
    keys = np.zeros((bands, len(signatures)), np.uint64)
    for band in range(bands):
        for row in range(rows):
            keys[band] *= np.uint64(words.STEP)
            keys[band] += signatures[:, band * rows + row]
        keys[band] = words.mix(keys[band])
    return keys


def _mix(hashes):
    """The finalizer of MurmurHash3 for 32 bits."""
    hashes = hashes ^ (hashes >> np.uint32(16))
    hashes *= np.uint32(0x85EBCA6B)
    hashes ^= hashes >> np.uint32(13)
    hashes *= np.uint32(0xC2B2AE35)
    hashes ^= hashes >> np.uint32(16)
    return hashes
