"""What objectives with a token term and a latent term share: all but who predicts."""

import dataclasses

import flax.struct
import jax
import jax.numpy as jnp
import optax

from jepa_text import losses
from jepa_text.config import resolve
from jepa_text.models import heads, pooling
from jepa_text.objectives.base import Objective, step_key
from jepa_text.objectives.latent import balance as balances
from jepa_text.objectives.latent import diagnostics
from jepa_text.objectives.latent import targets as latents
from jepa_text.objectives.mlm import MLM

# What sizes in the sections of these objectives may be.
RANGES = {
    **dict.fromkeys(
        ('predictor_width', 'predictor_depth', 'predictor_heads', 'documents'),
        dict(whole=True, minimum=1),
    ),
    # Each is a forward pass of its own; the paper has 1, 2 or 4.
    'masks': dict(whole=True, minimum=1, maximum=16),
}


def check(what, **sizes):
    """Raises ValueError for a size that is no whole number from 1 on."""
    latents.check(what, sizes, {name: RANGES[name] for name in sizes})


def masked(what, section, **given):
    """The token objective of a section, an MLM unless it names another.

    Raises ValueError for one that does not predict tokens where it masks them.
    """
    section = {'name': 'mlm', **(section or {})}
    made = resolve.build('objectives', section, **given)
    if not isinstance(made, MLM) or made.shift:
        raise ValueError(
            f'{what}: mlm={section} does not predict tokens where the mask token stands, '
            "which the latents need; use name='mlm' with shift=0."
        )
    return made


def parts(what, mlm, balance, latent, **given):
    """The keywords of a LatentObjective of these sections."""
    return dict(
        mlm=masked(what, mlm, **given),
        balance=balances.make(balance, given['steps']),
        latent=latents.make(latent or {}, given['steps']),
    )


@flax.struct.dataclass
class Prediction:
    """M vectors of B rows (or of several contexts of each), and what they are to be.

    `regularized_BMD` and `rows_BD`, one for a row, are what a regularizer may spread.
    """

    prediction_BMD: jax.Array
    target_BMD: jax.Array
    where_BM: jax.Array
    regularized_BMD: jax.Array
    rows_BD: jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LatentObjective(Objective):
    """`mlm` is the token objective, `balance` weighs the two, `latent` says what the
    target is and how it is compared, `predictor` who predicts it. A subclass has
    `corrupt`, and

    count_latents(batch)   how many vectors are predicted
    predict(params, view, hidden_BLD, selected)  the Prediction; the encoder's hidden
                           states of the masked rows, and `mlm.select` of them
    trivial(params, view)  what a trivial predictor would know of each: the embedding_BMD
                           of its token, and its positions_BM
    """

    mlm: MLM
    balance: balances.Balance
    latent: latents.Latent
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

    def follow(self, target, encoder, step):
        """target <- m target + (1 - m) encoder"""
        moved = optax.incremental_update(encoder, target, 1 - self.latent.momentum(step))
        if self.latent.ema == 'layers':
            moved = {**moved, 'embedding': encoder['embedding']}
        return moved

    def modules(self, encoder):
        return {
            **self.mlm.modules(encoder),
            **self.latent.modules(encoder),
            'predictor': self.predictor_module(encoder),
            **self.balance.modules(),
        }

    def predictor_module(self, encoder):
        return self.predictor.build(encoder.width, encoder.attention)

    def counts(self, batch):
        return {**self.mlm.counts(batch), 'latent': self.count_latents(batch)}

    def memory(self):
        return {**self.latent.memory(), **self.balance.memory()}

    def remember(self, memory, seen, diagnostics):
        observed = {name: seen[name] for name in ('latent_loss', 'token_loss')}
        for name in ('latent_grad_norm', 'token_grad_norm'):
            observed[name] = diagnostics[f'jepa/{name}']
        return self.balance.update(self.latent.remember(memory, seen), observed)

    def loss(self, params, view):
        """latent_weight * latent + token_weight * tokens + the regularizer's term."""
        terms, metrics, seen, _ = self.forward(params, view)
        latent, tokens = self.balance.weights(params, view.memory, view.step)
        weights = {'tokens': tokens, 'latent': latent}
        if self.latent.regularizer is not None:
            weights[self.latent.regularizer.name] = self.latent.regularizer.weight
        loss = sum(weights[name] * term for name, term in terms.items())
        # Of a batch without latents nothing is measured: a 0 would be a value.
        own, count = self.count_latents(view.batch), view.counts['latent']
        share = jnp.where(count > 0, own / jnp.maximum(count, 1), jnp.nan)
        metrics['jepa/lambda'] = latent / jnp.maximum(latent + tokens, 1e-9) * share
        return loss, metrics, seen

    def forward(self, params, view):
        """The terms before they are weighed, {name: share}; metrics; what is seen; and
        for the diagnostics, (hidden_BLD, Prediction)."""
        hidden_BLD = self.mlm.read(params, view)
        selected = self.mlm.select(hidden_BLD, view)
        tokens, metrics = self.mlm.score(params, view, *selected)
        made = self.predict(params, view, hidden_BLD, selected)
        latent, signs, seen = self._compare(params, view, made)
        penalty = self.penalty(view, made)
        metrics |= signs | {f'jepa/{name}': term for name, term in penalty.items()}
        seen |= {'latent_loss': latent, 'token_loss': tokens}
        terms = {'tokens': tokens, 'latent': latent, **penalty}
        return terms, metrics, seen, (hidden_BLD, made)

    def _compare(self, params, view, made):
        """The latent term, its metrics, and what the center wants to see."""
        given = made.prediction_BMD, made.target_BMD, made.where_BM
        with jax.named_scope('distance'):
            distance_BM, seen = self.latent.compare(params, view, *given)
        count = view.counts['latent']
        maximum = jnp.maximum(count, 1)
        loss = losses.masked_sum(distance_BM, made.where_BM) / maximum
        # Of a batch without latents nothing is measured, and 0 would look like collapse.
        share = jnp.where(count > 0, jnp.sum(made.where_BM) / maximum, jnp.nan)
        signs = diagnostics.cheap(*given)
        if self.has_target:
            signs['jepa/momentum'] = self.latent.momentum(view.step)
        metrics = {name: value * share for name, value in signs.items()}
        return loss, metrics | {'jepa/loss': loss}, seen

    def penalty(self, view, made):
        """{name: this part's share} of the regularizer, or {}.

        A regularizer sees the vectors of one microbatch at a time. SIGReg, which
        grows with their number, counts as if it had seen those of the whole batch.
        """
        rule, where_BM = self.latent.regularizer, made.where_BM
        if rule is None:
            return {}
        key = step_key(view)
        count = jnp.sum(where_BM).astype(jnp.float32)
        whole = jnp.maximum(view.counts['latent'], 1).astype(jnp.float32)
        share = count / whole
        if rule.on == 'rows':
            vectors_ND, where_N = made.rows_BD, jnp.any(where_BM, axis=-1)
            times = whole / jnp.maximum(count, 1)
        else:
            vectors_BMD = made.regularized_BMD
            vectors_ND = vectors_BMD.reshape(-1, vectors_BMD.shape[-1])
            where_N = where_BM.reshape(-1)
            # How many a sample holds, of the part and of the batch.
            maximum = count * (rule.sample / len(where_N))
            times = jnp.minimum(whole, maximum) / jnp.maximum(
                jnp.minimum(count, maximum), 1
            )
            take = jax.random.permutation(key, len(where_N))[: rule.sample]
            vectors_ND, where_N = vectors_ND[take], where_N[take]
        if rule.name == 'sigreg':
            share = share * jnp.maximum(times, 1)
        with jax.named_scope(rule.name):
            return {rule.name: rule(vectors_ND, where_N, key) * share}

    def diagnostics_every(self, every):
        return min((n for n in (every, self.balance.every) if n), default=0)

    def diagnostics(self, params, view):
        def both(encoder):
            terms, _, _, found = self.forward({**params, 'encoder': encoder}, view)
            return (terms['latent'], terms['tokens']), found

        # One forward pass for all of it: this takes about a step and a quarter.
        (one, other), pull, (hidden_BLD, made) = jax.vjp(
            both, params['encoder'], has_aux=True
        )
        (latent,) = pull((jnp.ones_like(one), jnp.zeros_like(other)))
        (tokens,) = pull((jnp.zeros_like(one), jnp.ones_like(other)))
        pooled_BD = pooling.mean(hidden_BLD, view.batch['segment_ids'] > 0)
        vectors = diagnostics.latents(
            made.target_BMD, *self.trivial(params, view), pooled_BD, made.where_BM
        )
        return diagnostics.gradients(latent, tokens) | vectors

    def derived(self, metrics, diagnostics):
        """The latent term's share of both gradients on the encoder, as weighed."""
        if not diagnostics:
            return {}
        weight = metrics['jepa/lambda']
        latent = weight * diagnostics['jepa/latent_grad_norm']
        both = latent + (1 - weight) * diagnostics['jepa/token_grad_norm']
        return {'jepa/grad_ratio': latent / jnp.maximum(both, 1e-20)}

    def collapse(self, values):
        return diagnostics.collapse(values)

    def notes(self, values):
        return diagnostics.notes(values, learned=bool(self.balance.modules()))
