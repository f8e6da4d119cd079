"""Losses: arrays in, one value per position out, float32; someone else averages.

    cross_entropy, z_loss, correct   logits                     [B, M, V] -> [B, M]
    cosine_distance, smooth_l1, mse  two vectors a position     [B, M, D] -> [B, M]
    info_nce                         against all others         [N, D] -> [N]
    prototype_cross_entropy          as two distributions       [B, M, P] -> [B, M]
    update_center                    of the teacher's scores    [P] -> [P]
    layer_normalize                  over the width             [B, M, D] -> the same
    instance_normalize               over a document            [B, L, D] -> the same
    average_layers                   of the last layers         [N, B, L, D] -> [B, L, D]
    unit                             to length 1                [..., D] -> the same
    masked_sum, masked_mean          where a mask is true       any shape -> scalar
    select, take                     the positions of a loss    [B, L, ...] -> [B, M, ...]
    linear_cross_entropy             head and loss as one, gradients included
    cached_value_and_grad            of a batch that is in memory part by part only

Needs only jax. Arrays of any float dtype come in, float32 comes out; labels and indices
are integers, masks are bool. Where an argument is [B, M, ...], any number of axes may
stand for these two, none too. All functions are pure, and safe under jit, grad and vmap:
a masked mean over nothing is 0, with zero gradients. No function stops a gradient: who
calls decides what is a target.
"""

from jepa_text.losses.cached import cached_value_and_grad
from jepa_text.losses.linear_cross_entropy import Split, linear_cross_entropy
from jepa_text.losses.positions import masked_mean, masked_sum, select, take
from jepa_text.losses.tokens import correct, cross_entropy, z_loss
from jepa_text.losses.vectors import (
    average_layers,
    cosine_distance,
    info_nce,
    instance_normalize,
    layer_normalize,
    mse,
    prototype_cross_entropy,
    smooth_l1,
    unit,
    update_center,
)

__all__ = [
    'Split',
    'average_layers',
    'cached_value_and_grad',
    'correct',
    'cosine_distance',
    'cross_entropy',
    'info_nce',
    'instance_normalize',
    'layer_normalize',
    'linear_cross_entropy',
    'masked_mean',
    'masked_sum',
    'mse',
    'prototype_cross_entropy',
    'select',
    'smooth_l1',
    'take',
    'unit',
    'update_center',
    'z_loss',
]
