"""JEPA + MLM in one masked forward pass: latent_weight * latent + token_weight * tokens.

The encoder reads the masked row once. At the masked positions the LM head predicts the
token, and a predictor predicts the vector that the target encoder gives for the clean
row. The latent loss counts only where the input is the mask token, so that nothing can be
copied. The cost is about that of an MLM step plus one forward pass.

After arXiv 2606.05173 (cosine loss, EMA momentum from 0.996 to 1, layer-normalized
target), without its leaks. The shared forward pass, averaged layers and smooth-L1 follow
data2vec (arXiv 2202.03555; its layers are not those used here, see latent.Latent).
Without EMA but with SIGReg it is LeJEPA (arXiv 2511.08544).
"""

import dataclasses
from typing import Literal

import jax.numpy as jnp

from jepa_text import losses
from jepa_text.models import heads
from jepa_text.objectives.latent.base import LatentObjective, Prediction, parts
from jepa_text.parallel import activations


def make(
    tokenizer,
    length,
    steps,
    mlm: dict | None = None,
    balance: float | dict = 0.5,
    latent: dict | None = None,
    predictor: Literal['mlp', 'transformer'] = 'mlp',
    predictor_width=256,
    predictor_depth=2,
    predictor_heads=4,
):
    """Returns a Hybrid objective from its sections.

    `mlm` is a section of objectives/mlm.py, `latent` one of targets.py (the keywords of
    Latent), `balance` a number or a section of balance.py. Raises ValueError for an
    unknown choice, for a predictor whose width is not a multiple of its heads, and for an
    `mlm` that has no mask tokens, or does not predict tokens there.
    """
    common = dict(tokenizer=tokenizer, length=length, steps=steps)
    made = parts('hybrid', mlm, balance, latent, **common)
    if not made['mlm'].fills:
        raise ValueError(
            'hybrid: mlm.mask_share=0 leaves no mask token whose latent is predicted. '
            'Set it above 0.'
        )
    return Hybrid(
        **made,
        predictor=heads.PredictorSizes(
            predictor, predictor_width, predictor_depth, predictor_heads
        ),
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Hybrid(LatentObjective):
    """Both losses from one forward pass of the encoder."""

    def corrupt(self, example, rng, step=0):
        example = self.mlm.corrupt(example, rng, step)
        is_masked_L = example['loss_mask'] & (example['inputs'] == self.mlm.mask_id)
        return example | {'target_mask': is_masked_L}

    def count_latents(self, batch):
        return jnp.sum(batch['target_mask'])

    def predict(self, params, view, hidden_BLD, selected):
        hidden_BMD, index_BM, where_BM = selected
        batch = view.batch
        where_BM &= jnp.take_along_axis(batch['target_mask'], index_BM, axis=1)
        if self.predictor.kind == 'transformer':
            layout = (batch['segment_ids'], batch['positions'])
            prediction_BLD = view.apply('predictor', params, hidden_BLD, *layout)
            prediction_BMD = losses.take(prediction_BLD, index_BM)
        else:  # It works per position, so it needs only the selected ones.
            taken_BMD = losses.take(hidden_BLD, index_BM)
            prediction_BMD = view.apply('predictor', params, taken_BMD)
        return Prediction(
            prediction_BMD=prediction_BMD,
            target_BMD=losses.take(self.latent.targets(params, view), index_BM),
            where_BM=where_BM,
            regularized_BMD=hidden_BMD,
        )

    def trivial(self, params, view):
        batch = view.batch
        tokens_BM1, index_BM, _ = self.mlm.select(batch['tokens'][..., None], view)
        positions_BM = jnp.take_along_axis(batch['positions'], index_BM, axis=1)
        embedding_VD = params['encoder']['embedding']
        embedding_BMD = activations.embedding_lookup(embedding_VD, tokens_BM1[..., 0])
        return embedding_BMD, positions_BM
