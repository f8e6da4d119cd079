"""Standardized inputs of the head of a frozen encoder.

    training    head((features - mean) / deviation)
    result      folded head(features), which gives the same outputs

Features of encoders often have a few dimensions far from zero, whose size says nothing of
how much they differ between texts. Without standardization, a head learns little of the
others in a few hundred steps (docs/examination.md).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

MOMENTS = 'moments'  # their place beside the frozen parameters


class Moments(NamedTuple):
    """Mean and standard deviation of each feature, float32 [D]; 1 for constant ones."""

    mean_D: np.ndarray
    deviation_D: np.ndarray


def moments(features):
    """Returns the Moments of an iterable of arrays [D] or [L, D], in one pass.

    Parts are combined in float64 by the rule of Chan, Golub and LeVeque (1983), so that
    large means do not cancel.
    """
    count, mean_D, square_D = 0, 0.0, 0.0
    for part in features:
        part_ND = np.asarray(part, np.float64).reshape(-1, np.shape(part)[-1])
        more, its_D = len(part_ND), part_ND.mean(axis=0)
        apart_D, total = its_D - mean_D, count + more
        square_D = square_D + ((part_ND - its_D) ** 2).sum(axis=0)
        square_D = square_D + apart_D**2 * (count * more / total)
        mean_D, count = mean_D + apart_D * (more / total), total
    deviation_D = np.sqrt(square_D / count)
    # Rounding leaves a constant of any size with a deviation of its last digits.
    is_constant_D = deviation_D <= 1e-6 * np.abs(mean_D)
    deviation_D = np.where(is_constant_D, 1.0, deviation_D)
    return Moments(mean_D.astype(np.float32), deviation_D.astype(np.float32))


def with_features(network, kind, params, batch, shared):
    """Returns the batch with standardized features, computed unless it has them."""
    moments, features = shared[MOMENTS], batch.get('features')
    if features is None:
        features = kind.features(network, params, batch)
    mean, deviation = (jnp.broadcast_to(x_D, features.shape) for x_D in moments)
    features = (features.astype(jnp.float32) - mean) / deviation
    return {**batch, 'features': features}


def folded(head, moments):
    """Returns the parameters of a head for features that are not standardized.

    Its first layer is linear: kernel' = kernel / deviation, and
    bias' = bias - mean @ kernel'. The result is float32.
    """
    name = 'dense' if 'dense' in head else 'classifier'
    head = jax.tree.map(lambda x: x.astype(jnp.float32), head)
    kernel = head[name]['kernel'] / moments.deviation_D[:, None]
    with jax.default_matmul_precision('highest'):
        bias = head[name]['bias'] - moments.mean_D @ kernel
    return {**head, name: {'kernel': kernel, 'bias': bias}}
