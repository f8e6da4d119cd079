"""Token masking: numpy samplers of fixed shape, on the host.

    tokens      <bos> Call  me  Ish ma  el  .  Some years ago <eos> <pad> <pad>
    segment_ids   1    1    1    1  1   1   1   1     1    1    1     0     0
    maskable      .    1    1    1  1   1   1   1     1    1    .     .     .
    word starts   1    1    1    1  .   .   1   1     1    1    1     .     .

Three of the four samplers, at rate 1/3:

    fixed_count   .    .    1    .  .   1   .   .     1    .    .     .     .
    whole_word    .    .    .    1  1   1   .   .     .    .    .     .     .
    span          .    1    1    .  .   .   .   1     .    .    .     .     .
    its inputs    <bos> [M] [M] Ish ma  el  .  [M]  years ago <eos> <pad> <pad>

A sampler is `(maskable_L, rate, rng, ...) -> mask_L`, bool; it raises ValueError for a
rate outside [0, 1]. `maskable_L` may also have 0 and 1, as an attention mask. All but
`iid` mask a fixed count, floor(rate * n + u) of n maskable positions with u uniform in
[0, 1): the floor or ceiling, unbiased in expectation even for short rows. `capacity` is
never exceeded. Specials and padding are never maskable. Inputs are not modified.
Randomness comes from a numpy generator that the pipeline keys to the row, so masks do not
depend on the number of hosts.
"""

import functools
import math

import numpy as np

SPAN_P, LONGEST_SPAN = 0.2, 10


def maskable(tokens_L, segment_ids_L, special_ids):
    """Returns bool [L]: positions in a document whose token is not a special one.

    Negative special ids, of tokens that a tokenizer lacks, are ignored.

    >>> maskable(np.array([1, 7, 8, 2, 0]), np.array([1, 1, 1, 1, 0]), [0, 1, 2])
    array([False,  True,  True, False, False])
    """
    maskable_V = _not_special(tuple(special_ids))
    # Larger ids are not special: they are clipped to the last entry of the table.
    return (segment_ids_L > 0) & maskable_V.take(tokens_L, mode='clip')


def capacity(rate, length, is_iid=False):
    """Returns the most positions that a fixed-count sampler masks in `length` tokens.

    For the iid sampler, the mean plus six standard deviations: one row in 10^9 has more
    and drops the rest, which `train/dropped_masks` counts.

    >>> capacity(0.3, 512)
    154
    """
    if is_iid:
        deviation = (length * rate * (1 - rate)) ** 0.5
        return min(length, math.ceil(rate * length + 6 * deviation))
    return min(length, math.floor(rate * length) + 1)


def fixed_count(maskable_L, rate, rng):
    """Masks single tokens; all sets of them are equally likely.

    >>> mask_L = fixed_count(np.arange(512) > 0, 0.3, np.random.default_rng(0))
    >>> int(mask_L.sum()) in (153, 154), bool(mask_L[0])
    (True, False)
    """
    candidates = np.flatnonzero(maskable_L)
    count = _count(len(candidates), rate, rng)
    return _at(maskable_L, rng.choice(candidates, count, replace=False))


def iid(maskable_L, rate, rng):
    """Masks each maskable position with probability `rate`, as in arXiv 2507.00994; the
    count is binomial, see `limit`.

    >>> iid(np.array([True, False, True]), 1.0, np.random.default_rng(0))
    array([ True, False,  True])
    """
    _check_share('rate', rate)
    return np.asarray(maskable_L, bool) & (rng.random(len(maskable_L)) < rate)


def whole_word(maskable_L, rate, rng, starts_word_L):
    """Masks whole words, drawn in random order as long as they fit into the count.

    A word is a start (`word_starts`) and the maskable tokens after it up to the next
    start or special. If no remaining word fits, fewer tokens are masked than the count;
    only if the first word drawn exceeds the whole count, a part of it is masked. This is
    BERT's whole-word masking (its repository, May 2019) with a count that is respected.

    >>> starts_word_L = np.array([True, False, True, False])
    >>> rng = np.random.default_rng(0)
    >>> mask_L = whole_word(np.ones(4, bool), 0.5, rng, starts_word_L)
    >>> mask_L.tolist() in ([True, True, False, False], [False, False, True, True])
    True
    """
    maskable_L = np.asarray(maskable_L, bool)
    begins_L = starts_word_L.copy()
    begins_L[:1] = True
    begins_L[1:] |= ~maskable_L[:-1]
    candidates = np.flatnonzero(maskable_L)
    left = _count(len(candidates), rate, rng)
    word_N = begins_L.cumsum()[candidates]
    sizes = np.bincount(word_N)
    order = rng.permutation(np.flatnonzero(sizes))
    if left and sizes[order[0]] > left:
        members = candidates[word_N == order[0]]
        start = rng.integers(len(members) - left + 1)
        return _at(maskable_L, members[start : start + left])
    is_masked = np.zeros(len(sizes), bool)
    while left and len(order):
        total = np.cumsum(sizes[order])
        taken = np.searchsorted(total, left, side='right')
        is_masked[order[:taken]] = True
        left -= total[taken - 1]
        # Words that no longer fit are dropped; each of the rest fits by itself.
        order = order[taken:]
        order = order[sizes[order] <= left]
    return _at(maskable_L, candidates[is_masked[word_N]])


def word_starts(tokens_L, segment_ids_L, starts_word_V):
    """Returns bool [L]: tokens that begin a word, and the first token of each document.

    `starts_word_V` is the tokenizer's table of tokens that begin a word.

    >>> starts_word_V = np.array([True, False, True])
    >>> word_starts(np.array([2, 1, 1, 2]), np.array([1, 1, 2, 2]), starts_word_V)
    array([ True, False,  True,  True])
    """
    begins_L = np.append(True, segment_ids_L[1:] != segment_ids_L[:-1])
    return starts_word_V[tokens_L] | begins_L


def span(maskable_L, rate, rng, fixed_length=None):
    """Masks spans, separated by at least one unmasked token if there are enough.

    Lengths are geometric, P(l) ~ p (1 - p)^(l - 1) with p = 0.2, l = 1..10: SpanBERT's,
    mean 3.80 (arXiv 1907.10529, 3.1); or all `fixed_length`, 4 in data2vec (arXiv
    2202.03555). The last span is shortened to make the count exact. The spans lie on a
    ring of the row's maskable tokens, all arrangements being equally likely, so that
    every position is masked with the same probability; document boundaries and specials
    split them.

    >>> mask_L = span(np.ones(12, bool), 0.5, np.random.default_rng(0), fixed_length=6)
    >>> int(mask_L.sum()), int(np.abs(np.diff(mask_L, append=mask_L[0])).sum())
    (6, 2)
    """
    if fixed_length is not None and fixed_length < 1:
        raise ValueError(f'fixed_length={fixed_length} must be at least 1, or None.')
    candidates = np.flatnonzero(maskable_L)
    count = _count(len(candidates), rate, rng)
    if count == 0:
        return _at(maskable_L, [])
    if fixed_length is None:
        # Inverse transform sampling; all lengths are at least 1, so `count` are enough.
        u = rng.random(count) * (1 - (1 - SPAN_P) ** LONGEST_SPAN)
        lengths = 1 + np.floor(np.log1p(-u) / np.log1p(-SPAN_P)).astype(int)
    else:
        lengths = np.full(count, fixed_length)
    ends = lengths.cumsum()
    spans = ends.searchsorted(count) + 1
    lengths = lengths[:spans]
    lengths[-1] -= ends[spans - 1] - count
    return _at(maskable_L, candidates[_ring(lengths, len(candidates), rng)])


def limit(mask_L, maximum, rng):
    """Unmasks random positions until at most `maximum` are masked.

    >>> int(limit(np.ones(5, bool), 3, np.random.default_rng(0)).sum())
    3
    """
    if np.count_nonzero(mask_L) <= maximum:
        return mask_L
    chosen = np.flatnonzero(mask_L)
    mask_L = mask_L.copy()
    mask_L[rng.choice(chosen, len(chosen) - maximum, replace=False)] = False
    return mask_L


def replace(tokens_L, mask_L, rng, *, mask_id, random_ids, mask_share, random_share):
    """Returns inputs_L: a share of the masked positions becomes the mask token, a share a
    random token of `random_ids`, and the rest keep their tokens.

    BERT (arXiv 1810.04805, 3.1) has shares 0.8 and 0.1; arXiv 2507.00994 has 1 and 0.
    The dtype is that of the tokens. Raises ValueError for shares that are not in [0, 1],
    together.

    >>> tokens_L, mask_L = np.array([5, 6]), np.array([False, True])
    >>> replace(tokens_L, mask_L, np.random.default_rng(0), mask_id=3,
    ...         random_ids=tokens_L, mask_share=1.0, random_share=0.0)
    array([5, 3])
    """
    for name, share in (('mask_share', mask_share), ('random_share', random_share)):
        _check_share(name, share)
    _check_share('mask_share + random_share', round(mask_share + random_share, 6))
    inputs_L, mask_L = tokens_L.copy(), np.asarray(mask_L, bool)
    if mask_share == 1:
        np.putmask(inputs_L, mask_L, mask_id)
        return inputs_L
    draw_L = rng.random(len(tokens_L))
    drawn_L = np.asarray(random_ids)[rng.integers(0, len(random_ids), len(tokens_L))]
    inputs_L[mask_L & (draw_L < mask_share)] = mask_id
    is_random_L = mask_L & (draw_L >= mask_share) & (draw_L < mask_share + random_share)
    inputs_L[is_random_L] = drawn_L[is_random_L]
    return inputs_L


@functools.lru_cache(maxsize=8)
def _not_special(special_ids):
    """bool [highest id + 2]: whether an id is not a special one."""
    maskable_V = np.ones(max(special_ids, default=-1) + 2, bool)
    maskable_V[[i for i in special_ids if i >= 0]] = False
    return maskable_V


def _check_share(name, share):
    if not 0 <= share <= 1:
        raise ValueError(f'{name}={share} must be from 0 to 1.')


def _count(candidates, rate, rng):
    _check_share('rate', rate)
    return math.floor(rate * candidates + rng.random())


def _at(maskable_L, positions):
    mask_L = np.zeros(len(maskable_L), bool)
    mask_L[positions] = True
    return mask_L


def _ring(lengths, size, rng):
    """int [tokens]: the places that spans of these lengths take on a ring, in a uniformly
    random arrangement."""
    tokens = lengths.sum()
    visible = size - tokens
    # A piece is a span and the unmasked token after it, or an unmasked token.
    order = rng.permutation(max(len(lengths), visible))
    masked = np.zeros(len(order), int)
    masked[: len(lengths)] = lengths
    is_followed = order < visible
    # Before a masked token lie the masked ones, and the unmasked ones of other pieces.
    unmasked = (is_followed.cumsum() - is_followed).repeat(masked[order])
    return (unmasked + np.arange(tokens) + rng.integers(size)) % size
