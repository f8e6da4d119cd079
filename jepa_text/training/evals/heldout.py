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
import math

import jax
import jax.numpy as jnp

from jepa_text.config import ranges, resolve, schema
from jepa_text.data import pipeline, stream
from jepa_text.objectives.base import View
from jepa_text.parallel import sharding
from jepa_text.report import frequencies
from jepa_text.training.evals import token_counts

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
    """The OfRun of a run, every so many steps; None if never."""
    if not section.every:
        return None
    networks, found = [phase.network for phase in recipe.phases], {}
    for phase in reversed(recipe.phases):
        counts = phase.mixture.counts(section.max_rows)
        for part, count in zip(phase.mixture.parts, counts):
            if part.rows.fingerprint in found:
                continue
            evaluator = Evaluator(
                networks,
                pipeline.Rows(part.rows.folder, 'heldout'),
                recipe.tokenizer,
                recipe.mesh,
                batch_size=phase.batch_size,
                rate=section.rate,
                max_rows=max(1, count),
            )
            found[part.rows.fingerprint] = part.name, evaluator, phase
    parts = [(name, one) for name, one, _ in found.values()]
    last = [one for _, one, phase in found.values() if phase is recipe.phases[-1]]
    return OfRun(parts, last, section.every)


class OfRun:
    """Losses on the held-out rows of all that the phases of a run read, at any step.

    `heldout/NAME/...` of each part, and `heldout/...` of the tokens of all parts of the
    last phase together, as many rows of each as it reads of it: what the run is judged
    by. Of a run that reads one folder, the latter alone.
    """

    def __init__(self, parts, last, every):
        self.every, self._parts, self._last = every, parts, last

    def run(self, params, network):
        """{metric: value}; {} for a network without `lm_head`."""
        if self.why_not(network):
            return {}
        values, totals = {}, []
        for name, evaluator in self._parts:
            total = evaluator.totals(params, network)
            if name:
                own = values_of(total, evaluator.frequencies)
                values |= {
                    key.replace('heldout/', f'heldout/{name}/'): x
                    for key, x in own.items()
                }
            if evaluator in self._last:
                totals.append(total)
        counts_V = sum(one.frequencies for one in self._last)
        return values | values_of(_summed(totals), counts_V)

    def why_not(self, network):
        """Why a network is not scored, in words; '' if it is."""
        return self._last[0].why_not(network)


def _summed(totals):
    """{name: sums} of several evaluators."""
    return {
        name: {key: sum(total[name][key] for total in totals) for key in sums}
        for name, sums in totals[0].items()
    }


def values_of(totals, counts_V):
    """{heldout/mlm_loss, ...} of the sums of a scoring each, and the frequencies of the
    tokens that are scored."""
    values = {}
    for name, total in totals.items():
        for kind in ('loss', 'accuracy'):
            values[f'heldout/{name}_{kind}'] = total[kind] / total[COUNT]
        if name == 'clm':
            nats = total['loss'] / total[BYTES]
            values['heldout/bits_per_byte'] = nats / math.log(2)
    return values | {frequencies.UNIGRAM: token_counts.entropy(counts_V)}


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
    ):
        self.rows, self.mesh, self.batch_size = rows, mesh, batch_size
        self.special_ids = tokenizer.special_ids
        self.max_rows = max_rows or len(rows)
        given = dict(tokenizer=tokenizer, length=rows.row_length, steps=1)
        self.objectives = {
            name: resolve.build('objectives', section, **given)
            for name, section in scorings(networks, rate).items()
        }
        self._bytes_V = token_counts.token_bytes(tokenizer, rows)
        self._compiled = []

    @functools.cached_property
    def frequencies(self):
        """How often each token that is scored is in the rows, int64 [V]."""
        return token_counts.scored(self.rows, self.special_ids, self.max_rows)

    def run(self, params, network):
        """{heldout/mlm_loss, mlm_accuracy, clm_loss, clm_accuracy, bits_per_byte,
        unigram_entropy, ...}.

        Bits per byte: the nats of all predicted tokens of CLM / (ln 2 * the bytes of
        text that these tokens stand for). {} for a network without `lm_head`.
        """
        if self.why_not(network):
            return {}
        return values_of(self.totals(params, network), self.frequencies)

    def totals(self, params, network):
        """{name: {'loss', 'accuracy', COUNT, BYTES: sum over the predicted tokens}}."""
        needed = {name: params[name] for name in ('encoder', 'lm_head')}
        compiled, found = self._for(network), {}
        for name, objective in self.objectives.items():
            total = self._total(objective, compiled[name], needed)
            found[name] = {key: total[key] for key in (COUNT, BYTES)} | {
                kind: total[f'{objective.label}_{kind}'] for kind in ('loss', 'accuracy')
            }
        return found

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
        batches = stream.heldout_batches(
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
