"""Mixtures: several folders of rows interleaved as one stream, by weight.

    i            0  1  2  3  4  5  6  7  8  9        weights 0.7 (a) and 0.3 (b)
    part         a  b  a  a  a  b  a  a  b  a        `Mixture.at(i)[0]`
    its row      0  0  1  2  3  1  4  5  2  6        `Mixture.at(i)[1]`, before shuffling

No part is ever far from its share: of the first n rows it has n * share, up to
(1 + H(parts - 2)) / 2 rows, where H(k) = 1 + 1/2 + ... + 1/k: half a row for two parts,
one for three, less than two for ten. The part of any row is computed from i alone, with
weights as exact fractions, so the only state is i.
"""

import dataclasses
import functools
import hashlib
import json
from fractions import Fraction
from typing import Any

import numpy as np

# The key in the batches of a mixture for the part of each row: one-hot bool [B, parts].
PART = 'data_part'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """The rows of one part of a mixture.

    name     in metrics; '' if there is only one part
    before   how many of its rows were read before the mixture began
    """

    name: str
    rows: Any
    weight: Fraction = Fraction(1)
    before: int = 0


class Mixture:
    """Parts as one endless stream; a single folder is a mixture of one part.

    `begins` is the number in the run of row 0 of the mixture.
    """

    def __init__(self, parts, begins=0):
        self.parts, self.begins = tuple(parts), begins
        # The heaviest part is split off first: the bound above holds for this order.
        order = sorted(range(len(self.parts)), key=lambda p: -self.parts[p].weight)
        total = sum(part.weight for part in self.parts)
        # (part, numerator and denominator of its share of the remaining rows)
        self._split, left = [], total
        for number in order[:-1]:
            share = self.parts[number].weight / left
            self._split.append((number, share.numerator, share.denominator))
            left -= self.parts[number].weight
        self._last = order[-1]
        self.shares = [part.weight / total for part in self.parts]

    @functools.cached_property
    def fingerprint(self):
        """The sha256 of all rows' fingerprints in order and their shares; for a single
        part, the fingerprint of its rows."""
        if len(self.parts) == 1:
            return self.parts[0].rows.fingerprint
        identity = [
            (part.rows.fingerprint, str(share))
            for part, share in zip(self.parts, self.shares)
        ]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    @property
    def max_documents(self):
        """The maximum number of documents in a row; None if unknown for some folder."""
        counts = [part.rows.max_documents for part in self.parts]
        return None if None in counts else max(counts)

    def at(self, index):
        """Returns (part, number of its row within the mixture) of row `index`, from 0.

        >>> parts = [Part(name=n, rows=(), weight=Fraction(n)) for n in ('0.7', '0.3')]
        >>> [Mixture(parts).at(i) for i in range(4)]
        [(0, 0), (1, 0), (0, 1), (0, 2)]
        """
        before, after = self.counts(index), self.counts(index + 1)
        return next((p, n) for p, n in enumerate(before) if after[p] > n)

    def counts(self, index):
        """Returns how many of the first `index` rows each part has."""
        counts, left = [0] * len(self.parts), index
        for number, share, whole in self._split:
            # Rounded to nearest, so that the remaining rows are near their share, too.
            counts[number] = (2 * left * share + whole) // (2 * whole)
            left -= counts[number]
        counts[self._last] = left
        return counts

    def read(self, row):
        """Returns how many rows of each part the run has read if `row` is its next one,
        including those before the mixture."""
        counts = self.counts(row - self.begins)
        return [part.before + count for part, count in zip(self.parts, counts)]

    def one_hot(self, number):
        return np.arange(len(self.parts)) == number
