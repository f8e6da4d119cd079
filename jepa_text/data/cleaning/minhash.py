"""MinHash signatures, and the bands (LSH) that find pairs of similar texts.

    shingles     A = the word n-grams of a text
    signature    s_k = min over x in A of (a_k * h(x) + b_k  mod 2**32),  a_k odd
    estimate     of |A & B| / |A | B|  =  the share of k where s_k(A) = s_k(B)
    bands        b groups of r numbers; two texts are candidates if one group is equal:
                 with Jaccard similarity s, with probability 1 - (1 - s**r)**b

Broder 1997; Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, chapter 3. The
permutations are datasketch 2's affine32: given the same hashes, a and b, the signatures
are bitwise equal, and so is the choice of bands.
"""

import functools
import hashlib

import numpy as np

from jepa_text.data.cleaning import words

SHORT = words.BLOCK // 8  # characters, up to which texts are processed in batches
EMPTY = np.uint32(2**32 - 1)  # every entry of the signature of a text without words
# Weights of false positives, which cost time, and false negatives, which keep duplicates.
FALSE_POSITIVE, FALSE_NEGATIVE = 0.1, 0.9
TOGETHER = 2048  # hashes permuted at once, so that they fit in a cache


@functools.cache
def permutations(count):
    """Returns (odd factors, summands), each uint32 [count], the same on every machine."""
    stream = hashlib.shake_128(b'jepa_text minhash').digest(8 * count)
    both = np.frombuffer(stream, '<u4').astype(np.uint32)
    return both[:count] | np.uint32(1), both[count:]


def signature(hashes, factors, summands):
    """Returns uint32 [K], the minimum over hashes uint32 [N] under each permutation."""
    found = np.full(len(factors), EMPTY)
    mixed = _mix(hashes)
    for start in range(0, len(mixed), TOGETHER):
        some = mixed[start : start + TOGETHER]
        permuted = factors[:, None] * some
        permuted += summands[:, None]
        np.minimum(found, permuted.min(axis=1), out=found)
    return found


def of_text(text, ngram, count):
    """Returns uint32 [count], the signature of a text's n-grams of `ngram` words.

    A text of fewer words is one shingle; one without words has EMPTY in all places.
    """
    factors, summands = permutations(count)
    found = np.full(count, EMPTY)
    before = 0
    for hashes, new in words.overlapping(words.folded(text), ngram):
        if not new:
            continue
        size = min(len(hashes), ngram)
        grams = words.mix(words.ngrams(hashes, size)).astype(np.uint32)
        if size > before:
            # The blocks so far had fewer words than an n-gram: their shingle is void.
            found[:] = EMPTY
            before = size
        np.minimum(found, signature(grams, factors, summands), out=found)
    return found


def of_texts(texts, ngram, count):
    """Returns uint32 [T, count], `of_text` of each text; short texts are batched."""
    found = np.full((len(texts), count), EMPTY)
    short, characters = [], 0
    for number, text in enumerate(texts):
        if len(text) > SHORT:
            found[number] = of_text(text, ngram, count)
            continue
        if characters + len(text) > 4 * SHORT:
            found[short] = _batched([texts[n] for n in short], ngram, count)
            short, characters = [], 0
        short.append(number)
        characters += len(text)
    if short:
        found[short] = _batched([texts[n] for n in short], ngram, count)
    return found


def _batched(texts, ngram, count):
    """The signatures of short texts, uint32 [T, count]."""
    factors, summands = permutations(count)
    hashes, sizes = words.folded_together(texts)
    found = np.full((len(texts), count), EMPTY)
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
    """(uint64 [S], int64 [T]): the concatenated n-grams of texts of `sizes` [T] words,
    and how many each text has. A text of fewer than `ngram` words is one shingle."""
    starts = np.cumsum(sizes) - sizes
    left = np.repeat(starts + sizes, sizes) - np.arange(len(hashes))
    is_first = np.zeros(len(hashes), bool)
    is_first[starts[sizes > 0]] = True
    grams = found = hashes.copy()
    for n in range(2, ngram + 1):
        found = words.extend_ngrams(found, hashes, n)
        # In a text of fewer than n words, the gram of its last words is final.
        reach = left[: len(found)] >= n
        grams[: len(found)][reach] = found[reach]
    counts = np.where(sizes > 0, np.maximum(sizes - ngram + 1, 1), 0)
    return grams[(left >= ngram) | is_first], counts


def estimate(first, second):
    """Returns the estimated Jaccard similarity of signatures [..., K], float64 [...]."""
    return np.mean(first == second, axis=-1)


@functools.cache
def bands(threshold, count):
    """Returns (number of bands b, rows per band r), chosen to minimize a weighted sum of
    false positives and false negatives.

    With p(s) = 1 - (1 - s**r)**b and the threshold t, the minimum over all b * r <= count
    of FALSE_POSITIVE * integral_0^t p(s) ds + FALSE_NEGATIVE * integral_t^1 1 - p(s) ds.
    """
    # Gauss-Legendre quadrature, exact for polynomials of degree `count`.
    at, weights = np.polynomial.legendre.leggauss(count // 2 + 1)
    at, weights = (at + 1) / 2, weights / 2
    best = (np.inf, 0, 0)
    for b in range(1, count + 1):
        rows = np.arange(1, count // b + 1)[:, None]
        below = 1 - (1 - (threshold * at) ** rows) ** b
        above = (1 - (threshold + (1 - threshold) * at) ** rows) ** b
        error = FALSE_POSITIVE * threshold * below @ weights
        error += FALSE_NEGATIVE * (1 - threshold) * above @ weights
        lowest = int(np.argmin(error))
        best = min(best, (float(error[lowest]), b, lowest + 1))
    return best[1:]


def band_keys(signatures, bands, rows):
    """Returns uint64 [bands, N], a hash of each band of the signatures [N, K]."""
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
