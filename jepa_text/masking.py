"""What is hidden: numpy samplers of fixed shape, on the host.

    tokens      <bos> Call  me  Ish ma  el  .  Some years ago <eos> <pad> <pad>
    segment_ids   1    1    1    1  1   1   1   1     1    1    1     0     0
    maskable      .    1    1    1  1   1   1   1     1    1    .     .     .
    word starts   1    1    1    1  .   .   1   1     1    1    1     .     .
    sentence      1    1    1    1  1   1   1   2     2    2    2     0     0

Three of the nine, at rate 1/3:

    fixed_count   .    .    1    .  .   1   .   .     1    .    .     .     .
    whole_word    .    .    .    1  1   1   .   .     .    .    .     .     .
    span          .    1    1    .  .   .   .   1     .    .    .     .     .
    sentence      .    .    .    .  .   .   .   1     1    1    .     .     .
    inputs of it  <bos> Call me Ish ma  el  .  [M]   [M]  [M] <eos> <pad> <pad>

A sampler is `(maskable_L, rate, rng, ...) -> mask_L`. All but `iid` hide a fixed count,
floor(rate * n + u) of n maskable positions with u uniform in [0, 1): floor or ceiling,
and right in expectation, so that short rows are not biased. `capacity` is never exceeded.
Specials and padding are never maskable. Randomness comes in as a generator, keyed by
the pipeline to the row, so a row is masked alike on every number of hosts.
"""

import math

import numpy as np


def maskable(tokens_L, segment_ids_L, special_ids):
    """Positions that may be hidden: in a document, and not a special token."""
    return (segment_ids_L > 0) & ~np.isin(tokens_L, special_ids)


def capacity(rate, length):
    """The most positions that a sampler of a fixed count hides in a row of `length`."""
    return min(length, math.floor(rate * length) + 1)


def fixed_count(maskable_L, rate, rng):
    """Hides single tokens, every set of them equally likely."""
    candidates = np.flatnonzero(maskable_L)
    count = _count(len(candidates), rate, rng)
    return _at(maskable_L, rng.choice(candidates, count, replace=False))


def iid(maskable_L, rate, rng):
    """Hides each maskable position with probability `rate` (arXiv 2507.00994, 2.4)."""
    return maskable_L & (rng.random(len(maskable_L)) < rate)


def whole_word(maskable_L, rate, rng, starts_word_L):
    """Hides whole words, drawn in random order as long as they fit into the count.

    A word is a start (`word_starts`) and the maskable tokens behind it up to the next
    start or special. When no word is left that fits, fewer are hidden than the count;
    only when the first word drawn exceeds all of the count, a part of it is hidden.
    """
    previous_L = np.roll(maskable_L, 1)
    previous_L[:1] = False
    word_L = np.cumsum(starts_word_L | ~previous_L)
    return _whole(maskable_L, rate, rng, word_L)


def word_starts(tokens_L, segment_ids_L, starts_word_V):
    """bool [L]: tokens that begin a word, and the first token of each document.

    `starts_word_V` is the tokenizer's table of tokens that begin a word.
    """
    return starts_word_V[tokens_L] | _document_starts(segment_ids_L)


def sentence(maskable_L, rate, rng, sentence_L):
    """Hides whole sentences, as `whole_word` does words; so it falls short of the count
    more often, by less than the shortest sentence left visible."""
    return _whole(maskable_L, rate, rng, sentence_L)


def sentence_ids(tokens_L, segment_ids_L, ends_sentence_V):
    """int [L]: number of the sentence within the row, from 1; 0 is padding.

    A sentence ends behind a token of the table `ends_sentence_V` (behind the last one of
    several in a row, as in `?!`), and with its document.
    """
    ends_L = ends_sentence_V[tokens_L]
    begins_L = _document_starts(segment_ids_L)
    begins_L[1:] |= ends_L[:-1] & ~ends_L[1:]
    return np.where(segment_ids_L > 0, np.cumsum(begins_L & (segment_ids_L > 0)), 0)


def span(maskable_L, rate, rng, p=0.2, longest=10, fixed_length=None):
    """Hides spans, with a visible token between any two as long as there are enough.

    Their lengths are geometric, P(l) ~ p (1 - p)^(l - 1), l = 1..`longest`: SpanBERT's,
    mean 3.80 (arXiv 1907.10529, 3.1); or all `fixed_length`, 4 in data2vec (arXiv
    2202.03555). The last one is shortened to make the count exact. The spans lie on a
    ring of the row's maskable tokens, in any arrangement alike, so that every position
    is equally likely to be hidden; the ends of documents and specials cut them in two.
    Raises ValueError for p outside (0, 1) and lengths below 1.
    """
    if not 0 < p < 1:
        raise ValueError(f'span: p={p} is not inside (0, 1); SpanBERT has 0.2.')
    if longest < 1 or (fixed_length is not None and fixed_length < 1):
        raise ValueError(
            f'span: longest={longest} and fixed_length={fixed_length} must be 1 or more.'
        )
    candidates = np.flatnonzero(maskable_L)
    count = _count(len(candidates), rate, rng)
    if count == 0:
        return _at(maskable_L, [])
    if fixed_length is None:
        # By inversion; no length is below 1, so `count` of them are enough.
        u = rng.random(count) * (1 - (1 - p) ** longest)
        lengths = 1 + np.floor(np.log1p(-u) / np.log1p(-p)).astype(int)
    else:
        lengths = np.full(count, fixed_length)
    ends = np.cumsum(lengths)
    spans = np.searchsorted(ends, count) + 1
    lengths = lengths[:spans]
    lengths[-1] -= ends[spans - 1] - count
    return _at(maskable_L, candidates[_ring(lengths, len(candidates), rng)])


def document_rates(segment_ids_L, draw):
    """A rate for each document of a row, [documents]: `draw(how many)`, for instance
    `lambda n: rng.uniform(0.15, 0.5, n)`. Raises ValueError for rates outside [0, 1]."""
    rates = np.asarray(draw(int(segment_ids_L.max(initial=0))), float)
    if not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError(f'document_rates: {rates} are not all in [0, 1].')
    return rates


def fixed_count_per_document(maskable_L, rates, rng, segment_ids_L):
    """Hides single tokens, in each document its own share of them.

    `rates` is a number or `document_rates`. Each document's count is the floor or the
    ceiling of its rate * n, and so is the row's of their sum: `capacity` of the highest
    rate holds however many documents there are.
    """
    candidates = np.flatnonzero(maskable_L)
    document_N = segment_ids_L[candidates] - 1
    counts, sizes = _document_counts(document_N, rates, segment_ids_L, rng)
    # By document, and in random order within it.
    order = np.argsort(document_N + 0.5 * rng.random(len(candidates)))
    first = np.cumsum(sizes) - sizes
    rank_N = np.arange(len(candidates)) - first[document_N[order]]
    return _at(maskable_L, candidates[order[rank_N < counts[document_N[order]]]])


def by_document(sample, maskable_L, rates, rng, segment_ids_L):
    """Any sampler of a fixed count, document by document, counted as above.

    `sample(maskable_L, rate, rng)` sees one document's maskable positions at a time:
    `lambda *given: whole_word(*given, starts_word_L)`.
    """
    document_N = segment_ids_L[maskable_L] - 1
    counts, sizes = _document_counts(document_N, rates, segment_ids_L, rng)
    mask_L = np.zeros(len(maskable_L), bool)
    for document in np.flatnonzero(counts):
        # A rate that makes rate * n the very count, which no rounding changes.
        rate = counts[document] / sizes[document]
        mask_L |= sample(maskable_L & (segment_ids_L == document + 1), rate, rng)
    return mask_L


def limit(mask_L, most, rng):
    """Drops random positions of a mask until at most `most` are left."""
    chosen = np.flatnonzero(mask_L)
    if len(chosen) <= most:
        return mask_L
    mask_L = mask_L.copy()
    mask_L[rng.choice(chosen, len(chosen) - most, replace=False)] = False
    return mask_L


def overflow(mask_L, most):
    """How many positions `limit` would drop."""
    return max(0, int(np.count_nonzero(mask_L)) - most)


def replace(tokens_L, mask_L, rng, *, mask_id, random_ids, mask_share, random_share):
    """inputs_L: of the hidden positions a share becomes the mask token, a share a
    random word of `random_ids`, and the rest keeps its token (BERT's 80/10/10)."""
    inputs_L = tokens_L.copy()
    if mask_share == 1:
        inputs_L[mask_L] = mask_id
        return inputs_L
    draw_L = rng.random(len(tokens_L))
    words_L = rng.choice(random_ids, len(tokens_L))
    inputs_L[mask_L & (draw_L < mask_share)] = mask_id
    is_random_L = mask_L & (draw_L >= mask_share) & (draw_L < mask_share + random_share)
    inputs_L[is_random_L] = words_L[is_random_L]
    return inputs_L


def _count(candidates, rate, rng):
    return math.floor(rate * candidates + rng.random())


def _at(maskable_L, positions):
    mask_L = np.zeros(len(maskable_L), bool)
    mask_L[positions] = True
    return mask_L


def _document_starts(segment_ids_L):
    """bool [L]: the first position of each document and of the padding."""
    return np.append(True, segment_ids_L[1:] != segment_ids_L[:-1])


def _whole(maskable_L, rate, rng, unit_L):
    """Hides all members of units (words, sentences), never more than the count."""
    candidates = np.flatnonzero(maskable_L)
    left = _count(len(candidates), rate, rng)
    unit_N = unit_L[candidates]
    sizes = np.bincount(unit_N)
    order = rng.permutation(np.flatnonzero(sizes))
    if left and sizes[order[0]] > left:
        members = candidates[unit_N == order[0]]
        start = rng.integers(len(members) - left + 1)
        return _at(maskable_L, members[start : start + left])
    is_hidden = np.zeros(len(sizes), bool)
    while left and len(order):
        total = np.cumsum(sizes[order])
        taken = np.searchsorted(total, left, side='right')
        is_hidden[order[:taken]] = True
        left -= total[taken - 1]
        # Units that are too large now are passed over: all that stay fit, alone.
        order = order[taken:]
        order = order[sizes[order] <= left]
    return _at(maskable_L, candidates[is_hidden[unit_N]])


def _ring(lengths, size, rng):
    """bool [size]: spans of these lengths in a uniformly random arrangement on a ring."""
    visible = size - lengths.sum()
    # A piece is a span and the visible token behind it, or a visible token.
    gaps = np.arange(len(lengths)) < visible
    singles = max(0, visible - len(lengths))
    hidden = np.append(lengths, np.zeros(singles, int))
    pieces = np.append(lengths + gaps, np.ones(singles, int))
    order = rng.permutation(len(pieces))
    pieces, hidden = pieces[order], hidden[order]
    start = np.cumsum(pieces) - pieces
    offset_N = np.arange(size) - np.repeat(start, pieces)
    return np.roll(offset_N < np.repeat(hidden, pieces), rng.integers(size))


def _document_counts(document_N, rates, segment_ids_L, rng):
    """How many to hide in each document, and of how many.

    All share one u: count d is floor(sum of the first d + u) less the counts before it.
    """
    documents = int(segment_ids_L.max(initial=0))
    sizes = np.bincount(document_N, minlength=documents)
    ends = np.floor(np.cumsum(rates * sizes) + rng.random()).astype(int)
    return np.diff(ends, prepend=0), sizes
