"""How the rows of a cloud crowd: the dimension they fill, and whether some are hubs.

Neighbors are looked for among `cloud.BLOCK` rows at a time; the value is the mean over
such blocks. Two clouds compare if both have so many rows, or as many as each other.
"""

import numpy as np
import scipy

from jepa_text.measures import cloud

HUB_NEIGHBORS = 10


def intrinsic_dimension(rows):
    """TwoNN (Facco et al. 2017): the dimension of the surface that the rows lie on.

    With m the ratio of the distances to the second and to the first neighbor, and F its
    empirical distribution: the slope through the origin of -log(1 - F) on log m, without
    the largest tenth. Rows that occur twice are left out. 0 if fewer than three are left.

    >>> place_N1 = np.random.default_rng(0).random((1000, 1))
    >>> print(round(intrinsic_dimension(place_N1 ** [1, 2, 3]), 1))
    1.0
    """
    rows = cloud.of(rows).pairs_needed('The intrinsic dimension')
    return rows.once('intrinsic_dimension', _dimension)


def hubness(rows):
    """Skewness of how often a row is among the 10 nearest of the others, by cosine.

    (Radovanovic et al. 2010.) 0: all rows alike; above 1: a few are neighbors of many.

    >>> hubness(np.eye(4))
    0.0
    """
    rows = cloud.of(rows).pairs_needed('Hubness')
    skews = []
    for index_M, square_MM in zip(rows.neighbor_blocks, rows.near_distances()):
        if not square_MM.any():
            return 0.0  # one direction: all are equally near
        square_MM = square_MM.copy()
        np.fill_diagonal(square_MM, np.inf)
        near = min(HUB_NEIGHBORS, len(index_M) - 1)
        nearest_MK = np.argpartition(square_MM, near - 1, axis=1)[:, :near]
        counts_M = np.bincount(nearest_MK.ravel(), minlength=len(index_M))
        skews.append(scipy.stats.skew(counts_M) if np.ptp(counts_M) else 0.0)
    return float(np.mean(skews))


def _dimension(rows):
    logs = [_log_ratio(rows.rows_ND[index_M]) for index_M in rows.neighbor_blocks]
    return float(np.mean([_two_nn(log_M) for log_M in logs]))


def _log_ratio(rows_MD):
    """log(r2 / r1) of the rows whose nearest other row is not at the same place."""
    square_MM = cloud.squared_distances(rows_MD)
    np.fill_diagonal(square_MM, np.inf)
    every_M = np.arange(len(rows_MD))
    distances = []
    for _ in range(min(2, len(rows_MD) - 1)):
        near_M = square_MM.argmin(axis=1)
        # Anew from the difference: products of near rows lose their digits.
        gap_MD = rows_MD[every_M] - rows_MD[near_M]
        distances.append(np.linalg.norm(gap_MD.astype(np.float64), axis=1))
        square_MM[every_M, near_M] = np.inf
    if len(distances) < 2:
        return np.zeros(0)
    first_M, second_M = np.sort(distances, axis=0)
    # Rows at one place, but for the rounding of their own numbers.
    minimum = 1e-6 * np.median(second_M)
    kept_M = first_M > minimum
    return np.log(second_M[kept_M] / first_M[kept_M])


def _two_nn(log_M):
    size = len(log_M)
    if size < 3:
        return 0.0
    kept = max(int(0.9 * size), 2)
    x_M = np.sort(log_M)[:kept]
    y_M = -np.log1p(-np.arange(1, kept + 1) / size)
    square = np.sum(x_M**2)
    return float(np.sum(x_M * y_M) / square) if square > 0 else 0.0
