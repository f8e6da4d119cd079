"""Loss functions: pure functions of arrays that return one float32 value per position.

    cross_entropy, z_loss, correct   of logits                  [B, M, V] -> [B, M]
    cosine_distance, smooth_l1, mse  between pairs of vectors   [B, M, D] -> [B, M]
    info_nce                         contrastive, over N        [N, D] -> [N]
    layer_normalize                  over the width             [B, M, D] -> same shape
    instance_normalize               over each document         [B, L, D] -> same shape
    average_layers                   of the last k layers       [N, B, L, D] -> [B, L, D]
    unit                             scales to length 1         [..., D] -> same shape
    masked_sum, masked_mean          where a mask is true       any shape -> scalar
    select, take                     gather loss positions      [B, L, ...] -> [B, M, ...]
    linear_cross_entropy             fused LM head and loss, with its gradients
    cached_value_and_grad            gradients of a batch that is processed in parts
    regularizers                     a module of terms against collapse

Depends only on jax. Inputs may have any float dtype; outputs are float32. Where an
argument is [B, M, ...], any number of leading axes may replace B and M, including none;
`linear_cross_entropy` needs both, and `instance_normalize` B and L. All are safe under
jit, grad and vmap. The caller averages, and decides what is a target: no function stops
gradients. A masked mean over no positions is 0 with zero gradients. Labels and indices
are integers. ValueError for labels, masks or targets whose shape does not fit, as they do
not broadcast, and for masks that are not bool.
"""

from jepa_text.losses import regularizers as regularizers
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
    smooth_l1,
    unit,
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
    'select',
    'smooth_l1',
    'take',
    'unit',
    'z_loss',
]
