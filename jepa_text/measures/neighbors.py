"""The intrinsic dimension, from distances to nearest neighbors.

Neighbors are searched among `cloud.BLOCK` rows at a time, and the value is the mean over
such blocks. Two clouds are comparable if both have at least that many rows, or the same
number.
"""

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
    """Returns log(r2 / r1) of the rows whose nearest other row is not a duplicate."""
    square_MM = cloud.squared_distances(rows_MD)
    np.fill_diagonal(square_MM, np.inf)
    all_M = np.arange(len(rows_MD))
    distances = []
    for _ in range(min(2, len(rows_MD) - 1)):
        nearest_M = square_MM.argmin(axis=1)
        # Recomputed from differences, as products of nearby rows lose precision.
        gap_MD = rows_MD[all_M] - rows_MD[nearest_M]
        distances.append(np.linalg.norm(gap_MD.astype(np.float64), axis=1))
        square_MM[all_M, nearest_M] = np.inf
    if len(distances) < 2:
        return np.zeros(0)
    first_M, second_M = np.sort(distances, axis=0)
    # Rows closer than this are duplicates, up to rounding.
    distinct_M = first_M > 1e-6 * np.median(second_M)
    return np.log(second_M[distinct_M] / first_M[distinct_M])


def _two_nn(log_M):
    size = len(log_M)
    if size < 3:
        return 0.0
    kept = max(int(0.9 * size), 2)
    x_M = np.sort(log_M)[:kept]
    y_M = -np.log1p(-np.arange(1, kept + 1) / size)
    square = np.sum(x_M**2)
    return float(np.sum(x_M * y_M) / square) if square > 0 else 0.0
