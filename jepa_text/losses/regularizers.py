"""Regularizers against collapse: the distance of N vectors from an isotropic Gaussian.

    random_directions   projections for sigreg                       -> directions_DR
    sigreg              compares characteristic functions with the Gaussian's
    vicreg_variance     penalizes coordinates with a small standard deviation
    vicreg_covariance   penalizes correlated coordinates

Depends only on jax. Each function except the first maps embeddings_ND, and optionally a
mask where_N of the rows that count, to one float32 scalar; bfloat16 input is accepted.
The N vectors must be independent: pooled rows, or a few tokens per row, because
neighboring tokens are similar and do not add evidence. All functions are safe under jit,
grad and vmap. Masked-out rows, even NaN, affect neither values nor gradients. Without any
true row the value is 0 with zero gradients.

A low value does not show that the vectors contain useful information: keep a loss on
tokens as well.
"""

import jax
import jax.numpy as jnp
from jax import Array

from jepa_text.losses import shapes

KNOTS, LIMIT = 17, 3.0  # of sigreg's integral


def random_directions(key: Array, count: int, width: int) -> Array:
    """Returns directions_DR: `count` unit columns, uniform on the sphere, float32.

    Use a new key in each step (fold the step into one key), and the same key on all
    devices.

    >>> directions_DR = random_directions(jax.random.key(0), count=5, width=3)
    >>> directions_DR.shape, jnp.linalg.norm(directions_DR, axis=0).round(4).tolist()
    ((3, 5), [1.0, 1.0, 1.0, 1.0, 1.0])
    """
    directions_DR = jax.random.normal(key, (width, count))
    return directions_DR / jnp.linalg.norm(directions_DR, axis=0, keepdims=True)


def sigreg(
    embeddings_ND: Array, directions_DR: Array, where_N: Array | None = None
) -> Array:
    """SIGReg of LeJEPA (arXiv 2511.08544): the Epps-Pulley test along R directions.

    Returns the mean over directions u of

        N * integral |mean_n exp(i t u.x_n) - exp(-t^2 / 2)|^2 exp(-t^2 / 2) dt

    over [-3, 3], by the trapezoid rule on 17 points of [0, 3], doubled by symmetry, as
    LeJEPA does. It uses a weight of 0.02 to 0.1 and 256 to 1,024 directions per step.

    The value is near 1 for standard normal vectors, whatever N. It is proportional to N
    for N copies of one vector, where its gradient vanishes.

    >>> print(sigreg(jnp.zeros((10, 4)), jnp.eye(4)).round(3))
    4.02
    """
    x_ND, keep_N1, count = _masked(embeddings_ND, where_N)
    x_NR = x_ND @ directions_DR.astype(jnp.float32)
    t_T = jnp.linspace(0, LIMIT, KNOTS)
    # One knot at a time, recomputed in the backward pass, so memory stays at [N, R].
    error_TR = jax.lax.map(
        jax.checkpoint(lambda t: _distance_at(t, x_NR, keep_N1, count)), t_T
    )
    width_T = jnp.full(KNOTS, 2 * LIMIT / (KNOTS - 1)).at[jnp.array([0, -1])].mul(0.5)
    return count * jnp.mean((width_T * _phi(t_T)) @ error_TR)


def vicreg_variance(
    embeddings_ND: Array,
    where_N: Array | None = None,
    target: float = 1.0,
    eps: float = 1e-4,
) -> Array:
    """Returns the mean over D of max(0, target - sqrt(Var + eps)).

    VICReg (arXiv 2105.04906), equation 1. Var divides by N - 1; with fewer than two
    vectors the value is 0. VICReg uses a weight of 25, against 1 for the covariance term.

    >>> print(vicreg_variance(jnp.array([[1.0, 0.0], [1.0, 9.0]])))
    0.495
    """
    x_ND, keep_N1, count = _masked(embeddings_ND, where_N)
    centered_ND = _centered(x_ND, keep_N1, count)
    variance_D = jnp.sum(centered_ND**2, axis=0) / jnp.maximum(count - 1, 1)
    hinge_D = jnp.maximum(target - jnp.sqrt(variance_D + eps), 0)
    return jnp.where(count > 1, jnp.mean(hinge_D), 0.0)


def vicreg_covariance(embeddings_ND: Array, where_N: Array | None = None) -> Array:
    """Returns the sum over i != j of Cov_ij^2, divided by D; Cov divides by N - 1.

    VICReg (arXiv 2105.04906), equations 3 and 4.

    >>> print(vicreg_covariance(jnp.array([[1.0, 1.0], [-1.0, -1.0]])))
    4.0
    """
    x_ND, keep_N1, count = _masked(embeddings_ND, where_N)
    centered_ND = _centered(x_ND, keep_N1, count)
    covariance_DD = centered_ND.T @ centered_ND / jnp.maximum(count - 1, 1)
    width = x_ND.shape[1]
    off_DD = jnp.where(jnp.eye(width, dtype=bool), 0, covariance_DD)
    return jnp.sum(off_DD**2) / width


def _distance_at(t, x_NR, keep_N1, count):
    """Returns |empirical - Gaussian characteristic function|^2 at t, per direction."""

    def mean(wave_NR):
        return jnp.sum(jnp.where(keep_N1, wave_NR, 0), axis=0) / jnp.maximum(count, 1)

    return (mean(jnp.cos(t * x_NR)) - _phi(t)) ** 2 + mean(jnp.sin(t * x_NR)) ** 2


def _phi(t):
    return jnp.exp(-(t**2) / 2)


def _masked(embeddings_ND, where_N):
    """Returns float32 vectors with masked-out rows set to 0, keep_N1, and their count."""
    if embeddings_ND.ndim != 2:
        raise ValueError(
            f'The embeddings have the shape {embeddings_ND.shape}, but must be [N, D]: '
            'pool them, or choose a few tokens of each row.'
        )
    if where_N is None:
        where_N = jnp.ones(len(embeddings_ND), bool)
    shapes.check_mask('where', where_N, jnp.shape(embeddings_ND)[:1])
    keep_N1 = where_N[:, None]
    x_ND = jnp.where(keep_N1, embeddings_ND, 0).astype(jnp.float32)
    return x_ND, keep_N1, jnp.sum(where_N, dtype=jnp.float32)


def _centered(x_ND, keep_N1, count):
    """Returns the vectors minus their mean, with masked-out rows set to 0."""
    mean_1D = jnp.sum(x_ND, axis=0, keepdims=True) / jnp.maximum(count, 1)
    return jnp.where(keep_N1, x_ND - mean_1D, 0)
