"""What a cloud of embeddings looks like: variance, rank, common direction.

Every measure takes an array of embeddings, one a row, or a `cloud.Cloud`, which lets
measures share their work, and returns a float. `METRICS` names those of one cloud, with
those of neighbors.py; `summary` computes them all. `forms.summary` gives each also
centered, whitened and with length taken out, as raw uniformity of an untrained encoder is
a measure of sentence length. No number here says that an embedding is useful: read each
next to its controls.

Degenerate clouds have values, not NaN. Singular values below the rounding error of the
rows count as zero, and a cloud without any variance (all rows equal, for the centered
measures; all rows zero, for the others) has rank 0, entropy 0, anisotropy 1, IsoScore 0,
dimension 0. A zero row has no direction: its cosine with every other row is 0.

Most depend on the number of rows: ranks grow with it, and so does what neighbors say,
up to cloud.BLOCK rows. Compare clouds of as many rows; uniformity, mean cosine,
anisotropy and alignment are means, which only become surer.

To add one: a function of `rows` here, and its line in METRICS.
"""

import numpy as np

from jepa_text.measures import cloud, neighbors


def uniformity(rows):
    """log mean_{i<j} exp(-2 |z_i - z_j|^2) on unit rows (Wang & Isola 2020, t = 2).

    0 when all rows point the same way; about -4 (exactly log E exp(-4 + 4 cos)) when they
    are spread evenly in many dimensions. Beyond cloud.BLOCK rows, of a part of the pairs.

    >>> uniformity([[2.0, 0.0], [-5.0, 0.0]])
    -8.0
    """
    return float(np.log(cloud.of(rows).pairs_needed('Uniformity').pairs.kernel))


def alignment(first_ND, second_ND, alpha=2):
    """mean_i |x_i - y_i|^alpha on unit rows of positive pairs (Wang & Isola 2020).

    >>> alignment([[1.0, 0.0]], [[-2.0, 0.0]])
    4.0
    """
    first, second = cloud.of(first_ND), cloud.of(second_ND)
    if first.rows_ND.shape != second.rows_ND.shape:
        raise ValueError(
            'Alignment compares row i with row i, but the shapes differ: '
            f'{first.rows_ND.shape} and {second.rows_ND.shape}.'
        )
    every_N = np.arange(len(first))
    difference_ND = first.unit(every_N) - second.unit(every_N)
    square_N = np.einsum('ND,ND->N', difference_ND, difference_ND, dtype=np.float64)
    return float(np.mean(square_N ** (alpha / 2)))


def singular_values(rows):
    """The singular values of the rows, largest first; rounding error is set to zero.

    >>> singular_values([[3.0, 0.0], [0.0, 4.0]]).tolist()
    [4.0, 3.0]
    """
    return np.sqrt(cloud.of(rows).raw_values_K)


def centered_singular_values(rows):
    """The singular values of the rows minus their mean, largest first.

    >>> centered_singular_values([[1.0, 7.0], [-1.0, 7.0]]).round(3).tolist()
    [1.414, 0.0]
    """
    return np.sqrt(cloud.of(rows).values_K)


def eigenspectrum(rows):
    """The variances along the principal directions, largest first: s^2 / (N - 1).

    >>> eigenspectrum([[1.0, 7.0], [-1.0, 7.0]]).round(3).tolist()
    [2.0, 0.0]
    """
    rows = cloud.of(rows)
    return rows.values_K / max(len(rows) - 1, 1)


def effective_rank(rows):
    """exp(-sum_k q_k log q_k), q_k = s_k / sum s, centered rows (Roy & Vetterli 2007).

    Between 1 and the rank; 0 for rows that are all equal.

    >>> round(effective_rank(np.concatenate([np.eye(3), -np.eye(3)])), 6)
    3.0
    """
    return _exp_entropy(centered_singular_values(rows))


def rankme(rows):
    """The effective rank of the rows as they are, not centered (Garrido et al. 2023).

    Without the paper's 1e-7 inside the logarithm: zero singular values count nothing.

    >>> round(rankme(np.eye(3)), 6)
    3.0
    """
    return _exp_entropy(singular_values(rows))


def spectral_entropy(rows):
    """-sum_k p_k log p_k / log min(N, D), p_k = s_k^2 / sum s^2, centered rows; 0 to 1.

    >>> round(spectral_entropy(np.concatenate([np.eye(3), -np.eye(3)])), 6)
    1.0
    """
    values_K = cloud.of(rows).values_K
    if values_K.size < 2:
        return 0.0
    return _entropy(_shares(values_K)) / float(np.log(values_K.size))


def stable_rank(rows):
    """sum s^2 / s_1^2 = |Z|_F^2 / |Z|_2^2, centered rows (Rudelson & Vershynin 2007).

    >>> round(stable_rank([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), 6)
    1.25
    """
    values_K = cloud.of(rows).values_K
    return float(values_K.sum() / values_K[0]) if values_K[0] > 0 else 0.0


def rank90(rows):
    """The fewest principal directions that hold 90 % of the variance.

    >>> rank90(np.concatenate([np.eye(10), -np.eye(10)]))
    9
    """
    shares = _shares(cloud.of(rows).values_K)
    # A share of exactly 0.9 is enough even if its sum is rounded down.
    return int(np.sum(np.cumsum(shares) < 0.9 - 1e-12)) + 1 if shares.size else 0


def participation_ratio(rows):
    """(sum l)^2 / sum l^2 over the eigenvalues l of the covariance (Gao et al. 2017).

    >>> round(participation_ratio([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), 4)
    1.4706
    """
    values_K = cloud.of(rows).values_K
    square = np.sum(values_K**2)
    return float(values_K.sum() ** 2 / square) if square > 0 else 0.0


def spectral_slope(rows):
    """a of l_k ~ k^-a: the power law of the eigenspectrum (Agrawal et al. 2022).

    Weighted least squares of log l_k on log k, with weight 1 / k, so that every octave of
    k counts the same; over the larger half of the eigenvalues that are not zero, as the
    tail is sampling noise. 0 when that half has fewer than three.

    >>> rows_ND = np.diag(np.arange(1, 41.0) ** -1.0)
    >>> round(spectral_slope(np.concatenate([rows_ND, -rows_ND])), 6)
    2.0
    """
    values_K = cloud.of(rows).values_K
    values_K = values_K[: np.count_nonzero(values_K) // 2]
    if len(values_K) < 3:
        return 0.0
    rank_K = np.arange(1.0, len(values_K) + 1)
    x_K, y_K = np.log(rank_K), np.log(values_K)
    x_K = x_K - np.average(x_K, weights=1 / rank_K)
    return float(-np.sum(x_K * y_K / rank_K) / np.sum(x_K**2 / rank_K))


def isoscore(rows):
    """IsoScore (Rudman et al. 2022): 1 if all directions vary equally, 0 if one does.

    d = | sqrt(D) l / |l| - 1 | / sqrt(2 (D - sqrt D)) of the D variances l along the
    principal directions; f = (D - d^2 (D - sqrt D))^2 / D^2; (D f - 1) / (D - 1).

    >>> round(isoscore(np.concatenate([np.eye(3), -np.eye(3)])), 6)
    1.0
    """
    rows = cloud.of(rows)
    size, values_K = rows.width, rows.values_K
    norm = np.linalg.norm(values_K)
    if size == 1 or norm == 0:
        return float(norm > 0)
    values_D = np.pad(values_K, (0, size - len(values_K)))
    defect = np.sum((np.sqrt(size) * values_D / norm - 1) ** 2)
    share = (size - defect / 2) ** 2 / size**2
    return float((size * share - 1) / (size - 1))


def anisotropy(rows):
    """s_1^2 / sum s^2 of the rows as they are: the share of the strongest direction.

    The maximum explainable variance of Ethayarajh (2019). 1 / min(N, D) to 1.

    >>> round(anisotropy(np.eye(4)), 6)
    0.25
    """
    values_K = cloud.of(rows).raw_values_K
    return float(values_K[0] / values_K.sum()) if values_K[0] > 0 else 1.0


def mean_cosine(rows):
    """mean_{i<j} cos(z_i, z_j), of all pairs; 1 = all rows point the same way.

    >>> mean_cosine([[1.0, 0.0], [0.0, 3.0]])
    0.0
    """
    rows = cloud.of(rows).pairs_needed('The mean cosine')
    count = len(rows)
    scale_N = 1 / np.where(rows.norm_N > 0, rows.norm_N, 1.0)
    sum_D = sum(
        scale_N[start : start + cloud.CHUNK] @ rows.rows_ND[start : start + cloud.CHUNK]
        for start in range(0, count, cloud.CHUNK)
    )
    # |sum z|^2 holds every pair twice and every row with itself once.
    pairs = np.sum(sum_D**2) - np.count_nonzero(rows.norm_N)
    return float(pairs / (count * (count - 1)))


METRICS = {
    'uniformity': uniformity,
    'mean_cosine': mean_cosine,
    'anisotropy': anisotropy,
    'isoscore': isoscore,
    'effective_rank': effective_rank,
    'rankme': rankme,
    'stable_rank': stable_rank,
    'rank90': rank90,
    'participation_ratio': participation_ratio,
    'spectral_entropy': spectral_entropy,
    'spectral_slope': spectral_slope,
    'intrinsic_dimension': neighbors.intrinsic_dimension,
    'hubness': neighbors.hubness,
}


def summary(rows, metrics=None):
    """{name: value} of one cloud, of `METRICS` unless others are given.

    >>> summary([[2.0, 0.0], [-5.0, 0.0]])['uniformity']
    -8.0
    """
    rows = cloud.of(rows).pairs_needed('Geometry')
    metrics = METRICS if metrics is None else metrics
    return {name: measure(rows) for name, measure in metrics.items()}


def is_collapsed(uniformity, effective_rank):
    """Do the vectors say nothing, whatever else they score? All are nearly equal (mean
    squared distance of unit rows below about 0.0005), or lie on a line, or are NaN.

    >>> is_collapsed(-1.5, 40.0), is_collapsed(-1e-6, 40.0), is_collapsed(-1.5, 1.0)
    (False, True, True)
    """
    return not (uniformity < -1e-3 and effective_rank >= 1.5)


def _shares(weights):
    total = weights.sum()
    kept = weights[weights > 0]
    return kept / total if total > 0 else kept


def _entropy(shares):
    return max(float(-np.sum(shares * np.log(shares))), 0.0)


def _exp_entropy(values):
    shares = _shares(values)
    return float(np.exp(_entropy(shares))) if shares.size else 0.0
