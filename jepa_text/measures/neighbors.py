"""The intrinsic dimension, from distances to nearest neighbors; the mean over blocks of
rows (cloud.py)."""

import numpy as np

from jepa_text.measures import cloud


def intrinsic_dimension(rows):
    """Returns the TwoNN estimate of the rows' manifold dimension (Facco et al. 2017).

    With m the ratio of the distances to the second and to the first neighbor, and F its
    empirical distribution: the slope through the origin of -log(1 - F) on log m, without
    the largest tenth of m. Duplicate rows are ignored. 0 if fewer than three rows remain.

    >>> place_N1 = np.random.default_rng(0).random((1000, 1))
    >>> print(round(intrinsic_dimension(place_N1 ** [1, 2, 3]), 1))
    1.0
    """
    rows = cloud.as_cloud(rows).require_pairs('The intrinsic dimension')
    logs = [_log_ratio(rows.rows_ND[index_M]) for index_M in rows.neighbor_blocks]
    return float(np.mean([_two_nn(log_M) for log_M in logs]))


def _log_ratio(rows_MD):
    """Returns log(r2 / r1) of the rows that differ by more than rounding."""
    square_MM = cloud.squared_distances(rows_MD)
    np.fill_diagonal(square_MM, np.inf)
    rounding = 1e-6 * np.sqrt(rows_MD.var(axis=0).sum())
    while len(rows_MD) > 2:
        all_M, nearest_M = np.arange(len(rows_MD)), square_MM.argmin(axis=1)
        first_M = _gaps(rows_MD, nearest_M)
        # The first of two equal rows remains.
        kept_M = (first_M > rounding) | (nearest_M > all_M)
        if kept_M.all():
            square_MM[all_M, nearest_M] = np.inf
            second_M = _gaps(rows_MD, square_MM.argmin(axis=1))
            first_M, second_M = np.sort([first_M, second_M], axis=0)
            apart_M = first_M > rounding
            return np.log(second_M[apart_M] / first_M[apart_M])
        rows_MD, square_MM = rows_MD[kept_M], square_MM[kept_M][:, kept_M]
    return np.zeros(0)


def _gaps(rows_MD, other_M):
    """Returns distances from differences: products of nearby rows lose precision."""
    return np.linalg.norm((rows_MD - rows_MD[other_M]).astype(np.float64), axis=1)


def _two_nn(log_M):
    size = len(log_M)
    if size < 3:
        return 0.0
    kept = max(int(0.9 * size), 2)
    x_M = np.sort(log_M)[:kept]
    y_M = -np.log1p(-np.arange(1, kept + 1) / size)
    square = np.sum(x_M**2)
    return float(np.sum(x_M * y_M) / square) if square > 0 else 0.0
