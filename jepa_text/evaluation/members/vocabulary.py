"""The rows of an embedding that a training set reads: all that a gradient reaches.

What no row reads is only ever decayed, by a factor that is known beforehand. So a member
trains a table of the tokens in use, a tenth of a vocabulary or less: its moments,
gradient and update are that much smaller, for the same numbers.
"""

import dataclasses

import numpy as np

EMBEDDING = 'embedding'


@dataclasses.dataclass(frozen=True)
class InUse:
    """used_U: the tokens, in order. place_V: where each token of the vocabulary is in
    used_U; of those that are not, anywhere."""

    used_U: np.ndarray
    place_V: np.ndarray

    def cut(self, params):
        """Parameters of an encoder with a table of used_U."""
        return {**params, EMBEDDING: params[EMBEDDING][self.used_U]}

    def restored(self, params, whole_VD, kept):
        """Parameters of an encoder with the whole table, whose other rows have kept so
        much of what they were."""
        table_VD = (whole_VD * kept).at[self.used_U].set(params[EMBEDDING])
        return {**params, EMBEDDING: table_VD}

    def read(self, batch):
        """A batch whose tokens are places in used_U."""
        return {**batch, 'tokens': self.place_V[batch['tokens']]}


def in_use(batches, size):
    """InUse of all batches, out of a vocabulary of `size` tokens.

    >>> found = in_use([{'tokens': np.array([[7, 2], [2, 0]])}], 10)
    >>> found.used_U.tolist(), found.place_V[[7, 2]].tolist()
    ([0, 2, 7], [2, 1])
    """
    there_V = np.zeros(size, bool)
    for batch in batches:
        there_V[batch['tokens']] = True
    place_V = np.maximum(np.cumsum(there_V) - 1, 0).astype(np.int32)
    return InUse(np.flatnonzero(there_V), place_V)


def kept(rate, factors, weight_decay):
    """What decay alone leaves of a parameter after all steps: the product over steps t of
    1 - rate * factors[t] * weight_decay (Loshchilov & Hutter 2019, algorithm 2)."""
    steps_T = 1 - float(rate) * np.asarray(factors, np.float64) * weight_decay
    with np.errstate(over='ignore'):  # a member that is not finite is told as one
        return np.float32(np.prod(steps_T))
