"""Sentence-level JEPA: predicts the pooled vector of a less masked view of the text.

Two mask rates give two views of a text. From the heavily masked view, the model predicts
the masked tokens (MLM) and the pooled vector that the target encoder gives for the
lightly masked view of the same document. No paired data are needed. After LLM-JEPA (arXiv
2509.14252) with the two views of DLLM-JEPA.
"""

import dataclasses

import jax
import jax.numpy as jnp

from jepa_text.models import heads
from jepa_text.objectives.latent.base import (
    WITHOUT,
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
    """Returns a Sentence objective, which predicts the first `documents` of each row;
    jepa/documents_without_target counts the others.

    `mlm` is the heavy view's section of objectives/mlm.py; in the light view `light_rate`
    of the tokens are masked with the same options. `balance` and `latent` are as in
    objectives/hybrid.py. Raises ValueError for options out of range and for a transformer
    predictor, because pooled vectors have no positions.
    """
    if predictor == 'transformer':
        raise ValueError(
            "sentence: predictor='transformer' needs positions, which pooled vectors do "
            "not have; use 'mlp'."
        )
    check('sentence', documents=documents, predictor_width=predictor_width)
    common = dict(tokenizer=tokenizer, length=length, steps=steps)
    return Sentence(
        **parts('sentence', mlm, balance, latent, **common),
        light=masked('sentence', {**(mlm or {}), 'rate': light_rate}, **common),
        documents=documents,
        predictor=heads.PredictorSizes(predictor, predictor_width, 1, 1),
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Sentence(LatentObjective):
    """The heavily masked view predicts the lightly masked one, document by document."""

    light: MLM
    documents: int

    def corrupt(self, example, rng, step=0):
        # The heavy view comes first, so that it masks the same tokens as MLM alone.
        row = self.mlm.corrupt(example, rng, step)
        return row | {'light': self.light.corrupt(example, rng, step)['inputs']}

    def count_latents(self, batch):
        return jnp.sum(self._present(batch['segment_ids']))

    def left_out(self, batch):
        beyond_B = jnp.max(batch['segment_ids'], axis=1) - self.documents
        return {WITHOUT: jnp.sum(jnp.maximum(beyond_B, 0), dtype=jnp.float32)}

    def predict(self, params, view, hidden_BLD, selected):
        # The pooled vectors of the light view of each document.
        light = view.replace(batch={**view.batch, 'tokens': view.batch['light']})
        target_BSD = self._pool(self.latent.targets(params, light), view)
        pooled_BSD = self._pool(hidden_BLD, view)
        where_BS = self._present(view.batch['segment_ids'])
        return Prediction(
            prediction_BMD=view.apply('predictor', params, pooled_BSD),
            target_BMD=target_BSD,
            where_BM=where_BS,
            regularized_BMD=pooled_BSD,
            rows_ND=pooled_BSD.reshape(-1, pooled_BSD.shape[-1]),
            rows_where_N=where_BS.reshape(-1),
        )

    def trivial(self, params, view):
        batch = view.batch
        embedded_BLD = activations.embedding_lookup(
            params['encoder']['embedding'], batch['tokens']
        )
        # The number of a document in its row.
        numbers_BS = jnp.broadcast_to(
            jnp.arange(self.documents), (len(batch['tokens']), self.documents)
        )
        return self._pool(embedded_BLD, view), numbers_BS

    def _present(self, segment_ids_BL):
        """Returns where_BS: whether the row has a document with this number (from 1)."""
        return jnp.any(self._members(segment_ids_BL), axis=-1)

    def _members(self, segment_ids_BL):
        """Returns member_BSL: which positions belong to each of the first documents."""
        numbers_1S1 = jnp.arange(1, self.documents + 1)[None, :, None]
        return segment_ids_BL[:, None, :] == numbers_1S1

    @jax.named_scope('pooling')
    def _pool(self, hidden_BLD, view):
        """Returns the mean hidden state of each of the first documents, [B, S, D]."""
        member_BSL = self._members(view.batch['segment_ids']).astype(jnp.float32)
        sums_BSD = jnp.einsum('BSL,BLD->BSD', member_BSL, hidden_BLD.astype(jnp.float32))
        return sums_BSD / jnp.maximum(jnp.sum(member_BSL, axis=-1, keepdims=True), 1)
