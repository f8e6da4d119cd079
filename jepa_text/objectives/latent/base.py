"""Base class of objectives with a token loss and a latent loss."""

import dataclasses

import flax.struct
import jax
import jax.numpy as jnp
import optax

from jepa_text import losses
from jepa_text.models import heads, pooling
from jepa_text.objectives.base import Objective
from jepa_text.objectives.latent import balance as balances
from jepa_text.objectives.latent import diagnostics, targets
from jepa_text.objectives.mlm import MLM
from jepa_text.settings import resolve

# Metric: the number of documents in a batch for which no latent is predicted.
WITHOUT = 'jepa/documents_without_target'


def parts(what, mlm, balance, latent, **common):
    """Returns the keywords of a LatentObjective that these sections define.

    Raises ValueError if the token objective, an MLM unless the section names another,
    does not predict tokens where it masks them.
    """
    section = {'name': 'mlm', **(mlm or {})}
    masked = resolve.build('objectives', section, **common)
    if not isinstance(masked, MLM) or masked.shift:
        raise ValueError(
            f'{what}: mlm={section} does not predict tokens at the positions of the mask '
            "tokens, which the latents need; use name='mlm' with shift=0."
        )
    return dict(
        mlm=masked,
        balance=balances.make(balance, common['steps']),
        latent=targets.make(latent or {}, common['steps']),
    )


@flax.struct.dataclass
class Prediction:
    """M predicted vectors for each of B rows (or of several contexts each), and targets.

    A regularizer applies to `regularized_BMD`.
    """

    prediction_BMD: jax.Array
    target_BMD: jax.Array
    where_BM: jax.Array
    regularized_BMD: jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LatentObjective(Objective):
    """An objective that predicts masked tokens and latents.

    `mlm` is the token objective, `balance` weighs the two losses, `latent` defines the
    target and how it is compared, and `predictor` which module predicts it. A subclass
    implements `corrupt` and

    count_latents(batch)   the number of predicted vectors
    predict(params, view, hidden_BLD, selected)  the Prediction, given the encoder's
                           hidden states of the masked rows and `mlm.select` of them
    left_out(batch)        {metric: number of documents or positions for which no latent
                           is predicted}
    trivial(params, view)  what trivial predictors know about each target: the
                           embedding_BMD of its token, and its positions_BM
    """

    mlm: MLM
    balance: balances.Balance
    latent: targets.Latent
    predictor: heads.PredictorSizes
    diagnostic_names = diagnostics.GRADIENTS + diagnostics.LATENTS

    @property
    def token_objective(self):
        return self.mlm

    def baseline(self, section):
        return {'name': 'mlm', **(section.get('mlm') or {})}

    @property
    def has_target(self):
        return self.latent.momentum is not None

    @property
    def per_microbatch(self):
        latent = self.latent
        compares = latent.distance == 'info_nce' or latent.regularizer is not None
        # A balance measures gradients on the first microbatch.
        return compares or self.balance.every_steps > 0

    @jax.named_scope('ema')
    def update_target(self, target, encoder, step):
        """Returns m target + (1 - m) encoder."""
        if not self.has_target:
            return target
        target = optax.incremental_update(encoder, target, 1 - self.latent.momentum(step))
        if self.latent.ema == 'layers':
            target = {**target, 'embedding': encoder['embedding']}
        return target

    def modules(self, encoder):
        self.latent.check_depth(encoder.depth)
        return {
            **self.mlm.modules(encoder),
            'predictor': self.predictor.build(encoder.width, encoder.attention),
            **self.balance.modules(),
        }

    def counts(self, batch):
        return {**self.mlm.counts(batch), 'latent': self.count_latents(batch)}

    def memory(self):
        return self.balance.memory()

    def forgotten(self, before):
        # What another phase has remembered does not describe this one.
        is_same = type(getattr(before, 'balance', None)) is type(self.balance)
        return () if is_same else tuple(self.balance.memory())

    def update_memory(self, memory, seen, diagnostics):
        observed = {name: seen[name] for name in ('latent_loss', 'token_loss')}
        for name in ('latent_grad_norm', 'token_grad_norm'):
            observed[name] = diagnostics[f'jepa/{name}']
        return self.balance.update(memory, observed)

    def left_out(self, batch):
        return {}

    def loss(self, params, view):
        """Returns latent_weight * latent + token_weight * tokens + regularizer term."""
        terms, metrics, seen, _ = self.forward(params, view)
        latent, tokens = self.balance.weights(params, view.memory, view.step)
        weights = {'tokens': tokens, 'latent': latent}
        if self.latent.regularizer is not None:
            weights[self.latent.regularizer.name] = self.latent.regularizer.weight
        loss = sum(weights[name] * term for name, term in terms.items())
        # NaN for a batch without latents: nothing was measured, and 0 would be a value.
        own, count = self.count_latents(view.batch), view.counts['latent']
        share = jnp.where(count > 0, own / jnp.maximum(count, 1), jnp.nan)
        metrics['jepa/lambda'] = latent / jnp.maximum(latent + tokens, 1e-9) * share
        return loss, metrics, seen

    def forward(self, params, view):
        """Returns the unweighted terms, metrics, `seen`, and the diagnostics' inputs.

        The terms are {name: share}, and the last is (hidden_BLD, Prediction).
        """
        hidden_BLD = self.mlm.encode(params, view)
        selected = self.mlm.select(hidden_BLD, view)
        tokens, metrics = self.mlm.score(params, view, *selected)
        prediction = self.predict(params, view, hidden_BLD, selected)
        latent, latent_metrics, moments = self._compare(view, prediction)
        penalty = self.latent.penalty(view, prediction)
        metrics |= latent_metrics | self.left_out(view.batch)
        metrics |= {f'jepa/{name}': term for name, term in penalty.items()}
        seen = {'latent_loss': latent, 'token_loss': tokens, 'moments': moments}
        terms = {'tokens': tokens, 'latent': latent, **penalty}
        return terms, metrics, seen, (hidden_BLD, prediction)

    def _compare(self, view, prediction):
        """Returns the latent term, its metrics, and the moments of both vectors."""
        where_BM = prediction.where_BM
        vectors = prediction.prediction_BMD, prediction.target_BMD, where_BM
        with jax.named_scope('distance'):
            distance_BM = self.latent.compare(view, *vectors)
        count = view.counts['latent']
        maximum = jnp.maximum(count, 1)
        loss = losses.masked_sum(distance_BM, where_BM) / maximum
        # NaN for a batch without latents: nothing was measured; 0 would mean collapse.
        share = jnp.where(count > 0, jnp.sum(where_BM) / maximum, jnp.nan)
        cosine_BM = 1 - losses.cosine_distance(*vectors[:2])
        cosine = losses.masked_sum(cosine_BM, where_BM) / maximum
        values = {'jepa/loss': loss, 'jepa/cosine': cosine}
        metrics = {name: jnp.where(count > 0, x, share) for name, x in values.items()}
        if self.has_target:
            metrics['jepa/momentum'] = self.latent.momentum(view.step) * share
        moments = {
            'target': diagnostics.moments(prediction.target_BMD, where_BM),
            'prediction': diagnostics.moments(prediction.prediction_BMD, where_BM),
        }
        return loss, metrics, moments

    def diagnostics_every(self, every):
        return min((n for n in (every, self.balance.every_steps) if n), default=0)

    def diagnostics(self, params, view):
        def both_losses(encoder):
            terms, _, _, aux = self.forward({**params, 'encoder': encoder}, view)
            return (terms['latent'], terms['tokens']), aux

        # One forward pass for both gradients: this costs about 1.25 training steps.
        _, backward, (hidden_BLD, prediction) = jax.vjp(
            both_losses, params['encoder'], has_aux=True
        )
        one, zero = jnp.ones(()), jnp.zeros(())
        (latent,) = backward((one, zero))
        (tokens,) = backward((zero, one))
        pooled_BD = pooling.mean(hidden_BLD, view.batch['segment_ids'] > 0)
        vectors = diagnostics.latents(
            prediction.target_BMD,
            *self.trivial(params, view),
            pooled_BD,
            prediction.where_BM,
        )
        return diagnostics.gradients(latent, tokens) | vectors

    def derived(self, metrics, seen, measured):
        """Returns the spread of targets and predictions, and the latent term's share of
        both weighted gradients on the encoder."""
        values = {
            f'jepa/{name}_std': diagnostics.std_of(moments)
            for name, moments in seen['moments'].items()
        }
        if measured:
            weight = metrics['jepa/lambda']
            latent = weight * measured['jepa/latent_grad_norm']
            both = latent + (1 - weight) * measured['jepa/token_grad_norm']
            values['jepa/grad_ratio'] = latent / jnp.maximum(both, 1e-20)
        return values

    def notes(self, values):
        return diagnostics.notes(values, self.has_target)
