"""Gopher's quality and repetition filters for documents.

Rae et al. 2021 (arXiv 2112.11446), appendix A.1.1, with the thresholds of its text and of
its table A1. What the paper leaves open is interpreted as follows:

    words        are separated by whitespace, which does not count as characters
    lines        are non-blank lines, stripped of surrounding whitespace
    paragraphs   are separated by blank lines
    duplicates   are lines, paragraphs or n-grams that occurred earlier in the document;
                 the first occurrence is not a duplicate
    top n-gram   is the most frequent one that occurs at least twice; among equally
                 frequent ones, the longest
    bullets      are the usual characters, '-' and '*'

A document exactly at a threshold is kept. Only the stop words are specific to English.
"""

import re

import numpy as np

from jepa_text.data.cleaning import words as word_arrays

MIN_WORDS, MAX_WORDS = 50, 100_000
MIN_WORD_LENGTH, MAX_WORD_LENGTH = 3, 10  # the mean, in characters
MAX_SYMBOLS = 0.1  # hashes, or ellipses, per word
MAX_BULLETS = 0.9  # of the lines
MAX_ELLIPSES = 0.3  # of the lines
MIN_LETTERED = 0.8  # of the words
STOP_WORDS = re.compile(r'\b(?:the|be|to|of|and|that|have|with)\b', re.IGNORECASE)
MIN_STOP_WORDS = 2  # different ones
BULLETS = ('•', '‣', '◦', '▪', '●', '-', '*')
ELLIPSES = ('...', '…')
# Table A1: share of duplicate lines or paragraphs, of their characters, and of the
# characters of n-grams.
MAX_DUPLICATES, MAX_DUPLICATE_CHARACTERS = 0.30, 0.20
MAX_TOP = {2: 0.20, 3: 0.18, 4: 0.16}
MAX_DUPLICATE_NGRAMS = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}
# Above this many characters, only the words are checked first: it may be very long.
LONG = 2 * MAX_WORDS


def reason(text, stop_words=True):
    """Returns why a document is dropped, as 'gopher: too few words'; '' if it is kept.

    With `stop_words`, at least two English stop words are required; without, the filter
    is independent of the language.
    """
    if len(text) > LONG:
        first = text.split(None, MAX_WORDS)
        if len(first) > MAX_WORDS:
            return 'gopher: too many words'
        if sum(map(len, first)) > MAX_WORD_LENGTH * len(first):
            return 'gopher: word length'
    words = word_arrays.spaced(text)
    lines = [line for line in map(str.strip, text.split('\n')) if line]
    found = (
        _quality(text, words, lines)
        or (stop_words and _stop_words(text))
        or _lines(lines, 'lines')
        or _lines(_paragraphs(text), 'paragraphs')
        or _ngrams(words)
    )
    return f'gopher: {found}' if found else ''


def _quality(text, words, lines):
    """The first quality rule of A.1.1 that is broken, except for the stop words."""
    count = len(words.hashes)
    if count < MIN_WORDS:
        return 'too few words'
    if count > MAX_WORDS:
        return 'too many words'
    if not MIN_WORD_LENGTH <= words.lengths.sum() / count <= MAX_WORD_LENGTH:
        return 'word length'
    if max(text.count('#'), sum(map(text.count, ELLIPSES))) > MAX_SYMBOLS * count:
        return 'symbols'
    if sum(line.startswith(BULLETS) for line in lines) > MAX_BULLETS * len(lines):
        return 'bullets'
    if sum(line.endswith(ELLIPSES) for line in lines) > MAX_ELLIPSES * len(lines):
        return 'ellipses'
    if np.count_nonzero(words.lettered) < MIN_LETTERED * count:
        return 'words without letters'
    return ''


def _stop_words(text):
    seen = set()
    for found in STOP_WORDS.finditer(text):
        seen.add(found[0].lower())
        if len(seen) == MIN_STOP_WORDS:
            return ''
    return 'stop words'


def _paragraphs(text):
    parts = map(str.strip, text.split('\n\n')) if '\n\n' in text else ()
    return [part for part in parts if part]


def _lines(lines, kind):
    """Checks the shares of duplicate lines or paragraphs and of their characters."""
    distinct = set(lines)
    copies = len(lines) - len(distinct)
    if not copies:
        return ''
    if copies > MAX_DUPLICATES * len(lines):
        return f'duplicate {kind}'
    characters = sum(map(len, lines))
    if characters - sum(map(len, distinct)) > MAX_DUPLICATE_CHARACTERS * characters:
        return f'characters of duplicate {kind}'
    return ''


def _ngrams(words):
    """Checks the shares of characters in top and duplicate n-grams."""
    hashes = words.hashes
    ends = np.concatenate([[0], np.cumsum(words.lengths)])
    characters = ends[-1]
    grams = hashes
    for n in range(2, 11):
        grams = word_arrays.extend_ngrams(grams, hashes, n)
        if n in MAX_TOP:
            if _top(grams, ends, n) > MAX_TOP[n] * characters:
                return f'top {n}-gram'
            continue
        covered = _covered(grams, words.lengths, n)
        if covered > MAX_DUPLICATE_NGRAMS[n] * characters:
            return f'duplicate {n}-grams'
        # Longer n-grams cover a subset of these characters; 10 has the lowest threshold.
        if covered <= MAX_DUPLICATE_NGRAMS[10] * characters:
            return ''
    return ''


def _top(grams, ends, n):
    """Characters in all occurrences of the top n-gram; 0 if none occurs twice."""
    ordered = np.sort(grams)
    bounds = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    counts = np.diff(bounds, prepend=0, append=len(ordered))
    highest = counts.max(initial=0)
    if highest < 2:
        return 0
    top = ordered[np.concatenate([[0], bounds])[counts == highest]]
    at = np.flatnonzero(_is_in(grams, top))
    return highest * (ends[at + n] - ends[at]).max()


def _covered(grams, lengths, n):
    """Characters within n-grams that occurred before, each character counted once."""
    ordered = np.sort(grams)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(repeated):
        return 0
    at = np.flatnonzero(_is_in(grams, repeated))
    _, first = np.unique(grams[at], return_index=True)
    again = np.delete(at, first)
    change = np.zeros(len(lengths) + 1, np.int64)
    change[again] += 1
    change[again + n] -= 1
    return lengths[np.cumsum(change[:-1]) > 0].sum()


def _is_in(grams, ordered):
    """bool [G]: which n-grams occur in the sorted array `ordered`."""

    at = np.minimum(np.searchsorted(ordered, grams), len(ordered) - 1)
    return ordered[at] == grams
