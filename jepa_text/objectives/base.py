"""What every objective is (`Objective`), and what all that predict tokens share.

An objective is a frozen dataclass. On the host it masks something in a row (`corrupt`);
on the device it gives a loss from what the network makes of it (`loss`), and says what
is to be remembered until the next step (`remember`).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from jepa_text import losses
from jepa_text.config import ranges
from jepa_text.data.mixture import PART
from jepa_text.models.head_loss import lm_head_loss
from jepa_text.models.heads import lm_head

Row = dict[str, np.ndarray]
Arrays = dict[str, jax.Array]


@flax.struct.dataclass
class View:
    """All that an objective may look at beside the parameters.

    `apply(module, params, *inputs)` runs one module of the network on a dict of
    parameters by module name. `target` is the EMA copy of the encoder's parameters, or
    None. `batch` may be a part of the one that `counts` counted; `step` counts from the
    start of the phase.
    """

    apply: Callable = flax.struct.field(pytree_node=False)
    target: Any
    memory: dict
    batch: Arrays
    step: jax.Array
    counts: Arrays


def step_key(view):
    """What is drawn at random in a step: a key of the run's seed and the step."""
    return jax.random.fold_in(jax.random.wrap_key_data(view.memory['key']), view.step)


class Objective:
    """The whole contract, with the answers of an objective that has nothing special.

    B rows of L positions make a batch. Whatever adds up over parts of a batch (gradient
    accumulation) and devices is a share: a sum over this part's positions, divided by
    `view.counts`, the count over the whole batch; so every position weighs the same.

    Required
      corrupt(example, rng, step)  a row of tokens_L, segment_ids_L, positions_L with what
                        the network reads and predicts added: numpy, fixed shapes. `rng`
                        belongs to the row, `step` counts from the start of the phase
      counts(batch)     {name: how many positions count}, integer scalars; `tokens`, how
                        many tokens are predicted, is among them; and of a mixture of
                        rows `of_parts`, those of each part
      loss(params, view)  (loss, metrics, seen): the loss, a float32 scalar, and
                        {name: float32 scalar} to write, both shares; and a tree of
                        arrays for `remember`, which add up over parts. A metric without
                        a '/' in its name gets 'train/' before it
    What it carries
      modules(encoder)  {name: Linen module with `example()`, its inputs} that it needs
                        beside the encoder; the one that predicts tokens is 'lm_head'
      memory()          {name: array} carried from step to step, outside the gradient
      remember(memory, seen, diagnostics)  the memory after a step; of the whole batch
                        `seen`, and what `diagnostics` measured in this step, else NaN
      has_target        is there a target, which starts as a copy of the encoder?
      follow(target, encoder, step)  the target's parameters after a step, from both
                        (EMA)
    What it tells
      diagnostic_names  names of what `diagnostics` measures
      diagnostics_every(every)  steps from one measurement to the next, where `every`
                        are asked for (0: none); 0 for none
      diagnostics(params, view)  {name: float32 scalar} for each of `diagnostic_names`
      derived(metrics, diagnostics)  {name: value} of metrics that are no shares, from
                        those of the whole batch and the last diagnostics (NaN if they
                        failed; {} for none)
      collapse(values), notes(values)  {kind: sentence}: what has collapsed, and what is
                        worth a look, in the metrics of a step
    What it is beside others
      token_objective   the TokenObjective that it is or holds, by which it is loaded
                        (`attends`, `shift`) and scored on held-out rows (`scorings`);
                        None for one that predicts no tokens
      baseline(section)  the section of an objective without what this one adds, of the
                        section it was made from; None if there is nothing to leave out
    """

    has_target: bool = False
    diagnostic_names: tuple[str, ...] = ()
    token_objective: 'TokenObjective | None' = None

    def corrupt(self, example: Row, rng: np.random.Generator, step: int = 0) -> Row:
        raise NotImplementedError

    def counts(self, batch: Arrays) -> Arrays:
        raise NotImplementedError

    def loss(self, params: dict, view: View) -> tuple[jax.Array, Arrays, Any]:
        raise NotImplementedError

    def modules(self, encoder: nn.Module) -> dict[str, nn.Module]:
        return {}

    def memory(self) -> Arrays:
        return {}

    def remember(self, memory: Arrays, seen: Any, diagnostics: Arrays) -> Arrays:
        return memory

    def follow(self, target: dict, encoder: dict, step: jax.Array) -> dict:
        return target

    def diagnostics_every(self, every: int) -> int:
        return every if self.diagnostic_names else 0

    def diagnostics(self, params: dict, view: View) -> Arrays:
        return {}

    def derived(self, metrics: Arrays, diagnostics: Arrays) -> Arrays:
        return {}

    def collapse(self, values: dict[str, float]) -> dict[str, str]:
        return {}

    def notes(self, values: dict[str, float]) -> dict[str, str]:
        return {}

    def baseline(self, section: dict) -> dict | None:
        return None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TokenObjective(Objective):
    """Tokens are predicted where `loss_mask` is true, at most `capacity` of a row.

    `corrupt` of a subclass adds inputs_L, labels_L, loss_mask_L, and order_L where
    `attends` is 'rows' rather than 'both' ways or to the 'left': who sees whom is then
    told row by row (attention/attend.py). A label may stand `shift` positions after the
    one that predicts it. If it `can_drop`, it also says how many masked positions did not
    fit, `dropped`.
    """

    capacity: int
    attends: str = 'bidirectional'
    shift: int = 0
    tied: bool = False
    logits_mib: int = 512
    z_weight: float = 0.0
    label: str = 'mlm'
    can_drop = False

    def __post_init__(self):
        for name in ('logits_mib', 'z_weight'):
            ranges.number(f'{self.label}: {name}', getattr(self, name), minimum=0)

    @property
    def token_objective(self):
        return self

    def scorings(self, rate: float) -> dict[str, dict]:
        """{name: section of a token objective} by which it is scored on held-out rows
        (training/evals/heldout.py), with `rate` of the tokens masked; the first is what
        it is judged by."""
        raise NotImplementedError

    def modules(self, encoder):
        return {'lm_head': lm_head(encoder, self.tied)}

    def counts(self, batch):
        counts = {'tokens': jnp.sum(batch['loss_mask'])}
        if PART in batch:
            of_row_B = jnp.sum(batch['loss_mask'], axis=1)
            counts['of_parts'] = jnp.sum(jnp.where(batch[PART].T, of_row_B, 0), axis=1)
        return counts

    def derived(self, metrics, diagnostics):
        if self.label != 'clm':
            return {}
        return {'train/perplexity': jnp.exp(metrics['clm_loss'])}

    def read(self, params, view, **options):
        """The encoder's hidden states of the corrupted rows."""
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
        hidden_BLD = self.read(params, view)
        return *self.score(params, view, *self.select(hidden_BLD, view)), {}

    def select(self, hidden_BLD, view):
        """hidden_BMD, index_BM and where_BM of the positions in the loss."""
        mask_BL = view.batch['loss_mask']
        if self.capacity >= mask_BL.shape[1]:
            index_BL = jnp.broadcast_to(jnp.arange(mask_BL.shape[1]), mask_BL.shape)
            return hidden_BLD, index_BL, mask_BL
        index_BM, where_BM = losses.select(mask_BL, self.capacity)
        return losses.take(hidden_BLD, index_BM), index_BM, where_BM

    def score(self, params, view, hidden_BMD, index_BM, where_BM):
        """The token loss from hidden states at selected positions, and its metrics."""
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
    """{data_part/0/loss, data_part/0/tokens: shares} of each part of the rows; one that
    has no token in the batch has a loss of NaN."""
    part_BP = view.batch[PART]
    found = {}
    for number in range(part_BP.shape[1]):
        own_BM = where_BM & part_BP[:, number, None]
        count = view.counts['of_parts'][number]
        total = losses.masked_sum(loss_BM, own_BM)
        found |= {
            f'{PART}/{number}/loss': jnp.where(count > 0, total / count, jnp.nan),
            f'{PART}/{number}/tokens': jnp.sum(own_BM, dtype=jnp.float32),
        }
    return found
