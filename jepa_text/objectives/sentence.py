"""Sentence-level JEPA: two mask rates of one text are its two views, pooled.

The heavily masked view names its masked tokens (MLM) and predicts the pooled vector that
the target encoder gives the lightly masked view of the same document. No paired data.
After LLM-JEPA (arXiv 2509.14252) with the two views of DLLM-JEPA.
"""

import dataclasses

import jax
import jax.numpy as jnp

from jepa_text.models import heads
from jepa_text.objectives.latent.base import (
    LatentObjective,
    Prediction,
    check,
    masked,
    parts,
)
from jepa_text.objectives.mlm import MLM
from jepa_text.parallel import activations


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
    check('sentence', documents=documents, predictor_width=predictor_width)
    given = dict(tokenizer=tokenizer, length=length, steps=steps)
    return Sentence(
        **parts('sentence', mlm, balance, latent, **given),
        light=masked('sentence', {**(mlm or {}), 'rate': light_rate}, **given),
        documents=documents,
        predictor=heads.PredictorSizes(predictor, predictor_width, 1, 1),
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Sentence(LatentObjective):
    """The heavy view predicts the light one, document by document."""

    light: MLM
    documents: int

    def corrupt(self, example, rng, step=0):
        # The heavy view first, so that it hides what MLM alone would.
        row = self.mlm.corrupt(example, rng, step)
        return row | {'light': self.light.corrupt(example, rng, step)['inputs']}

    def count_latents(self, batch):
        return jnp.sum(self._present(batch['segment_ids']))

    def predict(self, params, view, hidden_BLD, selected):
        # The pooled vectors of the light view of each document.
        light = view.replace(batch={**view.batch, 'tokens': view.batch['light']})
        target_BSD = self._pool(self.latent.targets(params, light), view)
        pooled_BSD = self._pool(hidden_BLD, view)
        return Prediction(
            prediction_BMD=view.apply('predictor', params, pooled_BSD),
            target_BMD=target_BSD,
            where_BM=self._present(view.batch['segment_ids']),
            regularized_BMD=pooled_BSD,
            rows_BD=pooled_BSD[:, 0],
        )

    def trivial(self, params, view):
        batch = view.batch
        embedded_BLD = activations.look_up(
            params['encoder']['embedding'], batch['tokens']
        )
        # The number of a document in its row.
        numbers_BS = jnp.broadcast_to(
            jnp.arange(self.documents), (len(batch['tokens']), self.documents)
        )
        return self._pool(embedded_BLD, view), numbers_BS

    def _present(self, segment_ids_BL):
        """where_BS: does the row have a document of this number (from 1)?"""
        numbers_1S1 = jnp.arange(1, self.documents + 1)[None, :, None]
        return jnp.any(segment_ids_BL[:, None, :] == numbers_1S1, axis=-1)

    @jax.named_scope('pooling')
    def _pool(self, hidden_BLD, view):
        """The mean hidden state of each of the first documents, [B, S, D]."""
        numbers_1S1 = jnp.arange(1, self.documents + 1)[None, :, None]
        member_BSL = view.batch['segment_ids'][:, None, :] == numbers_1S1
        member_BSL = member_BSL.astype(jnp.float32)
        sums_BSD = jnp.einsum('BSL,BLD->BSD', member_BSL, hidden_BLD.astype(jnp.float32))
        return sums_BSD / jnp.maximum(jnp.sum(member_BSL, axis=-1, keepdims=True), 1)
