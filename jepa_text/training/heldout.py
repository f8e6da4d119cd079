"""Losses on held-out rows under fixed masks, comparable between runs and masking rates.

A token objective states how it is scored (`scorings` in objectives/base.py): at the
positions and with the attention that it was trained for. The metrics
`heldout/NAME_loss` (nats per token) and `heldout/NAME_accuracy` (share of tokens) have
these names:

    mlm     masked tokens (all replaced by <mask>), predicted at their own position
    mntp    the same tokens, predicted one position before
    clm     the next token, with causal attention

An evaluation during training is an object with

    every                  steps between evaluations
    run(params, network)   {metric: value}; {} without the lm_head that it needs
"""

import dataclasses
import functools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.data import pipeline, stream
from jepa_text.models import memo
from jepa_text.objectives.base import View
from jepa_text.parallel import sharding
from jepa_text.report import frequencies
from jepa_text.settings import resolve, schema

_NEEDED = ('encoder', 'lm_head')  # modules whose parameters are scored

# Keys of sums over all processes: positions in the loss, and bytes of their labels.
COUNT, BYTES = 'count', 'bytes'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `evaluate`."""

    every_steps: int = schema.field(
        2000, 'steps between, also at the end of a phase; 0: never', minimum=0
    )
    rate: float = schema.field(
        0.15, 'share of held-out tokens that are masked', above=0, below=1
    )
    max_rows: int = schema.field(2048, 'maximum number of held-out rows', minimum=1)
    tasks: tuple[str, ...] = schema.field(
        (), "classification tasks for a linear probe: 'mine.jsonl'"
    )


def scorings(networks, rate=0.15):
    """Returns {name: section of a token objective} that scores a run.

    `networks` are those of its phases. The scoring of the last phase comes first; the run
    is judged by it. Empty if no phase predicts tokens.
    """
    by_name = {}
    for network in reversed(networks):
        if token := network.objective.token_objective:
            by_name |= token.scorings(rate) | by_name
    if not any('lm_head' in network.modules for network in networks):
        return {}
    # All runs are also scored by these, so that they can be compared. A head that
    # predicts one position before (mntp) is not scored at a token's own position.
    common = {'clm': {'name': 'clm'}}
    if 'mntp' not in by_name:
        common = {'mlm': {'name': 'mlm', 'rate': rate}, **common}
    return by_name | common | by_name


def make(recipe, section):
    """Returns the RunEvaluator of a run; None if `every_steps` is 0."""
    if not section.every_steps:
        return None
    networks = [phase.network for phase in recipe.phases]
    evaluators, last = {}, []
    for phase in reversed(recipe.phases):
        parts = phase.mixture.parts
        rows = [pipeline.Rows(part.rows.folder, 'heldout') for part in parts]
        # If a part has too few held-out rows, the others give as much less.
        limits = (int(len(x) / share) for x, share in zip(rows, phase.mixture.shares))
        counts = phase.mixture.counts(min(section.max_rows, *limits))
        for part, own, count in zip(parts, rows, counts):
            if part.rows.fingerprint in evaluators:
                continue
            evaluator = Evaluator(
                networks,
                own,
                recipe.tokenizer,
                recipe.mesh,
                batch_size=phase.batch_size,
                rate=section.rate,
                max_rows=max(1, count),
            )
            evaluators[part.rows.fingerprint] = part.name, evaluator
            if phase is recipe.phases[-1]:
                last.append(evaluator)
    return RunEvaluator(list(evaluators.values()), last, section.every_steps)


class RunEvaluator:
    """Losses on the held-out rows of everything that the phases of a run read.

    Metrics are `heldout/NAME/...` for each part, and `heldout/...` for the tokens of all
    parts of the last phase together, in proportion to the rows that it reads of each; the
    run is judged by the latter. A run that reads a single folder only has `heldout/...`.
    """

    def __init__(self, parts, last, every):
        self.every, self._parts, self._last = every, parts, last

    def run(self, params, network):
        """Returns {metric: value}; {} for a network without `lm_head`."""
        if 'lm_head' not in network.modules:
            return {}
        values, totals = {}, []
        for name, evaluator in self._parts:
            total = evaluator.totals(params, network)
            if name:
                own = metrics_of(total, evaluator.frequencies)
                values |= {
                    key.replace('heldout/', f'heldout/{name}/'): x
                    for key, x in own.items()
                }
            if evaluator in self._last:
                totals.append(total)
        counts_V = sum(evaluator.frequencies for evaluator in self._last)
        summed = {
            name: {key: sum(total[name][key] for total in totals) for key in sums}
            for name, sums in totals[0].items()
        }
        return values | metrics_of(summed, counts_V)


def metrics_of(totals, counts_V):
    """Returns {heldout/mlm_loss, ...} of sums by scoring, and the unigram entropy.

    `counts_V` are the frequencies of the scored tokens. Bits per byte = nats of all
    tokens predicted by CLM / (ln 2 * the bytes of text that they stand for). A scoring
    without a token is left out: of a held-out text of a few words, none may be masked.
    """
    values = {}
    for name, total in totals.items():
        for kind in ('loss', 'accuracy') if total[COUNT] else ():
            values[f'heldout/{name}_{kind}'] = total[kind] / total[COUNT]
        if name == 'clm' and total[BYTES]:
            nats = total['loss'] / total[BYTES]
            values['heldout/bits_per_byte'] = nats / math.log(2)
    return values | {frequencies.UNIGRAM: entropy(counts_V)}


class Evaluator:
    """Token losses on held-out rows for any parameters; compiled once per network.

    `networks` are those of the phases of a run, in order. The share `rate` of tokens is
    masked, always the same ones (seed 0). `max_rows` limits the rows (0: all).
    """

    def __init__(
        self, networks, rows, tokenizer, mesh, *, batch_size, rate=Config.rate, max_rows=0
    ):
        self.rows, self.mesh, self.batch_size = rows, mesh, batch_size
        self.special_ids = tokenizer.special_ids
        self.max_rows = max_rows or len(rows)
        arguments = dict(tokenizer=tokenizer, length=rows.row_length, steps=1)
        try:
            self.objectives = {
                name: resolve.build('objectives', section, **arguments)
                for name, section in scorings(networks, rate).items()
            }
        except ValueError as error:
            raise ValueError(f'evaluate.rate: {error}') from error
        bytes_V = token_bytes(tokenizer, rows)
        self._sums = {
            name: functools.partial(_sums, objective, bytes_V)
            for name, objective in self.objectives.items()
        }

    @functools.cached_property
    def frequencies(self):
        """The count of each token that is scored in the rows, int64 [V]."""
        return counts_of_rows(self.rows, self.special_ids, self.max_rows)

    def totals(self, params, network):
        """Returns {name: {'loss', 'accuracy', COUNT, BYTES: sum over tokens}}."""
        needed, totals = {name: params[name] for name in _NEEDED}, {}
        for name, objective in self.objectives.items():
            sums = on_mesh(self.mesh, self._sums[name], network, _NEEDED)
            read = self.rows, objective.corrupt, self.mesh, self.batch_size, self.max_rows
            # Read at the end, so that rows are masked while the device computes.
            parts = jax.device_get([sums(needed, batch) for batch in batches(*read)])
            totals[name] = {
                key: sum(float(part[key]) for part in parts) for key in parts[0]
            }
        return totals


def batches(rows, corrupt, mesh, batch_size, max_rows):
    """Yields the first rows as batches on the mesh, masked by `corrupt` with seed 0."""
    part = sharding.part_of_batch(mesh)
    for batch in one_pass(rows, corrupt, batch_size, max_rows, *part):
        yield sharding.put_batch(batch, mesh)


def one_pass(rows, corrupt, batch_size, max_rows, process_index=0, process_count=1):
    """Yields the first `max_rows` rows in order, in full batches of this process.

    The last batch is padded with rows of zeros: segment_ids 0, masks False. The generator
    of row i is keyed by (0, i), the same in every pass.
    """
    local = stream.local_batch_size(batch_size, process_index, process_count)
    count, first = min(max_rows, len(rows)), process_index * local
    for begin in range(first, count + first, batch_size):
        indices = range(begin, min(begin + local, count))
        # Row 0 gives the shapes if this process has no row in the last batch.
        examples = [stream.corrupt_at(corrupt, 0, i, 0, rows[i]) for i in indices]
        like = examples[0] if examples else stream.corrupt_at(corrupt, 0, 0, 0, rows[0])
        blank = {key: np.zeros_like(value) for key, value in like.items()}
        yield stream.stacked(examples + [blank] * (local - len(examples)))


def _sums(objective, bytes_V, network, params, batch):
    """Returns sums over positions instead of means."""
    # A count of 1 makes the loss, which is divided by it, a sum.
    view = View(network.apply, None, {}, batch, jnp.int32(0), {'tokens': 1})
    mask_BL = batch['loss_mask']
    bytes_BL = jnp.where(mask_BL, jnp.asarray(bytes_V)[batch['labels']], 0)
    metrics, kinds = objective.loss(params, view)[1], ('loss', 'accuracy')
    sums = {kind: metrics[f'{objective.label}_{kind}'] for kind in kinds}
    return sums | {COUNT: jnp.sum(mask_BL), BYTES: jnp.sum(bytes_BL)}


def masked_metric(values, kind):
    """Returns the 'loss' or 'accuracy' at masked tokens, wherever the model predicts
    them; None if it does not."""
    keys = (f'heldout/{name}_{kind}' for name in ('mlm', 'mntp'))
    return next((values[key] for key in keys if key in values), None)


def on_mesh(mesh, function, network, modules=('encoder',)):
    """Returns `function(network, params, *arrays)` for a network, called as
    `(params, *arrays)`.

    `modules` are the names of the modules that the function uses. Compiled once for all
    networks in which they are equal, as those of the phases of a run, except with
    different `rope_theta`, and those of the runs of a study.
    """
    return _on_mesh(mesh, function, network.only(modules))


@memo.memoize
def _on_mesh(mesh, function, modules):
    run = functools.partial(function, modules)
    run = jax.jit(run, out_shardings=sharding.replicated(mesh))
    return sharding.with_mesh(mesh, run)


def token_bytes(tokenizer, rows):
    """Returns the number of UTF-8 bytes that each token stands for, [V].

    Special tokens have none. For byte-level BPE the counts are exact, int32: the tokens
    of a text add up to its bytes. Other tokenizers lose some bytes (case, spaces, unknown
    words); for them the letters of a token are counted, float32, and scaled so that all
    tokens of the split of `rows` add up to its bytes.
    """
    content = json.loads(tokenizer.content)
    by_byte = 'ByteLevel' in json.dumps(content.get('decoder'))
    bytes_V = np.zeros(tokenizer.vocab_size, np.int32)
    added = tokenizer.backend.get_added_tokens_decoder()
    for token, i in tokenizer.backend.get_vocab(with_added_tokens=True).items():
        # A byte-level vocabulary writes each byte as one character.
        is_bytes = by_byte and i not in added
        bytes_V[i] = len(token) if is_bytes else len(_letters(token).encode())
    bytes_V[list(tokenizer.special_ids)] = 0
    if by_byte:
        return bytes_V
    split = rows.manifest['splits'][rows.split]
    total = (
        counts_of_rows(rows, tokenizer.special_ids, len(rows)) * bytes_V.astype(np.int64)
    ).sum()
    return (bytes_V * (split['bytes'] / max(total, 1))).astype(np.float32)


def _letters(token):
    """The text that a token of another vocabulary stands for, approximately."""
    if len(token) == 6 and token.startswith('<0x') and token.endswith('>'):
        return ' '
    return token.removeprefix('##').replace('▁', ' ')


def counts_of_rows(rows, special_ids, max_rows):
    """Returns the count of each token in the first `max_rows` rows, int64 [V].

    It is 0 for special tokens, which are never predicted, and for padding.
    """
    counts = np.zeros(rows.manifest['vocab_size'], np.int64)
    for index in range(min(max_rows, len(rows))):
        row = rows[index]
        counts += np.bincount(
            row['tokens'][row['segment_ids'] > 0], minlength=len(counts)
        )
    counts[list(special_ids)] = 0
    return counts


def entropy(counts_V):
    """Returns -sum p log p of the token frequencies, in nats per token.

    This is the loss of a model that only knows the frequencies.
    """
    share = counts_V[counts_V > 0] / counts_V.sum()
    return float(-(share * np.log(share)).sum())
