"""What objectives with a token term and a latent term share: all but who predicts."""

import dataclasses
from typing import Any

import jax.numpy as jnp

from jepa_text import losses, telemetry
from jepa_text.latent import Latent
from jepa_text.measures import pooling
from jepa_text.objective import Objective


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LatentObjective(Objective):
    """A subclass has `corrupt`, `terms`, `count_latents`, `predictor_module(encoder)`.
    And `examine(params, view)` for the closer look: target_BMD, embedding_BMD of what
    stands there in the input, its positions_BM, and where_BM. `predicted` is how many
    vectors of a row are predicted; its `passes` adds the predictor's.

    `mlm` is the token objective, `balance` weighs the two, `latent` says what the target
    is and how it is compared.
    """

    mlm: Any
    balance: Any
    latent: Latent
    look_names = telemetry.GRADIENTS + telemetry.LATENTS

    @property
    def term_names(self):
        return ('tokens', 'latent', *self.latent.regulariser_names)

    @property
    def has_target(self):
        return self.latent.momentum is not None

    @property
    def ema(self):
        return self.latent.ema

    def momentum(self, step):
        return self.latent.momentum(step)

    def modules(self, encoder):
        return {
            **self.mlm.modules(encoder),
            **self.latent.modules(encoder),
            'predictor': self.predictor_module(encoder),
            **self.balance.modules(),
        }

    def counts(self, batch):
        latent = self.count_latents(batch)
        return {
            **self.mlm.counts(batch),
            'latent': latent,
            **dict.fromkeys(self.latent.regulariser_names, latent),
        }

    def passes(self, encoder, rows, length):
        return [
            *self.mlm.passes(encoder, rows, length),
            *self.latent.passes(encoder, rows, length, self.predicted),
        ]

    def memory(self, encoder):
        return {**self.latent.memory(), **self.balance.memory()}

    def score(self, params, view, prediction_BMD, target_BMD, where_BM):
        """The latent term, its metrics, and what the centre wants to see."""
        distance_BM, seen = self.latent.compare(
            params, view, prediction_BMD, target_BMD, where_BM
        )
        most = jnp.maximum(view.counts['latent'], 1)
        loss = losses.masked_sum(distance_BM, where_BM) / most
        share = jnp.sum(where_BM) / most
        signs = telemetry.cheap(prediction_BMD, target_BMD, where_BM)
        if self.has_target:
            signs['jepa/momentum'] = self.momentum(view.step)
        metrics = {name: value * share for name, value in signs.items()}
        return loss, metrics | {'jepa/loss': loss}, seen

    def look(self, params, view):
        target_BMD, embedding_BMD, positions_BM, where_BM = self.examine(params, view)
        hidden_BLD = self.mlm.read(params, view)
        pooled_BD = pooling.mean(hidden_BLD, view.batch['segment_ids'] > 0)
        return telemetry.latents(
            target_BMD, embedding_BMD, positions_BM, pooled_BD, where_BM
        )

    def weights(self, params, view, means):
        latent, tokens = self.balance.weights(
            view.apply, params, view.memory, means['latent'], means['tokens'], view.step
        )
        weights = {'latent': latent, 'tokens': tokens}
        if self.latent.regulariser is not None:
            weights[self.latent.regulariser.name] = self.latent.regulariser.weight
        return weights

    def remember(self, memory, seen, means, look):
        observed = {
            'latent_loss': means['latent'],
            'token_loss': means['tokens'],
            'latent_grad_norm': look['jepa/latent_grad_norm'],
            'token_grad_norm': look['jepa/token_grad_norm'],
        }
        return self.balance.update(self.latent.remember(memory, seen), observed)
