"""Diagnostics of latents: signs of collapse, and both losses' encoder gradients.

They are measured on the device and interpreted as text on the host. Cheap metrics are
computed in each step; the diagnostics of an objective compute `gradients` of both terms
and `latents` with their eigenvalues every hundred steps or so.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import optax

from jepa_text import losses
from jepa_text.settings import schema

GRADIENTS = ('jepa/latent_grad_norm', 'jepa/token_grad_norm', 'jepa/grad_cosine')
LATENTS = (
    'jepa/effective_rank',
    'jepa/rank_share',
    'jepa/pooled_rank',
    'jepa/mean_cosine',
    'jepa/mean_cosine_centered',
    'jepa/trivial_mean',
    'jepa/trivial_embedding',
    'jepa/trivial_position',
)
# Thresholds of the messages.
MIN_GRADIENT = 0.05
MIN_STD = 0.1
MIN_RANK = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The config section `telemetry`."""

    every_steps: int = schema.field(
        100, 'number of steps between diagnostics; 0: none', minimum=0
    )


def gradients(latent, tokens):
    """Returns the GRADIENTS: the norms of both terms' gradients, and their cosine."""
    norms = optax.tree.norm(latent), optax.tree.norm(tokens)
    cosine = optax.tree.vdot(latent, tokens) / jnp.maximum(norms[0] * norms[1], 1e-20)
    return dict(zip(GRADIENTS, (*norms, cosine), strict=True))


def moments(x_BMD, where_BM):
    """Returns the sums over true positions by which `std_of` knows the vectors scaled to
    length 1: of them, of their squares, and of 1. The sums of parts of a batch add up."""
    kept_BMD = jnp.where(where_BM[..., None], losses.unit(x_BMD), 0.0)
    axes = tuple(range(where_BM.ndim))
    return {
        'sum': jnp.sum(kept_BMD, axis=axes),
        'squares': jnp.sum(kept_BMD**2, axis=axes),
        'count': jnp.sum(where_BM, dtype=jnp.float32),
    }


def std_of(moments):
    """Returns the mean over D of sqrt(D) times the standard deviation of unit vectors.

    Near 1 for vectors in all directions, 0 if all have the same direction; NaN for fewer
    than two vectors.
    """
    count = moments['count']
    mean_D = moments['sum'] / count
    variance_D = jnp.maximum(moments['squares'] / count - mean_D**2, 0.0)
    std = jnp.mean(jnp.sqrt(variance_D)) * jnp.sqrt(len(variance_D))
    return jnp.where(count > 1, std, math.nan)


def latents(target_BMD, embedding_BMD, positions_BM, pooled_BD, where_BM):
    """Returns the LATENTS: ranks, cosines, and the scores of three trivial predictors.

    `rank_share` is the rank divided by the highest rank that width and count allow. The
    scores of trivial predictors are mean cosines with the target of: the mean target, the
    embedding of the token at that position, and the mean of other targets at the same
    position in their documents. A predictor that does not exceed them has learned nothing
    about the text. What no target, or pair of targets, has measured is NaN.
    """
    flat_ND = target_BMD.reshape(-1, target_BMD.shape[-1]).astype(jnp.float32)
    where_N, positions_N = where_BM.reshape(-1), positions_BM.reshape(-1)
    all_B = jnp.ones(pooled_BD.shape[:1], bool)
    mean_D = _mean(flat_ND, where_N)
    # Numbered in order, as a position may exceed the number of vectors.
    size = len(flat_ND)
    known_N = jnp.where(where_N, positions_N, 0)
    place_N = jnp.unique(known_N, return_inverse=True, size=size)[1]
    weight_N1 = where_N[:, None].astype(jnp.float32)
    sums_ND = jax.ops.segment_sum(flat_ND * weight_N1, place_N, size)[place_N]
    counts_N1 = jax.ops.segment_sum(weight_N1, place_N, size)[place_N]
    # Leave-one-out: a position that occurs once would otherwise predict itself.
    others_ND = (sums_ND - flat_ND) / jnp.maximum(counts_N1 - 1, 1)
    embedding_ND = embedding_BMD.reshape(flat_ND.shape)
    rank = effective_rank(flat_ND, where_N)
    values = (
        rank,
        rank / jnp.clip(jnp.sum(where_N), 1, flat_ND.shape[1]),
        effective_rank(pooled_BD, all_B),
        _mean_cosine(flat_ND, where_N),
        _mean_cosine(flat_ND - mean_D[None], where_N),
        _agreement(jnp.broadcast_to(mean_D, flat_ND.shape), flat_ND, where_N),
        _agreement(embedding_ND, flat_ND, where_N),
        _agreement(others_ND, flat_ND, where_N & (counts_N1[:, 0] > 1)),
    )
    return dict(zip(LATENTS, values, strict=True))


def effective_rank(x_ND, where_N):
    """Returns exp(entropy of the normalized singular values) of the centered rows.

    The effective rank of Roy & Vetterli 2007, from the covariance: singular values are
    accurate to about 1e-3 of the largest. NaN without rows.
    """
    x_ND = x_ND.astype(jnp.float32)
    kept_ND = jnp.where(where_N[:, None], x_ND - _mean(x_ND, where_N)[None], 0.0)
    square_DD = jnp.einsum('ND,NE->DE', kept_ND, kept_ND, precision='highest')
    values_D = eigenvalues(square_DD)
    is_large_D = values_D > 1e-6 * jnp.max(values_D)
    singular_D = jnp.sqrt(jnp.where(is_large_D, values_D, 0.0))
    share_D = singular_D / jnp.maximum(jnp.sum(singular_D), 1e-20)
    rank = jnp.exp(-jnp.sum(jnp.where(share_D > 0, share_D * jnp.log(share_D), 0.0)))
    return jnp.where(jnp.any(where_N), rank, math.nan)


def eigenvalues(matrix_DD):
    """Returns all D eigenvalues, ascending, float32, accurate to 1e-6 of the largest.

    Computed by LAPACK or cuSOLVER on CPUs and GPUs. XLA's own method on TPUs (QDWH) takes
    four minutes to compile for D = 2,048; `bisected` is used there and compiles in two
    seconds.
    """
    return jax.lax.platform_dependent(
        matrix_DD.astype(jnp.float32), tpu=bisected, default=jnp.linalg.eigvalsh
    )


def bisected(matrix_DD):
    """Eigenvalues by Householder tridiagonalization and Sturm sequences.

    Each of D - 2 reflections H = I - 2 v v^T brings one column into tridiagonal form by H
    A H = A - v w^T - w v^T, with w = 2 A v - 2 (v^T A v) v (Golub and Van Loan 2013,
    8.3.1).
    """
    rows_D = jnp.arange(len(matrix_DD))
    # Scaled to entries near 1: squares of the small entries of a collapsed encoder would
    # underflow.
    scale = jnp.max(jnp.abs(matrix_DD))
    scale = jnp.where(scale > 0, scale, 1.0)

    def reflect(column, matrix_DD):
        below_D = jnp.where(rows_D > column, matrix_DD[:, column], 0.0)
        # Far below float32's precision of the largest; their squares may underflow.
        below_D = jnp.where(jnp.abs(below_D) < 1e-15, 0.0, below_D)
        first = below_D[column + 1]
        length = jnp.where(first < 0, -1.0, 1.0) * jnp.linalg.norm(below_D)
        v_D = below_D.at[column + 1].add(length)
        # A column of zeros needs no reflection: v = 0 changes nothing.
        v_D = v_D / jnp.maximum(jnp.linalg.norm(v_D), 1e-30)
        product_D = jnp.dot(matrix_DD, v_D, precision='highest')
        w_D = 2 * product_D - 2 * jnp.vdot(v_D, product_D, precision='highest') * v_D
        return matrix_DD - v_D[:, None] * w_D[None] - w_D[:, None] * v_D[None]

    matrix_DD = jax.lax.fori_loop(0, len(matrix_DD) - 2, reflect, matrix_DD / scale)
    return scale * jax.scipy.linalg.eigh_tridiagonal(
        jnp.diag(matrix_DD), jnp.diag(matrix_DD, -1), eigvals_only=True
    )


def notes(values, has_ema=True):
    """Returns {kind: description}: signs of collapse, and other observations.

    Only targets collapse: predictions are near their mean at a healthy start, and a
    weight is not a vector. Metrics that are missing or NaN were not measured and do not
    count. `has_ema` is whether the target is an EMA copy, which may be slowed down.
    """
    messages, slow = {}, ' slow the EMA,' if has_ema else ''
    std = values.get('jepa/target_std', math.nan)
    if std < MIN_STD:
        messages['target_std'] = (
            f'the targets have nearly collapsed to one vector (jepa/target_std '
            f'{std:.3f} < {MIN_STD}). Lower lambda,{slow} or add a regularizer or '
            'weight to it.'
        )
    if values.get('jepa/rank_share', math.nan) < MIN_RANK:
        messages['rank'] = (
            f'the targets span {values["jepa/effective_rank"]:.1f} directions, less than '
            f'{MIN_RANK:.0%} of their width: dimensional collapse. Add a regularizer, '
            'or lower lambda.'
        )
    weight = values.get('jepa/lambda', math.nan)
    norms = {
        'latent': weight * values.get(GRADIENTS[0], math.nan),
        'token': (1 - weight) * values.get(GRADIENTS[1], math.nan),
    }
    for name, norm in norms.items():
        # At 0 or 1 a loss is switched off on purpose.
        if 0 < weight < 1 and norm < MIN_GRADIENT * sum(norms.values()):
            messages[f'{name} gradient'] = (
                f'the {name} loss has {norm / sum(norms.values()):.1%} of the encoder '
                f'gradient, less than {MIN_GRADIENT:.0%}: it only trains its own head.'
            )
    std = values.get('jepa/prediction_std', math.nan)
    if std < MIN_STD:
        messages['prediction_std'] = (
            f'the predictions are nearly one vector (jepa/prediction_std '
            f'{std:.3f} < {MIN_STD}): the predictor only predicts the mean of the '
            'targets.'
        )
    return messages


def _mean(x_ND, where_N):
    total_D = jnp.sum(jnp.where(where_N[:, None], x_ND, 0.0), axis=0)
    return total_D / jnp.maximum(jnp.sum(where_N), 1)


def _agreement(first_ND, second_ND, where_N):
    cosine_N = 1 - losses.cosine_distance(first_ND, second_ND)
    mean = losses.masked_mean(cosine_N, where_N)
    return jnp.where(jnp.any(where_N), mean, math.nan)


def _mean_cosine(x_ND, where_N):
    """Returns the mean cosine over pairs: (|sum of unit vectors|^2 - N) / (N (N - 1))."""
    unit_ND = jnp.where(where_N[:, None], losses.unit(x_ND), 0.0)
    count = jnp.sum(where_N, dtype=jnp.float32)
    total = jnp.sum(jnp.sum(unit_ND, axis=0) ** 2)
    mean = (total - jnp.sum(unit_ND**2)) / (count * (count - 1))
    return jnp.where(count > 1, mean, math.nan)
