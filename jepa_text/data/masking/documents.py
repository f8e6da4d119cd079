"""Masking per document: rows with several documents, each with its own rate.

    document_rates   draws a rate for each document of a row
    by_document      applies a sampler of tokens.py to each document

    segment_ids  1 1 1 1 1 1 1 1 2 2 2 2 0 0
    rates        0.25            0.75
    mask         . 1 . . . 1 . . 1 1 . 1 . .

`segment_ids_L` numbers the documents of a row from 1 in order, 0 is padding. Masks are
bool; inputs are not modified; randomness comes from a numpy generator.
"""

import numpy as np


def document_rates(segment_ids_L, draw):
    """Returns a rate for each document of a row, [documents]: `draw(count)`, for example
    `lambda n: rng.uniform(0.15, 0.5, n)`. Raises ValueError for rates outside [0, 1].

    >>> document_rates(np.array([1, 1, 2, 0]), lambda n: np.linspace(0.2, 0.4, n))
    array([0.2, 0.4])
    """
    rates = np.asarray(draw(int(segment_ids_L.max(initial=0))), float)
    if not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError(f'document_rates: {rates} must all be in [0, 1].')
    return rates


def by_document(sample, maskable_L, rates, rng, segment_ids_L):
    """Applies a sampler of a fixed count to each document.

    `rates` is a number or `document_rates`. Each document's count is the floor or the
    ceiling of its rate * n, and the row's count that of their sum: `masking.capacity` of
    the highest rate suffices however many documents there are.
    `sample(maskable_L, rate, rng)` sees one document's maskable positions at a time:
    `lambda *given: masking.whole_word(*given, starts_word_L)`.

    >>> def first(maskable_L, rate, rng):
    ...     chosen_L = np.cumsum(maskable_L) <= round(rate * maskable_L.sum())
    ...     return maskable_L & chosen_L
    >>> ids_L = np.array([1, 1, 2, 2, 2, 2])
    >>> by_document(first, ids_L > 0, 0.5, np.random.default_rng(0), ids_L)
    array([ True, False,  True,  True, False, False])
    """
    document_N = segment_ids_L[maskable_L] - 1
    sizes = np.bincount(document_N, minlength=int(segment_ids_L.max(initial=0)))
    # All share one u: the first d documents together have floor(their sum + u) positions.
    ends = np.floor(np.cumsum(rates * sizes) + rng.random()).astype(int)
    counts = np.diff(ends, prepend=0)
    mask_L = np.zeros(len(maskable_L), bool)
    for document in np.flatnonzero(counts):
        # A rate for which rate * n is exactly the count, so that nothing is rounded.
        rate = counts[document] / sizes[document]
        mask_L |= sample(maskable_L & (segment_ids_L == document + 1), rate, rng)
    return mask_L
