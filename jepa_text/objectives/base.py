"""The contract of an objective (`Objective`), and the base of those that predict tokens.

An objective is a frozen dataclass. On the host it corrupts each row (`corrupt`), for
example by masking; on the device it computes a loss from what the network returns
(`loss`) and updates the state that is carried to the next step (`update_memory`).
"""

import dataclasses
import zlib
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from jepa_text import losses
from jepa_text.data.mixture import PART
from jepa_text.models.heads import lm_head, lm_head_loss
from jepa_text.models.network import key_from
from jepa_text.optim import schedules
from jepa_text.settings import ranges

Row = dict[str, np.ndarray]
Arrays = dict[str, jax.Array]


@flax.struct.dataclass
class View:
    """All inputs of an objective besides the parameters.

    `apply(module, params, *inputs)` runs one module of the network, given a dict of
    parameters by module name. `target` is the EMA copy of the encoder's parameters, or
    None. `batch` may be a part of the batch to which `counts` refers. `step` counts from
    the start of the phase, `run_step` from that of the run, for `step_key`.
    """

    apply: Callable = flax.struct.field(pytree_node=False)
    target: Any
    memory: dict
    batch: Arrays
    step: jax.Array
    counts: Arrays
    run_step: jax.Array | None = None


def step_key(view, use):
    """Returns the random key of a step of the run for one use, named by a string.

    It is derived from the seed of the run. Each use in each step has its own key, which
    the microbatches of the step share, and none initializes parameters
    (models/network.py).
    """
    key = key_from(view.memory['key'])
    key = jax.random.fold_in(key, zlib.crc32(f'step/{use}'.encode()))
    return jax.random.fold_in(key, view.run_step)


def check_pair(what, pair, **bounds):
    """Raises ValueError unless a list is (low, high), two numbers within the bounds."""
    for value in pair:
        ranges.number(f'{what}={pair}, of which', value, **bounds)
    if len(pair) != 2 or pair[0] > pair[1]:
        raise ValueError(f'{what}={pair} is not (low, high), two ascending numbers.')


def share_schedule(section, steps, what):
    """Returns the schedule of a section, whose values are shares.

    Raises ValueError if it leaves [0, 1] at any step; of more than 10,000 steps, only as
    many are evaluated, evenly spaced.
    """
    schedule = schedules.make(section, steps, what)
    step_N = np.unique(np.linspace(0, steps, 10_001).astype(int))
    value_N = np.asarray(jax.vmap(schedule)(step_N))
    for extreme in (np.argmin(value_N), np.argmax(value_N)):
        value = float(value_N[extreme])
        ranges.number(f'{what} at step {step_N[extreme]}', value, minimum=0, maximum=1)
    return schedule


class Objective:
    """The interface of an objective, with defaults for everything optional.

    A batch has B rows of L positions. Whatever is summed over parts of a batch (gradient
    accumulation) and over devices is a share: a sum over this part's positions divided by
    `view.counts`, the count over the whole batch, so that all positions have the same
    weight.

    Required
      corrupt(example, rng, step)  returns a row (tokens_L, segment_ids_L, positions_L)
                        with the network's inputs and labels added: numpy, fixed shapes.
                        `rng` is specific to the row, `step` counts from the start of the
                        phase
      counts(batch)     {name: number of positions that count}, integer scalars. `tokens`,
                        the number of predicted tokens, is required; for a mixture of
                        rows, `of_parts` has the number for each part
      loss(params, view)  (loss, metrics, seen): the loss, a float32 scalar, and
                        {name: float32 scalar} to log, both shares; and a pytree of
                        arrays for `update_memory`, which are summed over parts. A metric
                        without a '/' in its name gets the prefix 'train/'
    State
      modules(encoder)  {name: Linen module with `example()`, its inputs} that it needs
                        besides the encoder; the one that predicts tokens is 'lm_head'
      memory()          {name: array} carried from step to step, without gradients
      update_memory(memory, seen, diagnostics)  returns the memory after a step, given
                        `seen` of the whole batch and the `diagnostics` of this step
                        (NaN if not measured)
      forgotten(before)  names in its memory that have another meaning in that of
                        `before`, the objective of the phase before its own
      has_target        whether there is a target, initialized as a copy of the encoder
      per_microbatch    whether a step depends on how `accumulate` splits its batch, as
                        if the loss compares the vectors of a microbatch with each other
      update_target(target, encoder, step)  returns the target's parameters after a step,
                        from both (EMA)
    Reporting
      diagnostic_names  names of what `diagnostics` measures
      diagnostics_every(every)  returns the number of steps between measurements if
                        `every` are requested (0: none); 0 for none
      diagnostics(params, view)  {name: float32 scalar} for all `diagnostic_names`
      derived(metrics, seen, diagnostics)  {name: value} of metrics that are not shares,
                        computed from the metrics and `seen` of the whole batch and the
                        latest diagnostics (NaN if they failed; {} without diagnostics)
      notes(values)     {kind: sentence}: signs of collapse, and other observations, in
                        the metrics of a step
    Relation to other objectives
      token_objective   the TokenObjective that it is or contains, by which a model is
                        loaded (`attends`, `shift`) and scored on held-out rows
                        (`scorings`); None if it predicts no tokens
      judged_by         the name of the held-out loss that a run is judged by: the first
                        of the token objective's `scorings`; None without one
      baseline(section)  returns the section of the objective without what this one adds,
                        given the section it was made from; None without a baseline
    """

    has_target: bool = False
    per_microbatch: bool = False
    diagnostic_names: tuple[str, ...] = ()
    token_objective: 'TokenObjective | None' = None

    def corrupt(self, example: Row, rng: np.random.Generator, step: int = 0) -> Row:
        raise NotImplementedError('corrupt')

    def counts(self, batch: Arrays) -> Arrays:
        raise NotImplementedError('counts')

    def loss(self, params: dict, view: View) -> tuple[jax.Array, Arrays, Any]:
        raise NotImplementedError('loss')

    def modules(self, encoder: nn.Module) -> dict[str, nn.Module]:
        return {}

    def memory(self) -> Arrays:
        return {}

    def update_memory(self, memory: Arrays, seen: Any, diagnostics: Arrays) -> Arrays:
        return memory

    def forgotten(self, before: 'Objective') -> tuple[str, ...]:
        return ()

    def update_target(self, target: dict, encoder: dict, step: jax.Array) -> dict:
        return target

    def diagnostics_every(self, every: int) -> int:
        return every if self.diagnostic_names else 0

    def diagnostics(self, params: dict, view: View) -> Arrays:
        return {}

    def derived(self, metrics: Arrays, seen: Any, diagnostics: Arrays) -> Arrays:
        return {}

    def notes(self, values: dict[str, float]) -> dict[str, str]:
        return {}

    @property
    def judged_by(self) -> str | None:
        token = self.token_objective
        return None if token is None else next(iter(token.scorings(rate=0.15)), None)

    def baseline(self, section: dict) -> dict | None:
        return None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TokenObjective(Objective):
    """Base of objectives that predict tokens where `loss_mask` is true.

    At most `capacity` tokens per row are predicted. `corrupt` of a subclass adds
    inputs_L, labels_L and loss_mask_L. `attends` is 'bidirectional', 'causal' or 'rows';
    with 'rows', `corrupt` also adds order_L, which defines the attention mask of each row
    (attention/attend.py). The label of a token may be predicted `shift` positions before
    it. If `can_drop`, `corrupt` also adds `dropped`, the number of masked positions
    beyond the capacity. `fills` says whether mask tokens are predicted, so that a model
    can fill them.
    """

    capacity: int
    attends: str = 'bidirectional'
    shift: int = 0
    tied: bool = False
    logits_mib: int = 512
    z_weight: float = 0.0
    label: str = 'mlm'
    can_drop = False
    fills = False

    def __post_init__(self):
        for name in ('logits_mib', 'z_weight'):
            ranges.number(f'{self.label}: {name}', getattr(self, name), minimum=0)

    @property
    def token_objective(self):
        return self

    def scorings(self, rate: float) -> dict[str, dict]:
        """Returns {name: section of a token objective} by which held-out rows are scored.

        `rate` is the share of masked tokens. The first one is the metric that the
        objective is judged by (training/heldout.py).
        """
        raise NotImplementedError('scorings')

    def modules(self, encoder):
        return {'lm_head': lm_head(encoder, self.tied)}

    def counts(self, batch):
        # Of a row with more than `capacity`, the rest is not scored.
        of_row_B = jnp.minimum(jnp.sum(batch['loss_mask'], axis=1), self.capacity)
        counts = {'tokens': jnp.sum(of_row_B)}
        if PART in batch:
            counts['of_parts'] = jnp.sum(jnp.where(batch[PART].T, of_row_B, 0), axis=1)
        return counts

    def encode(self, params, view, **options):
        """Returns the encoder's hidden states of the corrupted rows."""
        batch = view.batch
        return view.apply(
            'encoder',
            params,
            batch['inputs'],
            batch['segment_ids'],
            batch['positions'],
            batch['order'] if self.attends == 'rows' else None,
            causal=self.attends == 'causal',
            **options,
        )

    def loss(self, params, view):
        hidden_BLD = self.encode(params, view)
        return *self.score(params, view, *self.select(hidden_BLD, view)), {}

    def select(self, hidden_BLD, view):
        """Returns hidden_BMD, index_BM and where_BM of the positions in the loss."""
        mask_BL = view.batch['loss_mask']
        if self.capacity >= mask_BL.shape[1]:
            index_BL = jnp.broadcast_to(jnp.arange(mask_BL.shape[1]), mask_BL.shape)
            return hidden_BLD, index_BL, mask_BL
        index_BM, where_BM = losses.select(mask_BL, self.capacity)
        return losses.take(hidden_BLD, index_BM), index_BM, where_BM

    def score(self, params, view, hidden_BMD, index_BM, where_BM):
        """Returns the token loss of hidden states at selected positions, and metrics."""
        labels_BM = jnp.take_along_axis(view.batch['labels'], index_BM, axis=1)
        share = 1 / jnp.maximum(view.counts['tokens'], 1)
        total, token_losses = lm_head_loss(
            view.apply,
            params,
            hidden_BMD,
            labels_BM,
            weight_BM=where_BM * share,
            z_weight=self.z_weight,
            logits_mib=self.logits_mib,
        )
        loss, correct = (
            losses.masked_sum(token_losses[name], where_BM) * share
            for name in ('loss', 'correct')
        )
        metrics = {f'{self.label}_loss': loss, f'{self.label}_accuracy': correct}
        if PART in view.batch:
            metrics |= _by_part(view, token_losses['loss'], where_BM)
        if 'dropped' in view.batch:
            metrics['dropped_masks'] = jnp.sum(view.batch['dropped'], dtype=jnp.float32)
        return total, metrics


def _by_part(view, loss_BM, where_BM):
    """Returns {data_part/0/loss, data_part/0/tokens: shares} for each part of the rows.

    The loss of a part without tokens in the batch is NaN.
    """
    part_BP = view.batch[PART]
    metrics = {}
    for number in range(part_BP.shape[1]):
        own_BM = where_BM & part_BP[:, number, None]
        count = view.counts['of_parts'][number]
        total = losses.masked_sum(loss_BM, own_BM)
        metrics |= {
            f'{PART}/{number}/loss': jnp.where(count > 0, total / count, jnp.nan),
            f'{PART}/{number}/tokens': jnp.sum(own_BM, dtype=jnp.float32),
        }
    return metrics
