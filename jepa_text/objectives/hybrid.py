"""JEPA + MLM on one masked forward: lambda * latent + (1 - lambda) * tokens.

The encoder reads the masked row once. At the hidden positions one head names the word,
and a predictor names the vector that an EMA copy of the encoder gives for the clean
row. The latent loss counts only where the input really is the mask token, so nothing
can be copied. Costs about an MLM step and one forward more.

After arXiv 2606.05173 (cosine loss, EMA 0.996 to 1, layer-normalised target), with its
leaks mended; the shared forward is data2vec's (arXiv 2202.03555).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jepa_text import balance as balances
from jepa_text import losses, resolve, schedules
from jepa_text.models import heads

LATENT_LOSSES = ('cosine', 'smooth_l1')
PREDICTORS = ('mlp', 'transformer', 'identity')


def make(
    tokenizer,
    length,
    steps,
    mlm=None,
    balance=0.5,
    momentum=None,
    latent_loss='cosine',
    beta=1.0,
    predictor='mlp',
    predictor_width=256,
    predictor_depth=2,
    predictor_heads=4,
):
    """`mlm` is a section of objectives/mlm.py; `balance` a number or a section of
    balance.py; `momentum` a number or a section of schedules.py (0.996 to 1 over the
    phase if not given); `beta` belongs to smooth_l1. Raises ValueError for an unknown
    choice and for a predictor whose heads do not divide its width.
    """
    if latent_loss not in LATENT_LOSSES:
        known = ', '.join(LATENT_LOSSES)
        raise ValueError(f'hybrid: latent_loss={latent_loss!r}; there are: {known}.')
    if predictor not in PREDICTORS:
        known = ', '.join(PREDICTORS)
        raise ValueError(f'hybrid: predictor={predictor!r}; there are: {known}.')
    if predictor == 'transformer' and predictor_width % predictor_heads:
        raise ValueError(
            f'hybrid: predictor_width={predictor_width} is not a multiple of '
            f'predictor_heads={predictor_heads}.'
        )
    if momentum is None:
        momentum = {'name': 'linear', 'start': 0.996, 'end': 1.0}
    return Hybrid(
        mlm=resolve.build(
            'objectives',
            {'name': 'mlm', **(mlm or {})},
            tokenizer=tokenizer,
            length=length,
            steps=steps,
        ),
        balance=balances.make(balance, steps),
        momentum=schedules.make(momentum, steps),
        latent_loss=latent_loss,
        beta=beta,
        predictor=(predictor, predictor_width, predictor_depth, predictor_heads),
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Hybrid:
    """lambda * L_latent + (1 - lambda) * L_mlm over one forward of the encoder."""

    mlm: Any
    balance: Any
    momentum: Callable
    latent_loss: str
    beta: float
    predictor: tuple
    causal = False
    has_target = True

    def modules(self, encoder):
        kind, width, depth, attention_heads = self.predictor
        predictors = {
            'mlp': heads.MLPPredictor(encoder.width, width),
            'transformer': heads.TransformerPredictor(
                encoder.width, width, depth, attention_heads
            ),
            'identity': heads.IdentityPredictor(encoder.width),
        }
        return {
            **self.mlm.modules(encoder),
            'predictor': predictors[kind],
            **self.balance.modules(),
        }

    def corrupt(self, example, rng):
        example = self.mlm.corrupt(example, rng)
        hidden_L = example['loss_mask'] & (example['inputs'] == self.mlm.mask_id)
        return example | {'target_mask': hidden_L}

    def counts(self, batch):
        return {
            **self.mlm.counts(batch),
            'latents': jnp.sum(batch['target_mask']),
        }

    def loss(self, apply, params, target, batch, step, counts):
        layout = (batch['segment_ids'], batch['positions'])
        hidden_BLD = apply('encoder', params, batch['inputs'], *layout, causal=False)
        clean_BLD = apply(
            'encoder', {'encoder': target}, batch['tokens'], *layout, causal=False
        )
        index_BM, where_BM = losses.select(batch['loss_mask'], self.mlm.capacity)
        hidden_BMD = losses.take(hidden_BLD, index_BM)
        token_loss, token_metrics = self.mlm.score(
            apply, params, hidden_BMD, index_BM, where_BM, batch, counts
        )
        target_BMD = jax.lax.stop_gradient(
            losses.layer_normalise(losses.take(clean_BLD, index_BM))
        )
        prediction_BMD = self._predict(apply, params, hidden_BLD, index_BM, layout)
        latent_BM = jnp.take_along_axis(batch['target_mask'], index_BM, axis=1) & where_BM
        distance_BM = self._distance(prediction_BMD, target_BMD)
        share = 1 / jnp.maximum(counts['latents'], 1)
        latent_loss = losses.masked_sum(distance_BM, latent_BM) * share
        weight = self.balance.weight(apply, params, step)
        # This part's share of the batch: per-batch scalars must add up over the parts.
        part = jnp.sum(latent_BM) * share
        metrics = {
            **token_metrics,
            'jepa/loss': latent_loss,
            'jepa/lambda': weight * part,
            'jepa/momentum': self.momentum(step) * part,
            **{
                f'jepa/{name}': value * part
                for name, value in telemetry(
                    prediction_BMD, target_BMD, latent_BM
                ).items()
            },
        }
        return weight * latent_loss + (1 - weight) * token_loss, metrics

    def _distance(self, prediction_BMD, target_BMD):
        if self.latent_loss == 'cosine':
            return losses.cosine_distance(prediction_BMD, target_BMD)
        return losses.smooth_l1(prediction_BMD, target_BMD, self.beta)

    def _predict(self, apply, params, hidden_BLD, index_BM, layout):
        if self.predictor[0] == 'transformer':
            prediction_BLD = apply('predictor', params, hidden_BLD, *layout)
            return losses.take(prediction_BLD, index_BM)
        # Position by position, so only where it counts.
        return apply('predictor', params, losses.take(hidden_BLD, index_BM))


def telemetry(prediction_BMD, target_BMD, where_BM):
    """Signs of collapse over the latent positions of a batch.

    cosine: mean of cos(prediction, target). target_std, prediction_std: the standard
    deviation over positions of each coordinate of the unit vectors, times sqrt(D),
    averaged over D: near 1 when vectors point everywhere, 0 when they are one vector.
    """
    cosine = 1 - losses.cosine_distance(prediction_BMD, target_BMD)
    return {
        'cosine': losses.masked_mean(cosine, where_BM),
        'target_std': _spread(target_BMD, where_BM),
        'prediction_std': _spread(jax.lax.stop_gradient(prediction_BMD), where_BM),
    }


def _spread(x_BMD, where_BM):
    unit_BMD = x_BMD.astype(jnp.float32)
    norm_BM1 = jnp.linalg.norm(unit_BMD, axis=-1, keepdims=True)
    unit_BMD = unit_BMD / jnp.maximum(norm_BM1, 1e-8)
    count = jnp.maximum(jnp.sum(where_BM), 1)
    keep_BM1 = where_BM[..., None]
    mean_D = jnp.sum(jnp.where(keep_BM1, unit_BMD, 0), axis=(0, 1)) / count
    squares_D = jnp.sum(jnp.where(keep_BM1, unit_BMD**2, 0), axis=(0, 1)) / count
    variance_D = jnp.maximum(squares_D - mean_D**2, 0)
    return jnp.mean(jnp.sqrt(variance_D)) * jnp.sqrt(x_BMD.shape[-1])
