"""Losses on held-out rows under fixed masks, so that runs and rates compare."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text import resolve, sharding
from jepa_text.data import pipeline
from jepa_text.evals import frequencies
from jepa_text.state import View

# Beside the sums: positions in the loss, and tokens, of all processes.
COUNT, TOKENS = 'count', 'tokens'


class Evaluator:
    """Masked and causal loss of parameters on held-out rows, compiled once.

    `rate` of the tokens is masked, always the same ones (seed 0); `most_rows` limits
    the rows (all if 0). Needs a network with `encoder` and `lm_head`.
    """

    def __init__(
        self, network, rows, tokenizer, mesh, *, batch_size, rate=0.15, most_rows=0
    ):
        self.rows, self.mesh, self.batch_size = rows, mesh, batch_size
        self.special_ids = tokenizer.special_ids
        self.most_rows = most_rows or len(rows)
        given = dict(tokenizer=tokenizer, length=rows.row_length, steps=1)
        tied = network.modules['lm_head'].tied
        self.objectives = {
            'mlm': resolve.build(
                'objectives', {'name': 'mlm', 'rate': rate, 'tied': tied}, **given
            ),
            'clm': resolve.build('objectives', {'name': 'clm', 'tied': tied}, **given),
        }
        whole = sharding.replicated(mesh)
        self._sums = {
            name: sharding.within(
                mesh, jax.jit(_sums(network, objective), out_shardings=whole)
            )
            for name, objective in self.objectives.items()
        }

    def run(self, params):
        """{heldout/mlm_loss, mlm_accuracy, clm_loss, clm_accuracy, bits_per_byte,
        unigram_entropy}."""
        needed = {name: params[name] for name in ('encoder', 'lm_head')}
        values = {}
        for name, objective in self.objectives.items():
            total = {}
            index, parts = sharding.part_of_batch(self.mesh)
            batches = pipeline.heldout_batches(
                self.rows,
                objective.corrupt,
                batch_size=self.batch_size,
                seed=0,
                most_rows=self.most_rows,
                process_index=index,
                process_count=parts,
            )
            for batch in batches:
                sums = self._sums[name](needed, sharding.put_batch(batch, self.mesh))
                for key, value in jax.device_get(sums).items():
                    total[key] = total.get(key, 0.0) + float(value)
            count, tokens = total.pop(COUNT), total.pop(TOKENS)
            values |= {f'heldout/{key}': value / count for key, value in total.items()}
        # CLM came last: of its tokens, the first of each piece is not predicted.
        split = self.rows.manifest['splits'][self.rows.split]
        predicted = count / tokens * split['tokens']
        nats = values['heldout/clm_loss'] * predicted
        values['heldout/bits_per_byte'] = nats / split['bytes'] / math.log(2)
        return values | {frequencies.UNIGRAM: self.unigram}

    @functools.cached_property
    def unigram(self):
        """unigram_entropy of the rows that are scored."""
        return unigram_entropy(self.rows, self.special_ids, self.most_rows)


def _sums(network, objective):
    """Sums over positions rather than means: a batch of an objective counted as 1."""

    def sums(params, batch):
        view = View(network.apply, None, {}, batch, jnp.int32(0), {'tokens': 1})
        counts = {
            COUNT: jnp.sum(batch['loss_mask']),
            TOKENS: jnp.sum(batch['segment_ids'] > 0),
        }
        return {**objective.terms(params, view)[1], **counts}

    return sums


def unigram_entropy(rows, special_ids, most_rows):
    """-sum p log p of the tokens of the first rows under their own frequencies, in nats.

    What a model that knows the frequencies and reads nothing else would score.
    """
    counts = np.zeros(rows.manifest['vocab_size'], np.int64)
    for index in range(min(most_rows, len(rows))):
        row = rows[index]
        counts += np.bincount(
            row['tokens'][row['segment_ids'] > 0], minlength=len(counts)
        )
    counts[list(special_ids)] = 0
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())
