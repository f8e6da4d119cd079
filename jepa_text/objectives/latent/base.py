"""What objectives with a token term and a latent term share: all but who predicts."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jepa_text import losses
from jepa_text.config import resolve
from jepa_text.objectives.base import Objective, step_key
from jepa_text.objectives.latent import diagnostics
from jepa_text.objectives.latent import targets as latents

# What sizes in the sections of these objectives may be.
RANGES = {
    **dict.fromkeys(
        ('predictor_width', 'predictor_depth', 'predictor_heads', 'documents'),
        dict(whole=True, least=1),
    ),
    # Each is a forward pass of its own; the paper has 1, 2 or 4.
    'masks': dict(whole=True, least=1, most=16),
}


def check(what, **sizes):
    """Raises ValueError for a size that is no whole number from 1 on."""
    latents.check(what, sizes, {name: RANGES[name] for name in sizes})


def masked(what, section, **given):
    """The token objective of a section, an MLM unless it names another.

    Raises ValueError for one that does not predict words where it masks them.
    """
    section = {'name': 'mlm', **(section or {})}
    made = resolve.build('objectives', section, **given)
    if getattr(made, 'shift', None) != 0:
        raise ValueError(
            f'{what}: mlm={section} does not predict words where the mask token stands, '
            "which the latents need; use name='mlm' with shift=0."
        )
    return made


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LatentObjective(Objective):
    """A subclass has `corrupt`, `forward`, `count_latents`, `predictor_module(encoder)`.
    `forward(params, view)` gives what `terms` does and, fourth, a function that gives the
    closer look its arguments of `telemetry.latents`. `predicted` is how many vectors of a
    row are predicted; its `passes` adds the predictor's.

    `mlm` is the token objective, `balance` weighs the two, `latent` says what the target
    is and how it is compared.
    """

    mlm: Any
    balance: Any
    latent: latents.Latent
    look_names = diagnostics.GRADIENTS + diagnostics.LATENTS

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

    def scorings(self, rate):
        return self.mlm.scorings(rate)

    def memory(self, encoder):
        return {**self.latent.memory(), **self.balance.memory()}

    def score(self, params, view, prediction_BMD, target_BMD, where_BM):
        """The latent term, its metrics, and what the centre wants to see."""
        distance_BM, seen = self.latent.compare(
            params, view, prediction_BMD, target_BMD, where_BM
        )
        count = view.counts['latent']
        most = jnp.maximum(count, 1)
        loss = losses.masked_sum(distance_BM, where_BM) / most
        # Of a batch without latents nothing is measured, and 0 would look like collapse.
        share = jnp.where(count > 0, jnp.sum(where_BM) / most, jnp.nan)
        signs = diagnostics.cheap(prediction_BMD, target_BMD, where_BM)
        if self.has_target:
            signs['jepa/momentum'] = self.momentum(view.step)
        metrics = {name: value * share for name, value in signs.items()}
        return loss, metrics | {'jepa/loss': loss}, seen

    def penalty(self, view, latents_BMD, where_BM, rows_BD):
        """{name: this part's share} of the regulariser, or {}.

        A regulariser sees the vectors of one part of a batch at a time. SIGReg, which
        grows with their number, counts as if it had seen those of the whole batch.
        """
        rule = self.latent.regularise
        if rule is None:
            return {}
        key = step_key(view)
        count = jnp.sum(where_BM).astype(jnp.float32)
        whole = jnp.maximum(view.counts[rule.name], 1).astype(jnp.float32)
        share = count / whole
        if rule.on == 'rows':
            vectors_ND, where_N = rows_BD, jnp.any(where_BM, axis=-1)
            times = whole / jnp.maximum(count, 1)
        else:
            vectors_ND = latents_BMD.reshape(-1, latents_BMD.shape[-1])
            where_N = where_BM.reshape(-1)
            # How many a sample holds, of the part and of the batch.
            most = count * (rule.sample / len(where_N))
            times = jnp.minimum(whole, most) / jnp.maximum(jnp.minimum(count, most), 1)
            take = jax.random.permutation(key, len(where_N))[: rule.sample]
            vectors_ND, where_N = vectors_ND[take], where_N[take]
        if rule.name == 'sigreg':
            share = share * jnp.maximum(times, 1)
        return {rule.name: rule(vectors_ND, where_N, key) * share}

    def named(self, terms):
        """The regulariser's term as a metric."""
        return {f'jepa/{name}': terms[name] for name in self.latent.regulariser_names}

    def terms(self, params, view):
        return self.forward(params, view)[:3]

    def look(self, params, view):
        def both(encoder):
            terms, _, _, examine = self.forward({**params, 'encoder': encoder}, view)
            return (terms['latent'], terms['tokens']), examine()

        # One forward pass for all of it: a look takes about a step and a quarter.
        (one, other), pull, examined = jax.vjp(both, params['encoder'], has_aux=True)
        (latent,) = pull((jnp.ones_like(one), jnp.zeros_like(other)))
        (tokens,) = pull((jnp.zeros_like(one), jnp.ones_like(other)))
        return diagnostics.gradients(latent, tokens) | diagnostics.latents(**examined)

    def weights(self, params, view, means):
        latent, tokens = self.balance.weights(
            view.apply, params, view.memory, means['latent'], means['tokens'], view.step
        )
        weights = {'latent': latent, 'tokens': tokens}
        if self.latent.regularise is not None:
            weights[self.latent.regularise.name] = self.latent.regularise.weight
        return weights

    def remember(self, memory, seen, means, look):
        observed = {
            'latent_loss': means['latent'],
            'token_loss': means['tokens'],
            'latent_grad_norm': look['jepa/latent_grad_norm'],
            'token_grad_norm': look['jepa/token_grad_norm'],
        }
        return self.balance.update(self.latent.remember(memory, seen), observed)
