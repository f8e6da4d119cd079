"""Geometry of a set of embeddings: uniformity, rank, spectrum and common directions.

Each measure takes an array of embeddings, one per row, or a `cloud.Cloud`, which lets
measures share their work, and returns a float. `METRICS` names the measures of one cloud;
`summary` computes them all. `forms.summary` also applies each to centered, whitened and
length-residualized rows, because the raw uniformity of an untrained encoder mainly
measures sentence length. No number here shows that an embedding is useful: compare each
with its controls.

Degenerate clouds have values, not NaN. Singular values below the rounding error of the
rows count as zero, and a cloud without variance (all rows equal for the centered
measures, all rows zero for the others) has rank 0, entropy 0, anisotropy 1 and dimension
0. A zero row has no direction: its cosine with all other rows is 0.

Most measures depend on the number of rows: ranks grow with it. Compare only clouds with
the same number of rows.
Uniformity, mean cosine, anisotropy and alignment are means, which only become more
precise with more rows.

To add a measure, write a function of `rows` here and add it to METRICS.
"""

import numpy as np
import scipy

from jepa_text.measures import cloud


def uniformity(rows):
    """Returns log mean_{i<j} exp(-2 |z_i - z_j|^2) of unit rows.

    The uniformity of Wang & Isola 2020 with t = 2. 0 if all rows point in the same
    direction; about -4 (exactly log E exp(-4 + 4 cos)) if they are spread evenly in many
    dimensions.

    >>> uniformity([[2.0, 0.0], [-5.0, 0.0]])
    -8.0
    """
    return float(np.log(cloud.as_cloud(rows).require_pairs('Uniformity').pairs.kernel))


def alignment(first_ND, second_ND):
    """Returns mean_i |x_i - y_i|^2 of pairs of unit rows (Wang & Isola 2020).

    Row i of both is a positive pair. Raises ValueError if the shapes differ.

    >>> alignment([[1.0, 0.0]], [[-2.0, 0.0]])
    4.0
    """
    first, second = cloud.as_cloud(first_ND), cloud.as_cloud(second_ND)
    if first.rows_ND.shape != second.rows_ND.shape:
        raise ValueError(
            'Alignment compares row i with row i, but the shapes differ: '
            f'{first.rows_ND.shape} and {second.rows_ND.shape}.'
        )
    all_N = np.arange(len(first))
    difference_ND = first.unit(all_N) - second.unit(all_N)
    square_N = np.einsum('ND,ND->N', difference_ND, difference_ND, dtype=np.float64)
    return float(square_N.mean())


def centered_singular_values(rows):
    """Returns the singular values of the rows minus their mean, descending.

    >>> centered_singular_values([[1.0, 7.0], [-1.0, 7.0]]).round(3).tolist()
    [1.414, 0.0]
    """
    return np.sqrt(cloud.as_cloud(rows).values_K)


def eigenspectrum(rows):
    """Returns the variances along the principal directions, descending: s^2 / (N - 1).

    >>> eigenspectrum([[1.0, 7.0], [-1.0, 7.0]]).round(3).tolist()
    [2.0, 0.0]
    """
    rows = cloud.as_cloud(rows)
    return rows.values_K / max(len(rows) - 1, 1)


def effective_rank(rows):
    """Returns exp(-sum_k q_k log q_k), q_k = s_k / sum s, of the centered rows.

    The effective rank of Roy & Vetterli 2007, between 1 and the rank; 0 if all rows are
    equal.

    >>> round(effective_rank(np.concatenate([np.eye(3), -np.eye(3)])), 6)
    3.0
    """
    return _exp_entropy(centered_singular_values(rows))


def rankme(rows):
    """Returns RankMe (Garrido et al. 2023): the effective rank of the rows, not centered.

    The paper's 1e-7 inside the logarithm is omitted: zero singular values contribute
    nothing.

    >>> round(rankme(np.eye(3)), 6)
    3.0
    """
    return _exp_entropy(np.sqrt(cloud.as_cloud(rows).raw_values_K))


def spectral_entropy(rows):
    """Returns -sum_k p_k log p_k / log min(N, D), p_k = s_k^2 / sum s^2, centered rows.

    Between 0 and 1.

    >>> round(spectral_entropy(np.concatenate([np.eye(3), -np.eye(3)])), 6)
    1.0
    """
    values_K = cloud.as_cloud(rows).values_K
    if values_K.size < 2:
        return 0.0
    return _entropy(values_K) / float(np.log(values_K.size))


def stable_rank(rows):
    """Returns sum s^2 / s_1^2 = |Z|_F^2 / |Z|_2^2 of the centered rows.

    After Rudelson & Vershynin 2007.

    >>> round(stable_rank([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), 6)
    1.25
    """
    values_K = cloud.as_cloud(rows).values_K
    return float(values_K.sum() / values_K[0]) if values_K[0] > 0 else 0.0


def rank90(rows):
    """Returns the smallest number of principal directions with 90 % of the variance.

    >>> rank90(np.concatenate([np.eye(10), -np.eye(10)]))
    9
    """
    values_K = cloud.as_cloud(rows).values_K
    # A cumulative share of exactly 0.9 suffices even if it is rounded down.
    wanted = (0.9 - 1e-12) * values_K.sum()
    return int(np.sum(np.cumsum(values_K) < wanted)) + 1 if wanted > 0 else 0


def participation_ratio(rows):
    """Returns (sum l)^2 / sum l^2 of the covariance's eigenvalues l (Gao et al. 2017).

    >>> round(participation_ratio([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), 4)
    1.4706
    """
    values_K = cloud.as_cloud(rows).values_K
    square = np.sum(values_K**2)
    return float(values_K.sum() ** 2 / square) if square > 0 else 0.0


def anisotropy(rows):
    """Returns s_1^2 / sum s^2 of the raw rows, the share of the strongest direction.

    The maximum explainable variance of Ethayarajh (2019), from 1 / min(N, D) to 1.

    >>> round(anisotropy(np.eye(4)), 6)
    0.25
    """
    values_K = cloud.as_cloud(rows).raw_values_K
    return float(values_K[0] / values_K.sum()) if values_K[0] > 0 else 1.0


def mean_cosine(rows):
    """Returns mean_{i<j} cos(z_i, z_j) of all pairs; 1 if all rows point the same way.

    >>> mean_cosine([[1.0, 0.0], [0.0, 3.0]])
    0.0
    """
    rows = cloud.as_cloud(rows).require_pairs('The mean cosine')
    count = len(rows)
    scale_N = 1 / np.where(rows.norm_N > 0, rows.norm_N, 1.0)
    sum_D = scale_N @ rows.rows_ND
    # |sum z|^2 contains each pair twice and each row with itself once.
    pairs = np.sum(sum_D**2) - np.count_nonzero(rows.norm_N)
    return float(pairs / (count * (count - 1)))


METRICS = {
    'uniformity': uniformity,
    'mean_cosine': mean_cosine,
    'anisotropy': anisotropy,
    'effective_rank': effective_rank,
    'rankme': rankme,
    'stable_rank': stable_rank,
    'rank90': rank90,
    'participation_ratio': participation_ratio,
    'spectral_entropy': spectral_entropy,
}


# Fewer rows than these give values that say nothing about them: any two rows have one
# direction in common after centering. Of other measures: 3.
NEEDED_ROWS = {'uniformity': 2, 'mean_cosine': 2}


def summary(rows, metrics=None):
    """Returns {name: value} of one cloud, for `METRICS` unless others are given.

    Raises ValueError for fewer rows than a measure needs (NEEDED_ROWS).

    >>> metrics = {'uniformity': uniformity}
    >>> summary([[2.0, 0.0], [-5.0, 0.0]], metrics)['uniformity']
    -8.0
    """
    rows = cloud.as_cloud(rows).require_pairs('Geometry')
    metrics = METRICS if metrics is None else metrics
    needed = {name: NEEDED_ROWS.get(name, 3) for name in metrics}
    if lacking := [name for name, count in needed.items() if count > len(rows)]:
        listed = ', '.join(f'{name} {needed[name]}' for name in lacking)
        raise ValueError(
            f'Of {len(rows)} rows these measures would say nothing; they need at least '
            f'as many as here: {listed}. Give more rows, or the `metrics` to measure.'
        )
    return {name: measure(rows) for name, measure in metrics.items()}


def is_collapsed(uniformity, effective_rank):
    """Returns whether vectors have collapsed, so that they carry no information.

    True if all are nearly equal (mean squared distance of unit rows below about 0.0005),
    if they lie on a line, or if a value is NaN, whatever other scores say.

    >>> is_collapsed(-1.5, 40.0), is_collapsed(-1e-6, 40.0), is_collapsed(-1.5, 1.0)
    (False, True, True)
    """
    return not (uniformity < -1e-3 and effective_rank >= 1.5)


def _entropy(weights):
    """Returns the entropy of weights, of which the first is the largest; 0 if it is 0."""
    shares = weights / weights.sum() if weights[0] > 0 else weights
    return float(scipy.special.entr(shares).sum())


def _exp_entropy(weights):
    return float(np.exp(_entropy(weights))) if weights[0] > 0 else 0.0
