"""I-JEPA on text, with MLM: predicts the latents of blocks cut out of the context.

The encoder reads only the kept positions of a row. The predictor gets their hidden states
and a learned query at each target position, and predicts the vectors that the target
encoder gives for the whole clean row. Context and targets never overlap, and nothing
reads the targets' tokens. Several contexts share one forward pass of the target encoder
(data2vec 2.0).

This is the method that arXiv 2606.05173 describes (I-JEPA's blocks, arXiv 2301.08243),
without the errors of its code: no leaks, no padding, fixed shapes, validity masks.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from einops import rearrange, repeat

from jepa_text import losses
from jepa_text.data.masking import blocks
from jepa_text.data.masking import tokens as token_masks
from jepa_text.models import heads
from jepa_text.objectives.base import check_pair
from jepa_text.objectives.latent.base import WITHOUT, LatentObjective, Prediction, parts
from jepa_text.parallel import activations
from jepa_text.settings import ranges


def make(
    tokenizer,
    length,
    steps,
    mlm: dict | None = None,
    masks=2,
    target_blocks=2,
    target_scale=(0.1, 0.25),
    context_scale=(0.65, 0.85),
    min_keep=4,
    balance: float | dict = 0.5,
    latent: dict | None = None,
    predictor_width=192,
    predictor_depth=2,
    predictor_heads=4,
):
    """Returns an IJEPA objective with `masks` contexts per row.

    Each context has `context_scale` of a document minus its `target_blocks` blocks of
    `target_scale`; at least `min_keep` positions are kept. Documents that are too short
    for a target are counted in jepa/documents_without_target, and positions beyond the
    fixed shapes in jepa/dropped_positions. `mlm`, `latent` and `balance` are as in
    objectives/hybrid.py. Raises ValueError for options out of range and for a predictor
    whose width is not a multiple of its heads.
    """
    # Each costs a forward pass; arXiv 2606.05173 uses 1, 2 or 4.
    ranges.number('ijepa: masks', masks, whole=True, minimum=1, maximum=16)
    ranges.number('ijepa: target_blocks', target_blocks, whole=True, minimum=1)
    ranges.number('ijepa: min_keep', min_keep, whole=True, minimum=1, below=length)
    check_pair('ijepa: target_scale', target_scale, above=0, maximum=1)
    check_pair('ijepa: context_scale', context_scale, above=0, maximum=1)
    options = dict(
        count=target_blocks,
        target_scale=tuple(target_scale),
        context_scale=tuple(context_scale),
        min_keep=min_keep,
    )
    # Blocks are rounded up in each short document: reserve space for eight of them.
    kept = blocks.capacity(max(context_scale), length, documents=8)
    hidden = blocks.capacity(min(1.0, target_blocks * max(target_scale)), length, 8)
    common = dict(tokenizer=tokenizer, length=length, steps=steps)
    return IJEPA(
        **parts('ijepa', mlm, balance, latent, **common),
        predictor=heads.PredictorSizes(
            'block', predictor_width, predictor_depth, predictor_heads
        ),
        masks=masks,
        options=options,
        kept=kept,
        hidden=hidden,
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class IJEPA(LatentObjective):
    """Runs the encoder on the masked row for MLM, and on each context for the latents."""

    masks: int
    options: Any
    kept: int
    hidden: int

    def corrupt(self, example, rng, step=0):
        tokens_L, segments_L = example['tokens'], example['segment_ids']
        # MLM comes first, so that it masks the same tokens as MLM alone.
        row = self.mlm.corrupt(example, rng, step)
        valid_L = token_masks.maskable(tokens_L, segments_L, self.mlm.special_ids)
        contexts_CL, targets_CL = blocks.several(
            valid_L, rng, segments_L, self.masks, **self.options
        )
        context_CK, context_ok_CK = blocks.kept_indices(contexts_CL, self.kept, rng)
        target_CM, target_ok_CM = blocks.kept_indices(targets_CL, self.hidden, rng)
        drawn, kept = (contexts_CL, targets_CL), (context_ok_CK, target_ok_CM)
        dropped = sum(x.sum() for x in drawn) - sum(x.sum() for x in kept)
        return row | {
            'untargeted': _untargeted(targets_CL, segments_L),
            'dropped_positions': np.array(dropped, np.int32),
            'context': context_CK,
            'context_ok': context_ok_CK,
            'target': target_CM,
            'target_ok': target_ok_CM,
        }

    def count_latents(self, batch):
        return jnp.sum(batch['target_ok'])

    def left_out(self, batch):
        untargeted, dropped = (
            jnp.sum(batch[key], dtype=jnp.float32)
            for key in ('untargeted', 'dropped_positions')
        )
        return {WITHOUT: untargeted / self.masks, 'jepa/dropped_positions': dropped}

    def predict(self, params, view, hidden_BLD, selected):
        batch = view.batch
        context_XK, context_at = self._gather('context', batch)
        target_XM, target_at = self._gather('target', batch)
        tokens_XL = repeat(batch['tokens'], 'B L -> (B C) L', C=self.masks)
        with jax.named_scope('contexts'):
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
        ok_XM = rearrange(batch['target_ok'], 'B C M -> (B C) M')
        return Prediction(
            prediction_BMD=prediction_XMD,
            target_BMD=losses.take(targets_XLD, target_XM),
            where_BM=ok_XM,
            regularized_BMD=prediction_XMD,
        )

    def trivial(self, params, view):
        target_XM, (_, positions_XM) = self._gather('target', view.batch)
        tokens_XL = repeat(view.batch['tokens'], 'B L -> (B C) L', C=self.masks)
        tokens_XM = jnp.take_along_axis(tokens_XL, target_XM, axis=1)
        embedding_VD = params['encoder']['embedding']
        return activations.embedding_lookup(embedding_VD, tokens_XM), positions_XM

    def _gather(self, kind, batch):
        """Returns indices of 'context' or 'target', and their (segment ids, positions).

        Contexts are merged into the batch axis. Segment ids are 0 where an index is
        padding.
        """
        index_XK = rearrange(batch[kind], 'B C K -> (B C) K')
        ok_XK = rearrange(batch[f'{kind}_ok'], 'B C K -> (B C) K')
        segments_XL, positions_XL = (
            repeat(batch[key], 'B L -> (B C) L', C=self.masks)
            for key in ('segment_ids', 'positions')
        )
        segments_XK = jnp.take_along_axis(segments_XL, index_XK, axis=1)
        positions_XK = jnp.take_along_axis(positions_XL, index_XK, axis=1)
        return index_XK, (jnp.where(ok_XK, segments_XK, 0), positions_XK)


def _untargeted(targets_CL, segments_L):
    """Returns the number of documents without a target, summed over the contexts."""
    context_N, position_N = np.nonzero(targets_CL)
    has_target = np.zeros((len(targets_CL), segments_L.max() + 1), bool)
    has_target[:, 0] = True  # padding
    has_target[context_N, segments_L[position_N]] = True
    return np.array((~has_target).sum(), np.int32)
