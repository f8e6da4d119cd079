"""JEPA + MLM on one masked forward: latent_weight * latent + token_weight * tokens.

The encoder reads the masked row once. At the hidden positions one head names the word,
and a predictor names the vector that the target encoder gives for the clean row. The
latent loss counts only where the input really is the mask token, so nothing can be
copied. Costs about an MLM step and one forward more.

After arXiv 2606.05173 (cosine loss, EMA 0.996 to 1, layer-normalised target), with its
leaks mended; the shared forward, averaged layers and smooth-L1 are after data2vec (arXiv
2202.03555; its layers are not ours, see latent.Latent); without EMA but with SIGReg it is
LeJEPA's (arXiv 2511.08544).
"""

import dataclasses

import jax.numpy as jnp

from jepa_text import losses
from jepa_text.cost import flops
from jepa_text.models import heads, pooling
from jepa_text.objectives.latent import balance as balances
from jepa_text.objectives.latent import targets as latents
from jepa_text.objectives.latent.base import LatentObjective, check, masked
from jepa_text.parallel import sharding


def make(
    tokenizer,
    length,
    steps,
    mlm=None,
    balance=0.5,
    latent=None,
    predictor='mlp',
    predictor_width=256,
    predictor_depth=2,
    predictor_heads=4,
):
    """`mlm` is a section of objectives/mlm.py, `latent` one of targets.py (target, loss,
    momentum, regulariser), `balance` a number or a section of balance.py.

    Raises ValueError for an unknown choice, for a predictor whose heads do not divide
    its width, and for an `mlm` that does not predict words where it masks them.
    """
    check(
        'hybrid',
        predictor_width=predictor_width,
        predictor_depth=predictor_depth,
        predictor_heads=predictor_heads,
    )
    return Hybrid(
        mlm=masked('hybrid', mlm, tokenizer=tokenizer, length=length, steps=steps),
        balance=balances.make(balance, steps),
        latent=latents.make(latent or {}, steps),
        predictor=heads.PredictorSizes(
            predictor, predictor_width, predictor_depth, predictor_heads
        ),
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Hybrid(LatentObjective):
    """Both losses over one forward of the encoder."""

    predictor: heads.PredictorSizes

    def predictor_module(self, encoder):
        return self.predictor.build(encoder.width, encoder.attention)

    @property
    def predicted(self):
        return self.mlm.capacity

    def passes(self, encoder, rows, length):
        whole = self.predictor.kind == 'transformer'
        predictor = flops.Pass(
            name='predictor',
            modules=('predictor',),
            positions=rows * (length if whole else self.predicted),
            attends=length,
        )
        return [*super().passes(encoder, rows, length), predictor]

    def corrupt(self, example, rng, step=0):
        example = self.mlm.corrupt(example, rng, step)
        hidden_L = example['loss_mask'] & (example['inputs'] == self.mlm.mask_id)
        return example | {'target_mask': hidden_L}

    def count_latents(self, batch):
        return jnp.sum(batch['target_mask'])

    def forward(self, params, view):
        hidden_BLD = self.mlm.read(params, view)
        hidden_BMD, index_BM, where_BM = self.mlm.select(hidden_BLD, view)
        token_loss, metrics = self.mlm.score(params, view, hidden_BMD, index_BM, where_BM)
        target_BMD = losses.take(self.latent.targets(params, view), index_BM)
        hidden_BM = jnp.take_along_axis(view.batch['target_mask'], index_BM, axis=1)
        latent_BM = where_BM & hidden_BM
        prediction_BMD = self._predict(params, view, hidden_BLD, index_BM)
        latent_loss, latent_metrics, seen = self.score(
            params, view, prediction_BMD, target_BMD, latent_BM
        )
        rows_BD = pooling.mean(hidden_BLD, view.batch['segment_ids'] > 0)
        terms = {
            'tokens': token_loss,
            'latent': latent_loss,
            **self.penalty(view, hidden_BMD, latent_BM, rows_BD),
        }

        def examine():
            clean_BM = jnp.take_along_axis(view.batch['tokens'], index_BM, axis=1)
            return dict(
                target_BMD=target_BMD,
                embedding_BMD=sharding.look_up(params['encoder']['embedding'], clean_BM),
                positions_BM=jnp.take_along_axis(
                    view.batch['positions'], index_BM, axis=1
                ),
                pooled_BD=rows_BD,
                where_BM=latent_BM,
            )

        return terms, {**metrics, **latent_metrics, **self.named(terms)}, seen, examine

    def _predict(self, params, view, hidden_BLD, index_BM):
        if self.predictor.kind == 'transformer':
            layout = (view.batch['segment_ids'], view.batch['positions'])
            prediction_BLD = view.apply('predictor', params, hidden_BLD, *layout)
            return losses.take(prediction_BLD, index_BM)
        # Position by position, so only where it counts.
        return view.apply('predictor', params, losses.take(hidden_BLD, index_BM))
