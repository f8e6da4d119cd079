"""What every objective is, and what all that predict tokens share.

An objective is a frozen dataclass. On the host it hides something in a row (`corrupt`);
on the device it scores what the network makes of it (`terms`), says how its terms are
weighed (`weights`), and what is to be remembered until the next step (`remember`).

All scalars of `terms` are this part's share of a mean over the whole batch, so that
parts (gradient accumulation) and devices add up, and every position weighs the same.
"""

import dataclasses
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

from jepa_text import losses
from jepa_text.cost import flops
from jepa_text.models.heads import word_head, word_scores


@flax.struct.dataclass
class View:
    """All that an objective may look at beside the parameters.

    `apply(module, params, *inputs)` runs one module of the network on a dict of
    parameters by module name. `batch` may be a part of the one that `counts` counted;
    `step` counts from the start of the phase.
    """

    apply: Any = flax.struct.field(pytree_node=False)
    target: Any
    memory: dict
    batch: dict
    step: jax.Array
    counts: dict


def step_key(view):
    """What is drawn at random in a step: a key of the run's seed and the step."""
    return jax.random.fold_in(jax.random.wrap_key_data(view.memory['key']), view.step)


class Objective:
    """The contract, with the answers of an objective that has nothing special.

    term_names               names of the losses, which are also the keys of `counts`
    has_target, momentum(step)   an EMA copy of the encoder, and how slowly it moves
    look_names               what `look` measures, every so often
    modules(encoder)         {name: module} that it needs beside the encoder
    corrupt(example, rng, step)  the row with what the network reads and predicts added;
                             numpy, fixed shapes; `rng` belongs to the row, `step`
                             counts from the start of the phase
    counts(batch)            {term: how many positions count in it} over the whole batch
    terms(params, view)      {term: mean, this part's share}, {metric: share}, and what
                             was seen: a dict of arrays that add up over parts
    passes(encoder, rows, length)  what `terms` and its gradient run, as flops.Pass: what
                             a step costs
    scorings(rate)           how its token predictions are scored on held-out rows
                             (evals/heldout.py): {name: section of a token objective},
                             with `rate` of the tokens masked; the first is what it is
                             judged by, and {} is no answer
    """

    term_names = ('tokens',)
    has_target = False
    look_names = ()

    def scorings(self, rate):
        return {}

    def weights(self, params, view, means):
        """{term: weight} of the terms in the loss; `means` are the terms' values."""
        return dict.fromkeys(self.term_names, 1.0)

    def memory(self, encoder):
        """{name: array} that it carries from step to step, outside the gradient."""
        return {}

    def remember(self, memory, seen, means, look):
        """The memory after a step; `look` is what `look` measured in it, else NaN."""
        return memory

    def look(self, params, view):
        """{name in look_names: float32 scalar}, measured every so many steps."""
        return {}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TokenObjective(Objective):
    """Words are predicted at the true positions of `loss_mask`, at most `capacity` a row.

    `corrupt` of a subclass adds inputs_L, labels_L, loss_mask_L, and order_L where
    `attends` is 'rows': who sees whom is then told row by row (attention/attend.py).
    If it `can_drop`, it also says how many hidden positions did not fit, `dropped`.
    """

    capacity: int
    attends: str = 'both'
    tied: bool = False
    logits_mib: int = 512
    z_weight: float = 0.0
    label: str = 'mlm'
    can_drop = False

    def modules(self, encoder):
        return {'lm_head': word_head(encoder, self.tied)}

    def counts(self, batch):
        return {'tokens': jnp.sum(batch['loss_mask'])}

    def passes(self, encoder, rows, length):
        head = ('lm_head', 'encoder/embedding') if self.tied else ('lm_head',)
        return [
            flops.Pass(
                name='encoder',
                modules=('encoder',),
                positions=rows * length,
                attends=flops.attended(encoder, length, causal=self.attends == 'left'),
            ),
            flops.Pass(
                name='head', modules=head, positions=rows * min(self.capacity, length)
            ),
        ]

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
            causal=self.attends == 'left',
            **options,
        )

    def terms(self, params, view):
        hidden_BLD = self.read(params, view)
        loss, metrics = self.score(params, view, *self.select(hidden_BLD, view))
        return {'tokens': loss}, metrics, {}

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
        total, scores = word_scores(
            view.apply,
            params,
            hidden_BMD,
            labels_BM,
            weight_BM=where_BM * share,
            z_weight=self.z_weight,
            logits_mib=self.logits_mib,
        )
        loss, correct = (
            losses.masked_sum(scores[name], where_BM) * share
            for name in ('loss', 'correct')
        )
        metrics = {f'{self.label}_loss': loss, f'{self.label}_accuracy': correct}
        if 'dropped' in view.batch:
            metrics['dropped_masks'] = jnp.sum(view.batch['dropped'], dtype=jnp.float32)
        return total, metrics
