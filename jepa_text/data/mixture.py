"""Which row comes next: several folders of rows as one stream, by weight.

    i            0  1  2  3  4  5  6  7  8  9        weights 0.7 (a) and 0.3 (b)
    part         a  b  a  a  a  b  a  a  b  a        `Mixture.at(i)[0]`
    its row      0  0  1  2  3  1  4  5  2  6        `Mixture.at(i)[1]`, before shuffling

No part is ever far from its share: of the first n rows it has n * share, give or take
(1 + H(parts - 2)) / 2 rows, where H(k) = 1 + 1/2 + ... + 1/k: half a row of two parts,
one of three, less than two of ten. Which part a row is of takes two divisions a part,
wherever it lies, with weights as exact fractions: the only state is i.
"""

import dataclasses
import functools
import hashlib
import json
from fractions import Fraction
from typing import Any

import numpy as np

# The key of a batch that says, of several parts, which one a row is of: bool [B, parts].
PART = 'data_part'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """Rows of a mixture.

    name     in metrics; '' for the only one
    before   of its rows, how many were read before the mixture began
    """

    name: str
    rows: Any
    weight: Fraction = Fraction(1)
    before: int = 0


class Mixture:
    """Parts as one endless stream; a single folder is a mixture of one part.

    `begins` is the row of the run that is row 0 of the mixture.
    """

    def __init__(self, parts, begins=0):
        self.parts, self.begins = tuple(parts), begins
        # The heaviest is taken out first: the bound above is of that order.
        order = sorted(range(len(self.parts)), key=lambda p: -self.parts[p].weight)
        total = sum(part.weight for part in self.parts)
        # (part, its share of the rows that are left, as two whole numbers)
        self._split, left = [], total
        for number in order[:-1]:
            share = self.parts[number].weight / left
            self._split.append((number, share.numerator, share.denominator))
            left -= self.parts[number].weight
        self._last = order[-1]
        self.shares = [part.weight / total for part in self.parts]

    @functools.cached_property
    def fingerprint(self):
        """Of the rows, their order and their weights; of one part, that of its rows."""
        if len(self.parts) == 1:
            return self.parts[0].rows.fingerprint
        said = [
            (part.rows.fingerprint, str(share))
            for part, share in zip(self.parts, self.shares)
        ]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()

    @property
    def max_documents(self):
        """As many documents has a row at most; None if a folder does not say it."""
        found = [part.rows.max_documents for part in self.parts]
        return None if None in found else max(found)

    def at(self, index):
        """(part, which of its rows in the mixture) of row `index`, from 0.

        >>> parts = [Part(name=n, rows=(), weight=Fraction(n)) for n in ('0.7', '0.3')]
        >>> [Mixture(parts).at(i) for i in range(4)]
        [(0, 0), (1, 0), (0, 1), (0, 2)]
        """
        now, then = index, index + 1
        for number, share, whole in self._split:
            # The nearest whole number, so that what is left is near its share, too.
            had, has = ((2 * n * share + whole) // (2 * whole) for n in (now, then))
            if has > had:
                return number, had
            now, then = now - had, then - has
        return self._last, now

    def counts(self, index):
        """How many of the first `index` rows each part has."""
        found, left = [0] * len(self.parts), index
        for number, share, whole in self._split:
            found[number] = (2 * left * share + whole) // (2 * whole)
            left -= found[number]
        found[self._last] = left
        return found

    def read(self, row):
        """How many rows of each part the run has read when `row` is its next one, those
        before the mixture among them."""
        counts = self.counts(row - self.begins)
        return [part.before + count for part, count in zip(self.parts, counts)]

    def one_hot(self, number):
        """bool [parts]: which part a row is of."""
        return np.arange(len(self.parts)) == number
