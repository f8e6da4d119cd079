"""Sentence-level JEPA: two mask rates of one text are its two views, pooled.

The heavily masked view names its hidden words (MLM) and predicts the pooled vector that
the target encoder gives the lightly masked view of the same document. No paired data.
After LLM-JEPA (arXiv 2509.14252) with the two views of DLLM-JEPA.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp

from jepa_text import balance as balances
from jepa_text import latent as latents
from jepa_text import losses, resolve, telemetry
from jepa_text.models import heads
from jepa_text.objective import Objective


def make(
    tokenizer,
    length,
    steps,
    mlm=None,
    light_rate=0.05,
    documents=4,
    balance=0.5,
    latent=None,
    predictor='mlp',
    predictor_width=256,
):
    """`mlm` is the heavy view's section of objectives/mlm.py; the light view hides
    `light_rate` likewise. The first `documents` of a row are pooled and predicted.

    Raises ValueError for a transformer predictor: pooled vectors have no positions.
    """
    if predictor == 'transformer':
        raise ValueError("sentence: predictor='transformer' has no row to read; use mlp.")
    given = dict(tokenizer=tokenizer, length=length, steps=steps)
    heavy = {'name': 'mlm', **(mlm or {})}
    return Sentence(
        mlm=resolve.build('objectives', heavy, **given),
        light=resolve.build('objectives', {**heavy, 'rate': light_rate}, **given),
        documents=documents,
        balance=balances.make(balance, steps),
        latent=latents.make(latent or {}, steps),
        predictor=heads.PredictorSizes(predictor, predictor_width, 1, 1),
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Sentence(Objective):
    """The heavy view predicts the light one, document by document."""

    mlm: Any
    light: Any
    documents: int
    balance: Any
    latent: latents.Latent
    predictor: heads.PredictorSizes
    look_names = telemetry.GRADIENTS

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
            'predictor': self.predictor.build(encoder.width),
            **self.balance.modules(),
        }

    def corrupt(self, example, rng, step=0):
        light = self.light.corrupt(example, rng, step)
        return self.mlm.corrupt(example, rng, step) | {'light': light['inputs']}

    def counts(self, batch):
        latent = jnp.sum(self._present(batch['segment_ids']))
        return {
            **self.mlm.counts(batch),
            'latent': latent,
            **dict.fromkeys(self.latent.regulariser_names, latent),
        }

    def memory(self, encoder):
        return {**self.latent.memory(), **self.balance.memory()}

    def terms(self, params, view):
        hidden_BLD = self.mlm.read(params, view)
        token_loss, metrics = self.mlm.score(
            params, view, *self.mlm.select(hidden_BLD, view)
        )
        light = view.replace(batch={**view.batch, 'tokens': view.batch['light']})
        target_BSD = self._pool(self.latent.targets(params, light), view)
        pooled_BSD = self._pool(hidden_BLD, view)
        prediction_BSD = view.apply('predictor', params, pooled_BSD)
        where_BS = self._present(view.batch['segment_ids'])
        distance_BS, seen = self.latent.compare(
            params, view, prediction_BSD, target_BSD, where_BS
        )
        most = jnp.maximum(view.counts['latent'], 1)
        latent_loss = losses.masked_sum(distance_BS, where_BS) / most
        signs = telemetry.cheap(prediction_BSD, target_BSD, where_BS)
        share = jnp.sum(where_BS) / most
        metrics |= {'jepa/loss': latent_loss}
        metrics |= {name: value * share for name, value in signs.items()}
        terms = {
            'tokens': token_loss,
            'latent': latent_loss,
            **self.latent.penalty(view, pooled_BSD, where_BS, pooled_BSD[:, 0]),
        }
        return terms, metrics | self.latent.named(terms), seen

    def weights(self, params, view, means):
        return latents.weigh(self.balance, self.latent, params, view, means)

    def remember(self, memory, seen, means, look):
        return latents.remember(self.balance, self.latent, memory, seen, means, look)

    def _present(self, segment_ids_BL):
        """where_BS: does the row have a document of this number (from 1)?"""
        numbers_1S1 = jnp.arange(1, self.documents + 1)[None, :, None]
        return jnp.any(segment_ids_BL[:, None, :] == numbers_1S1, axis=-1)

    def _pool(self, hidden_BLD, view):
        """The mean hidden state of each of the first documents, [B, S, D]."""
        numbers_1S1 = jnp.arange(1, self.documents + 1)[None, :, None]
        member_BSL = view.batch['segment_ids'][:, None, :] == numbers_1S1
        member_BSL = member_BSL.astype(jnp.float32)
        sums_BSD = jnp.einsum('BSL,BLD->BSD', member_BSL, hidden_BLD.astype(jnp.float32))
        return sums_BSD / jnp.maximum(jnp.sum(member_BSL, axis=-1, keepdims=True), 1)
