"""Losses on held-out rows under fixed masks, so that runs and rates compare.

A token objective says how it is scored (`scorings` of objectives/base.py): at the place
and with the reading it was trained for. `heldout/NAME_loss` and `_accuracy`, in nats per
token and hits per token, are named

    mlm     masked tokens (all of them mask tokens), predicted where they stand
    mntp    the same tokens, predicted one position before
    clm     the next token, read causally
    prefix  the next token behind a prefix that is read bidirectionally
"""

import dataclasses
import functools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.config import ranges, resolve, schema
from jepa_text.data import pipeline
from jepa_text.objectives.base import View
from jepa_text.parallel import sharding
from jepa_text.report import frequencies

# Beside the sums: positions in the loss, and bytes that they name, of all processes.
COUNT, BYTES = 'count', 'bytes'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `evaluate`."""

    every: int = schema.field(2000, 'steps, and where a phase ends; 0: never', minimum=0)
    rate: float = schema.field(
        0.15, 'of held-out tokens that are masked', above=0, maximum=1
    )
    max_rows: int = schema.field(2048, 'held-out rows that are scored', minimum=0)
    tasks: tuple[str, ...] = schema.field(
        (), "of labels, which a linear probe learns: 'mine.jsonl'"
    )

    def __post_init__(self):
        if self.every:
            ranges.number('evaluate.max_rows', self.max_rows, whole=True, minimum=1)


def scorings(networks, rate=0.15):
    """{name: section of a token objective} of a run whose phases have these networks.

    What the last phase says comes first, and it is what the run is judged by. Empty
    where no phase predicts tokens.
    """
    found = {}
    for network in reversed(networks):
        if token := network.objective.token_objective:
            found = found | {
                k: v for k, v in token.scorings(rate).items() if k not in found
            }
    if not any('lm_head' in network.modules for network in networks):
        return {}
    # Every head is asked these, so that runs compare; but not for a token where it
    # stands if the head names it one position before.
    compared = {'clm': {'name': 'clm'}}
    if 'mntp' not in found:
        compared = {'mlm': {'name': 'mlm', 'rate': rate}, **compared}
    return found | {k: section for k, section in compared.items() if k not in found}


def make(recipe, section):
    """The Evaluator of a run, every so many steps; None if never."""
    if not section.every:
        return None
    return Evaluator(
        [phase.network for phase in recipe.phases],
        pipeline.Rows(recipe.rows.folder, 'heldout'),
        recipe.tokenizer,
        recipe.mesh,
        batch_size=recipe.batch_size,
        rate=section.rate,
        max_rows=section.max_rows,
        every=section.every,
    )


class Evaluator:
    """Token losses of parameters on held-out rows; compiled once for each network.

    `networks` are those of the phases of a run, in order. `rate` of the tokens is masked,
    always the same ones (seed 0); `max_rows` limits the rows (all if 0).
    """

    def __init__(
        self,
        networks,
        rows,
        tokenizer,
        mesh,
        *,
        batch_size,
        rate=Config.rate,
        max_rows=0,
        every=0,
    ):
        self.every = every
        self.rows, self.mesh, self.batch_size = rows, mesh, batch_size
        self.special_ids = tokenizer.special_ids
        self.max_rows = max_rows or len(rows)
        given = dict(tokenizer=tokenizer, length=rows.row_length, steps=1)
        self.objectives = {
            name: resolve.build('objectives', section, **given)
            for name, section in scorings(networks, rate).items()
        }
        self._bytes_V = token_bytes(tokenizer, rows)
        self._compiled = []

    @functools.cached_property
    def unigram(self):
        """unigram_entropy of the rows that are scored."""
        return unigram_entropy(self.rows, self.special_ids, self.max_rows)

    def run(self, params, network):
        """{heldout/mlm_loss, mlm_accuracy, clm_loss, clm_accuracy, bits_per_byte,
        unigram_entropy, ...}.

        Bits per byte: the nats of all predicted tokens of CLM / (ln 2 * the bytes of
        text that these tokens stand for). {} for a network without `lm_head`.
        """
        if self.why_not(network):
            return {}
        needed = {name: params[name] for name in ('encoder', 'lm_head')}
        compiled, values = self._for(network), {}
        for name, objective in self.objectives.items():
            total = self._total(objective, compiled[name], needed)
            count, size = total.pop(COUNT), total.pop(BYTES)
            for kind in ('loss', 'accuracy'):
                value = total[f'{objective.label}_{kind}']
                values[f'heldout/{name}_{kind}'] = value / count
            if name == 'clm':
                nats = total['clm_loss']
                values['heldout/bits_per_byte'] = nats / size / math.log(2)
        return values | {frequencies.UNIGRAM: self.unigram}

    def why_not(self, network):
        """Why a network is not scored, in words; '' if it is."""
        if 'lm_head' in network.modules:
            return ''
        return (
            'its objective has no lm_head, which predicts tokens: not scored on held-out '
            'rows.'
        )

    def _total(self, objective, compiled, params):
        """The sums over all rows."""
        total = {}
        index, parts = sharding.part_of_batch(self.mesh)
        batches = pipeline.heldout_batches(
            self.rows,
            objective.corrupt,
            batch_size=self.batch_size,
            seed=0,
            max_rows=self.max_rows,
            process_index=index,
            process_count=parts,
        )
        for batch in batches:
            sums = compiled(params, sharding.put_batch(batch, self.mesh))
            for key, value in jax.device_get(sums).items():
                total[key] = total.get(key, 0.0) + float(value)
        return total

    def _for(self, network):
        """{name: compiled} of a network; phases with equal modules share it."""
        modules = [network.modules[name] for name in ('encoder', 'lm_head')]
        for known, compiled in self._compiled:
            if known == modules:
                return compiled
        whole = sharding.replicated(self.mesh)
        compiled = {}
        for name, objective in self.objectives.items():
            sums = _sums(network, objective, self._bytes_V)
            compiled[name] = sharding.within(
                self.mesh, jax.jit(sums, out_shardings=whole)
            )
        self._compiled.append((modules, compiled))
        return compiled


def _sums(network, objective, bytes_V):
    """Sums over positions rather than means: a batch of an objective counted as 1."""

    def sums(params, batch):
        view = View(network.apply, None, {}, batch, jnp.int32(0), {'tokens': 1})
        mask_BL = batch['loss_mask']
        bytes_BL = jnp.where(mask_BL, jnp.asarray(bytes_V)[batch['labels']], 0)
        counts = {COUNT: jnp.sum(mask_BL), BYTES: jnp.sum(bytes_BL)}
        return {**objective.loss(params, view)[1], **counts}

    return sums


def masked(values, kind):
    """'loss' or 'accuracy' at masked tokens, where the model names them, or None."""
    keys = (f'heldout/{name}_{kind}' for name in ('mlm', 'mntp'))
    return next((values[key] for key in keys if key in values), None)


def token_bytes(tokenizer, rows=None):
    """Bytes of UTF-8 that each token stands for, [V]; specials stand for none.

    Exact, int32, where the tokens of any text add up to it: byte-level BPE. Other
    tokenizers lose some (case, spaces, unknown words): of theirs the tokens' letters
    count, float32, scaled so that all tokens of the split of `rows` have its bytes.
    """
    content = json.loads(tokenizer.content)
    by_byte = 'ByteLevel' in json.dumps(content.get('decoder'))
    bytes_V = np.zeros(tokenizer.vocab_size, np.int32)
    added = tokenizer.backend.get_added_tokens_decoder()
    for token, i in tokenizer.backend.get_vocab(with_added_tokens=True).items():
        # In a byte-level vocabulary, a byte is written as one character.
        whole = by_byte and i not in added
        bytes_V[i] = len(token) if whole else len(_letters(token).encode())
    bytes_V[list(tokenizer.special_ids)] = 0
    if by_byte or rows is None:
        return bytes_V
    split = rows.manifest['splits'][rows.split]
    seen = (token_counts(rows, len(rows)) * bytes_V.astype(np.int64)).sum()
    return (bytes_V * (split['bytes'] / max(seen, 1))).astype(np.float32)


def _letters(token):
    """What a token of another vocabulary adds to a text, about."""
    if len(token) == 6 and token.startswith('<0x') and token.endswith('>'):
        return ' '
    return token.removeprefix('##').replace('▁', ' ')


def token_counts(rows, max_rows):
    """How often each token is in the first rows, int64 [V]."""
    counts = np.zeros(rows.manifest['vocab_size'], np.int64)
    for index in range(min(max_rows, len(rows))):
        row = rows[index]
        counts += np.bincount(
            row['tokens'][row['segment_ids'] > 0], minlength=len(counts)
        )
    return counts


def unigram_entropy(rows, special_ids, max_rows):
    """-sum p log p of the tokens of the first rows under their own frequencies, in nats.

    What a model that knows the frequencies and reads nothing else would score, per token
    that is not special.
    """
    counts = token_counts(rows, max_rows)
    counts[list(special_ids)] = 0
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())
