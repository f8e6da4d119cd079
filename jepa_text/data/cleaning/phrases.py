"""Search for many phrases in a text, by the hashes of its n-grams.

Phrases are runs of words as words.folded yields them: case, punctuation and whitespace
are ignored. Phrases may have different numbers of words; each number that occurs costs
one pass over a text.
"""

import dataclasses

import numpy as np

from jepa_text.data.cleaning import words

# Size of the prefilter table: one n-gram in 16 passes it by chance.
BITS_PER_PHRASE = 16


@dataclasses.dataclass(frozen=True, eq=False)
class _Table:
    """Phrases of n words, for one n: their hashes, sorted, uint64 [P]; the number of the
    set of each, int32 [P]; and a prefilter, bool by the first bits of a hash."""

    hashes: np.ndarray
    owners: np.ndarray
    prefilter: np.ndarray

    def find(self, grams):
        """The lowest number of a set with a phrase among the n-grams, or None."""
        shift = np.uint64(65 - len(self.prefilter).bit_length())
        grams = words.mix(grams)
        grams = grams[self.prefilter[grams >> shift]]
        if not len(grams):
            return None
        at = np.minimum(np.searchsorted(self.hashes, grams), len(self.hashes) - 1)
        owners = self.owners[at[self.hashes[at] == grams]]
        return int(owners.min()) if len(owners) else None


class Phrases:
    """Sets of phrases to search texts for."""

    def __init__(self, sets):
        """`sets` has for each set {n: a list of uint64 arrays of n-gram hashes} as
        words.ngrams makes them. A phrase of several sets belongs to the first."""
        lengths = sorted({n for one in sets for n in one})
        self._tables = {n: _table([one.get(n, ()) for one in sets]) for n in lengths}

    def find(self, text):
        """Returns the number of the first set with a phrase in the text, or None."""
        if not self._tables:
            return None
        found, longest = [], max(self._tables)
        for hashes, new in words.overlapping(words.folded(text), longest):
            before = len(hashes) - new
            for n, table in self._tables.items():
                fresh = hashes[max(before - n + 1, 0) :]
                if len(fresh) >= n:
                    found.append(table.find(words.ngrams(fresh, n)))
        return min((number for number in found if number is not None), default=None)


def _table(sets):
    arrays = [words.mix(grams) for grams_of in sets for grams in grams_of]
    owners = [
        np.full(len(grams), number, np.int32)
        for number, grams_of in enumerate(sets)
        for grams in grams_of
    ]
    # np.unique returns first occurrences: of equal hashes, the one of the first set.
    hashes, first = np.unique(np.concatenate(arrays), return_index=True)
    bits = max(int(BITS_PER_PHRASE * len(hashes)).bit_length(), 6)
    prefilter = np.zeros(2**bits, bool)
    prefilter[hashes >> np.uint64(64 - bits)] = True
    return _Table(hashes, np.concatenate(owners)[first], prefilter)
