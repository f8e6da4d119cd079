"""I-JEPA on text, and MLM: a context with the targets cut out, not masked.

The encoder reads only the kept positions of a row; a predictor gets its vectors and a
learned query at every target position, and must name the vectors that the target
encoder gives for the whole clean row. Context and targets never overlap, and nothing
reads the targets' tokens. Several contexts share one target forward (data2vec 2.0).

This is what arXiv 2606.05173 describes (I-JEPA's blocks, arXiv 2301.08243), with the
faults of its code mended: no leak, no padding, fixed shapes, validity masks.
"""

import dataclasses
import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from einops import rearrange, repeat

from jepa_text import losses
from jepa_text.cost import flops
from jepa_text.data.masking import blocks
from jepa_text.data.masking import tokens as token_masks
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
    masks=2,
    target_blocks=2,
    target_scale=(0.1, 0.25),
    context_scale=(0.65, 0.85),
    min_keep=4,
    balance=0.5,
    latent=None,
    predictor_width=192,
    predictor_depth=2,
    predictor_heads=4,
):
    """`masks` contexts a row, each of `context_scale` of a document less its
    `target_blocks` blocks of `target_scale`; `min_keep` positions are always kept.

    `mlm`, `latent` and `balance` as in objectives/hybrid.py. Raises ValueError for
    scales out of range and for a predictor whose heads do not divide its width.
    """
    check(
        'ijepa',
        masks=masks,
        predictor_width=predictor_width,
        predictor_depth=predictor_depth,
        predictor_heads=predictor_heads,
    )
    options = dict(
        count=target_blocks,
        target_scale=tuple(target_scale),
        context_scale=tuple(context_scale),
        min_keep=min_keep,
    )
    # Raises now, rather than in a thread of the pipeline, what is wrong with them.
    probe_L = np.ones(length, bool)
    blocks.several(probe_L, np.random.default_rng(0), probe_L.astype(int), 1, **options)
    # Each of a handful of short documents rounds its blocks up: room for eight.
    kept = blocks.capacity(max(context_scale), length, documents=8)
    hidden = blocks.capacity(min(1.0, target_blocks * max(target_scale)), length, 8)
    return IJEPA(
        mlm=masked('ijepa', mlm, tokenizer=tokenizer, length=length, steps=steps),
        balance=balances.make(balance, steps),
        latent=latents.make(latent or {}, steps),
        predictor=heads.PredictorSizes(
            'transformer', predictor_width, predictor_depth, predictor_heads
        ),
        masks=masks,
        options=options,
        kept=kept,
        hidden=hidden,
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class IJEPA(LatentObjective):
    """A forward of the masked row for MLM, and of each context for the latents."""

    predictor: heads.PredictorSizes
    masks: int
    options: Any
    kept: int
    hidden: int

    def predictor_module(self, encoder):
        return heads.BlockPredictor(
            encoder.width,
            self.predictor.hidden,
            self.predictor.depth,
            self.predictor.heads,
            attention=encoder.attention,
        )

    @property
    def predicted(self):
        return self.masks * self.hidden

    def passes(self, encoder, rows, length):
        contexts, read, both = rows * self.masks, self.kept, self.kept + self.hidden
        predictor = functools.partial(flops.Pass, name='predictor')
        return [
            *super().passes(encoder, rows, length),
            flops.Pass(
                name='contexts',
                modules=('encoder',),
                positions=contexts * read,
                attends=flops.attended(encoder, read, causal=False),
            ),
            predictor(modules=('predictor/enter',), positions=contexts * read),
            predictor(
                modules=('predictor/layer_*',), positions=contexts * both, attends=both
            ),
            predictor(modules=('predictor/leave',), positions=contexts * self.hidden),
        ]

    def corrupt(self, example, rng, step=0):
        tokens_L, segments_L = example['tokens'], example['segment_ids']
        # First, so that it hides what MLM alone would.
        row = self.mlm.corrupt(example, rng, step)
        valid_L = token_masks.maskable(tokens_L, segments_L, self.mlm.special_ids)
        contexts_CL, targets_CL = blocks.several(
            valid_L, rng, segments_L, self.masks, **self.options
        )
        context_CK, context_ok_CK = blocks.kept_indices(contexts_CL, self.kept, rng)
        target_CM, target_ok_CM = blocks.kept_indices(targets_CL, self.hidden, rng)
        return row | {
            'context': context_CK,
            'context_ok': context_ok_CK,
            'target': target_CM,
            'target_ok': target_ok_CM,
        }

    def count_latents(self, batch):
        return jnp.sum(batch['target_ok'])

    def forward(self, params, view):
        batch = view.batch
        hidden_BLD = self.mlm.read(params, view)
        token_loss, metrics = self.mlm.score(
            params, view, *self.mlm.select(hidden_BLD, view)
        )
        context_XK, context_at = self._gather('context', batch)
        target_XM, target_at = self._gather('target', batch)
        tokens_XL = repeat(batch['tokens'], 'B L -> (B C) L', C=self.masks)
        read_XKD = view.apply(
            'encoder',
            params,
            jnp.take_along_axis(tokens_XL, context_XK, axis=1),
            *context_at,
            causal=False,
            gaps=True,
        )
        prediction_XMD = view.apply(
            'predictor', params, read_XKD, *context_at, *target_at
        )
        target_BLD = self.latent.targets(params, view)
        targets_XLD = repeat(target_BLD, 'B L D -> (B C) L D', C=self.masks)
        target_XMD = losses.take(targets_XLD, target_XM)
        where_XM = rearrange(batch['target_ok'], 'B C M -> (B C) M')
        latent_loss, latent_metrics, seen = self.score(
            params, view, prediction_XMD, target_XMD, where_XM
        )
        rows_XD = pooling.mean(read_XKD, context_at[0] > 0)
        terms = {
            'tokens': token_loss,
            'latent': latent_loss,
            **self.penalty(view, prediction_XMD, where_XM, rows_XD),
        }

        def examine():
            tokens_XM = jnp.take_along_axis(tokens_XL, target_XM, axis=1)
            return dict(
                target_BMD=target_XMD,
                embedding_BMD=sharding.look_up(params['encoder']['embedding'], tokens_XM),
                positions_BM=target_at[1],
                pooled_BD=pooling.mean(hidden_BLD, batch['segment_ids'] > 0),
                where_BM=where_XM,
            )

        return terms, {**metrics, **latent_metrics, **self.named(terms)}, seen, examine

    def _gather(self, kind, batch):
        """The indices of one kind, contexts merged into the batch; and their segment ids
        (0 where the index is only filling) and positions."""
        index_XK = rearrange(batch[kind], 'B C K -> (B C) K')
        ok_XK = rearrange(batch[f'{kind}_ok'], 'B C K -> (B C) K')
        segments_XL, positions_XL = (
            repeat(batch[key], 'B L -> (B C) L', C=self.masks)
            for key in ('segment_ids', 'positions')
        )
        segments_XK = jnp.take_along_axis(segments_XL, index_XK, axis=1)
        positions_XK = jnp.take_along_axis(positions_XL, index_XK, axis=1)
        return index_XK, (jnp.where(ok_XK, segments_XK, 0), positions_XK)
