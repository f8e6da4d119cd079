"""Training of only those embedding rows that occur in the training set.

Other rows have no gradient and only decay, by a factor known in advance. So a member
trains a table of the tokens in use, usually a tenth of the vocabulary or less. Its
moments, gradients and updates are that much smaller, with the same results.
"""

import dataclasses

import numpy as np

EMBEDDING = 'embedding'


@dataclasses.dataclass(frozen=True)
class InUse:
    """The tokens that occur in the training set.

    used_U     their ids, in order
    index_V    index into used_U of each token of the vocabulary; arbitrary for unused
               tokens
    """

    used_U: np.ndarray
    index_V: np.ndarray

    def restrict(self, params):
        """Returns the encoder's parameters with an embedding table of used_U only."""
        return {**params, EMBEDDING: params[EMBEDDING][self.used_U]}

    def restore(self, params, whole_VD, decay):
        """Returns the encoder's parameters with the whole embedding table.

        Unused rows are those of `whole_VD` times `decay`.
        """
        table_VD = (whole_VD * decay).at[self.used_U].set(params[EMBEDDING])
        return {**params, EMBEDDING: table_VD}

    def remap(self, batch):
        """Returns the batch with tokens replaced by their indices into used_U."""
        return {**batch, 'tokens': self.index_V[batch['tokens']]}


def in_use(batches, size):
    """Returns the InUse of all batches for a vocabulary of `size` tokens.

    >>> used = in_use([{'tokens': np.array([[7, 2], [2, 0]])}], 10)
    >>> used.used_U.tolist(), used.index_V[[7, 2]].tolist()
    ([0, 2, 7], [2, 1])
    """
    used_V = np.zeros(size, bool)
    for batch in batches:
        used_V[batch['tokens']] = True
    index_V = np.maximum(np.cumsum(used_V) - 1, 0).astype(np.int32)
    return InUse(np.flatnonzero(used_V), index_V)


def decay_factor(rate, factors, weight_decay):
    """Returns the factor by which weight decay alone scales a parameter over all steps.

    The product over steps t of 1 - rate * factors[t] * weight_decay (Loshchilov & Hutter
    2019, algorithm 2).
    """
    steps_T = 1 - float(rate) * np.asarray(factors, np.float64) * weight_decay
    with np.errstate(over='ignore'):  # such a member is reported as not finite
        return np.float32(np.prod(steps_T))
