"""What a cloud of embeddings looks like: spread, rank, common direction.

numpy float64 throughout; one embedding a row. No number here says that an embedding is
useful: an untrained encoder can look well spread (its lengths leak through the mean), so
read every value next to that of the untrained encoder.

Degenerate clouds have values, not NaN. Singular values below the rounding error of the
rows count as zero, and a cloud without any spread (all rows equal, for the centred
measures; all rows zero, for the others) has rank 0, entropy 0 and anisotropy 1. A zero
row has no direction: its cosine with every other row is 0.
"""

import numpy as np

_ROWS = 1024  # rows of the Gram matrix held at a time


def uniformity(embeddings_ND):
    """log mean_{i<j} exp(-2 |z_i - z_j|^2) on unit rows (Wang & Isola 2020, t = 2).

    0 when all rows point the same way; about -4 (exactly log E exp(-4 + 4 cos)) when they
    are spread evenly in many dimensions.
    """
    unit_ND = _unit(_checked(embeddings_ND, rows=2))
    square_N = np.einsum('nd,nd->n', unit_ND, unit_ND)
    count = len(unit_ND)
    total = 0.0
    for start in range(0, count, _ROWS):
        rows = slice(start, start + _ROWS)
        gram_MN = unit_ND[rows] @ unit_ND.T
        distance_MN = square_N[rows, None] + square_N[None, :] - 2 * gram_MN
        kernel_MN = np.exp(-2 * np.maximum(distance_MN, 0))
        total += kernel_MN.sum() - np.trace(kernel_MN[:, rows])
    return float(np.log(total / (count * (count - 1))))


def alignment(first_ND, second_ND, alpha=2):
    """mean_i |x_i - y_i|^alpha on unit rows of positive pairs (Wang & Isola 2020)."""
    first_ND, second_ND = _checked(first_ND), _checked(second_ND)
    if first_ND.shape != second_ND.shape:
        raise ValueError(
            'Alignment compares row i with row i, but the shapes differ: '
            f'{first_ND.shape} and {second_ND.shape}.'
        )
    distance_N = np.linalg.norm(_unit(first_ND) - _unit(second_ND), axis=1)
    return float(np.mean(distance_N**alpha))


def singular_values(embeddings_ND):
    """The singular values of the rows, largest first; rounding error is set to zero."""
    embeddings_ND = _checked(embeddings_ND)
    return _spectrum(embeddings_ND, np.linalg.norm(embeddings_ND))


def centred_singular_values(embeddings_ND):
    """The singular values of the rows minus their mean, largest first."""
    embeddings_ND = _checked(embeddings_ND)
    return _spectrum(_centred(embeddings_ND), np.linalg.norm(embeddings_ND))


def effective_rank(embeddings_ND):
    """exp(-sum_k q_k log q_k), q_k = s_k / sum s, centred rows (Roy & Vetterli 2007).

    Between 1 and the rank; 0 for rows that are all equal.
    """
    return _exp_entropy(centred_singular_values(embeddings_ND))


def rankme(embeddings_ND):
    """The effective rank of the rows as they are, not centred (Garrido et al. 2023).

    Without the paper's 1e-7 inside the logarithm: zero singular values count nothing.
    """
    return _exp_entropy(singular_values(embeddings_ND))


def spectral_entropy(embeddings_ND):
    """-sum_k p_k log p_k / log min(N, D), p_k = s_k^2 / sum s^2, centred rows; 0 to 1."""
    return _normalised_entropy(centred_singular_values(embeddings_ND))


def stable_rank(embeddings_ND):
    """sum s^2 / s_1^2 = |Z|_F^2 / |Z|_2^2, centred rows (Rudelson & Vershynin 2007)."""
    return _stable_rank(centred_singular_values(embeddings_ND))


def rank90(embeddings_ND):
    """The fewest principal directions that hold 90 % of the variance."""
    return _rank90(centred_singular_values(embeddings_ND))


def anisotropy(embeddings_ND):
    """s_1^2 / sum s^2 of the rows as they are: the share of the strongest direction.

    The maximum explainable variance of Ethayarajh (2019). 1 / min(N, D) to 1.
    """
    return _anisotropy(singular_values(embeddings_ND))


def mean_cosine(embeddings_ND):
    """mean_{i<j} cos(z_i, z_j); 1 = all rows point the same way."""
    unit_ND = _unit(_checked(embeddings_ND, rows=2))
    count = len(unit_ND)
    # |sum z|^2 holds every pair twice and every row with itself once.
    pairs = np.sum(unit_ND.sum(axis=0) ** 2) - np.sum(unit_ND**2)
    return float(pairs / (count * (count - 1)))


def mean_cosine_centred(embeddings_ND):
    """`mean_cosine` after the mean row is subtracted; near 0 for any cloud."""
    return mean_cosine(_centred(_checked(embeddings_ND, rows=2)))


def summary(embeddings_ND):
    """Every measure of one cloud as {name: value}, from two decompositions."""
    embeddings_ND = _checked(embeddings_ND, rows=2)
    raw, centred = singular_values(embeddings_ND), centred_singular_values(embeddings_ND)
    return {
        'uniformity': uniformity(embeddings_ND),
        'uniformity_centred': uniformity(_centred(embeddings_ND)),
        'effective_rank': _exp_entropy(centred),
        'rankme': _exp_entropy(raw),
        'spectral_entropy': _normalised_entropy(centred),
        'stable_rank': _stable_rank(centred),
        'rank90': _rank90(centred),
        'anisotropy': _anisotropy(raw),
        'mean_cosine': mean_cosine(embeddings_ND),
        'mean_cosine_centred': mean_cosine_centred(embeddings_ND),
    }


def _checked(embeddings_ND, rows=1):
    embeddings_ND = np.asarray(embeddings_ND).astype(np.float64)
    if embeddings_ND.ndim != 2 or len(embeddings_ND) < rows or not embeddings_ND.shape[1]:
        raise ValueError(
            f'Geometry needs embeddings [N, D] with at least {rows} row(s), but their '
            f'shape is {embeddings_ND.shape}.'
        )
    bad_N = ~np.isfinite(embeddings_ND).all(axis=1)
    if bad_N.any():
        raise ValueError(
            f'{bad_N.sum()} of {len(bad_N)} embeddings hold NaN or infinity, the first '
            f'is row {bad_N.argmax()}. Look at the model before its geometry.'
        )
    return embeddings_ND


def _unit(embeddings_ND):
    norm_N1 = np.linalg.norm(embeddings_ND, axis=1, keepdims=True)
    return embeddings_ND / np.where(norm_N1 > 0, norm_N1, 1.0)


def _centred(embeddings_ND):
    centred_ND = embeddings_ND - embeddings_ND.mean(axis=0)
    # What is left of equal coordinates is rounding error, and has no direction.
    largest_D = np.abs(embeddings_ND).max(axis=0)
    error_D = len(embeddings_ND) * np.finfo(np.float64).eps * largest_D
    return np.where(np.abs(centred_ND) > error_D, centred_ND, 0.0)


def _spectrum(rows_ND, scale):
    values = np.linalg.svd(rows_ND, compute_uv=False)
    error = max(rows_ND.shape) * np.finfo(np.float64).eps * scale
    return np.where(values > error, values, 0.0)


def _shares(weights):
    total = weights.sum()
    kept = weights[weights > 0]
    return kept / total if total > 0 else kept


def _entropy(shares):
    return float(-np.sum(shares * np.log(shares)))


def _exp_entropy(values):
    shares = _shares(values)
    return float(np.exp(_entropy(shares))) if shares.size else 0.0


def _normalised_entropy(values):
    if values.size < 2:
        return 0.0
    return _entropy(_shares(values**2)) / float(np.log(values.size))


def _stable_rank(values):
    return float(np.sum(values**2) / values[0] ** 2) if values[0] > 0 else 0.0


def _rank90(values):
    shares = _shares(values**2)
    # A share of exactly 0.9 is enough even if its sum is rounded down.
    return int(np.sum(np.cumsum(shares) < 0.9 - 1e-12)) + 1 if shares.size else 0


def _anisotropy(values):
    return float(values[0] ** 2 / np.sum(values**2)) if values[0] > 0 else 1.0
