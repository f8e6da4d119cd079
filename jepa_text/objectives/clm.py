"""Causal language modeling: each position predicts the next token of its document."""

import dataclasses

import numpy as np

from jepa_text.config import ranges
from jepa_text.objectives.base import TokenObjective, check_pair


def make(tokenizer, length, steps, prefix=None, tied=False, logits_mib=512, z_weight=0.0):
    """Returns a CLM; with `prefix=(low, high)`, a prefix-LM.

    Of a prefix-LM, a share of each document, drawn uniformly between low and high, is
    read bidirectionally and predicts nothing. `tied` scores tokens with the input
    embedding; logits take at most `logits_mib` MiB at a time; `z_weight` is the weight of
    the z-loss. Raises ValueError for a prefix out of range.
    """
    if prefix is not None:
        check_pair('clm: prefix', prefix, minimum=0, maximum=1)
        ranges.number(f'clm: prefix={prefix}, of which the first', prefix[0], below=1)
    return CLM(
        prefix=None if prefix is None else tuple(prefix),
        capacity=length,
        attends='causal' if prefix is None else 'rows',
        shift=1,
        tied=tied,
        logits_mib=logits_mib,
        z_weight=z_weight,
        label='clm',
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CLM(TokenObjective):
    """-log p(token i + 1 | tokens 1..i), where both are in the same document."""

    prefix: tuple | None

    def scorings(self, rate):
        causal = {'clm': {'name': 'clm'}}
        if self.prefix is None:
            return causal
        # Without a prefix, all tokens are predicted: a harder task that was not trained.
        return {'prefix': {'name': 'clm', 'prefix': self.prefix}, **causal}

    def corrupt(self, example, rng, step=0):
        segments_L, positions_L = example['segment_ids'], example['positions']
        same_L = (segments_L[1:] == segments_L[:-1]) & (segments_L[1:] > 0)
        row = example | {
            'inputs': example['tokens'],
            'labels': np.append(example['tokens'][1:], 0).astype(np.int32),
            'loss_mask': np.append(same_L, False),
        }
        if self.prefix is None:
            return row
        prefix_L = _prefix_lengths(
            segments_L, rng.uniform(*self.prefix, len(segments_L) + 1)
        )
        # The last position of the prefix predicts the first token after it.
        row['loss_mask'] &= positions_L >= prefix_L - 1
        row['order'] = np.maximum(positions_L - prefix_L + 1, 0).astype(np.int32)
        return row


def _prefix_lengths(segments_L, share_L):
    """Returns the prefix length of the document at each position."""
    sizes = np.bincount(segments_L)
    return np.floor(sizes * share_L[: len(sizes)]).astype(np.int32)[segments_L]
