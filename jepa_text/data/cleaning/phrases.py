"""Does a text hold one of many phrases? By the hashes of its n-grams.

A phrase is a run of words, as words.folded has them: neither case nor punctuation nor the
space between words tells two apart. Phrases may have any numbers of words; a text is
looked at once for each that occurs.
"""

import dataclasses

import numpy as np

from jepa_text.data.cleaning import words

BITS_PER_PHRASE = (
    16  # of the table that is asked first: one n-gram in 16 passes by chance
)


@dataclasses.dataclass(frozen=True, eq=False)
class _OfLength:
    """Phrases of one number of words: their hashes, ordered, uint64 [P]; of which set
    each is, int32 [P]; and a table that tells by the first bits which cannot be there."""

    hashes: np.ndarray
    owners: np.ndarray
    table: np.ndarray

    def find(self, grams):
        """The first set of which a phrase is among the n-grams; None if there is none."""
        shift = np.uint64(65 - len(self.table).bit_length())
        grams = words.mix(grams)
        grams = grams[self.table[grams >> shift]]
        if not len(grams):
            return None
        at = np.minimum(np.searchsorted(self.hashes, grams), len(self.hashes) - 1)
        owners = self.owners[at[self.hashes[at] == grams]]
        return int(owners.min()) if len(owners) else None


class Phrases:
    """Sets of phrases, to be looked for in texts."""

    def __init__(self, sets):
        """`sets` holds, for each set, {number of words: a list of uint64 arrays of the
        hashes of n-grams} as words.ngrams makes them. A phrase of several sets is the
        first one's."""
        lengths = sorted({n for one in sets for n in one})
        self._tables = {n: _of_length([one.get(n, ()) for one in sets]) for n in lengths}

    def find(self, text):
        """The number of the first set of which a phrase is in the text, or None."""
        if not self._tables:
            return None
        found, longest = [], max(self._tables)
        for hashes, new in words.carried(words.folded(text), longest):
            before = len(hashes) - new
            for n, table in self._tables.items():
                fresh = hashes[max(before - n + 1, 0) :]
                if len(fresh) >= n:
                    found.append(table.find(words.ngrams(fresh, n)))
        return min((one for one in found if one is not None), default=None)


def _of_length(sets):
    arrays = [words.mix(grams) for grams_of in sets for grams in grams_of]
    owners = [
        np.full(len(grams), number, np.int32)
        for number, grams_of in enumerate(sets)
        for grams in grams_of
    ]
    # The first of equal hashes is that of the first set.
    hashes, first = np.unique(np.concatenate(arrays), return_index=True)
    bits = max(int(BITS_PER_PHRASE * len(hashes)).bit_length(), 6)
    table = np.zeros(2**bits, bool)
    table[hashes >> np.uint64(64 - bits)] = True
    return _OfLength(hashes, np.concatenate(owners)[first], table)
