"""Influences of pairs on the correlations, and on F1, of two lists of numbers.

The mean over the pairs is the correlation, as of scipy.stats. numpy float64; ties get
their mean rank. All functions raise ValueError for values that are not finite and for
shapes that do not match.
"""

import math

import numpy as np
import scipy

from jepa_text.measures import statistics


def pearson_influence(first_N, second_N):
    """Returns one value per pair, whose mean is Pearson's correlation.

    The value is the effect of the pair on the correlation (its influence function) plus
    the correlation, so that intervals and paired tests of means hold for correlations.
    All 0 if one list is constant.
    """
    first_N, second_N = statistics.paired_lists('A correlation', first_N, second_N, 2)
    if np.ptp(first_N) == 0 or np.ptp(second_N) == 0:
        return np.zeros(len(first_N))
    x_N, y_N = ((v_N - v_N.mean()) / v_N.std() for v_N in (first_N, second_N))
    value = np.mean(x_N * y_N)
    return value + x_N * y_N - value * (x_N**2 + y_N**2) / 2


def f1_influence(predicted_N, truth_N):
    """Returns one value per example, whose mean is F1 = 2 TP / (2 TP + FP + FN) of two
    lists of booleans, or 0 if neither has a True.

    >>> f1_influence(np.array([1, 1, 0]) > 0, np.array([1, 0, 0]) > 0).round(3)
    array([1.333, 0.   , 0.667])
    """
    return ratio_influence(2.0 * (predicted_N & truth_N), 1.0 * predicted_N + truth_N)


def ratio_influence(parts_N, wholes_N):
    """Returns one value per example, whose mean is the sum of the parts over that of the
    wholes, or 0 if both are."""
    mean = wholes_N.mean() or 1.0
    value = parts_N.mean() / mean
    return value + (parts_N - value * wholes_N) / mean


def spearman_influence(first_N, second_N):
    """Returns one value per pair, whose mean is Spearman's correlation.

    The value is the effect of the pair on the correlation (its influence function) plus
    the correlation, so that paired tests of means can test correlations. Products of the
    standardized ranks have the same mean but vary far more, because each rank depends on
    all other values. All 0 if one list is constant.
    """
    first_N, second_N = statistics.paired_lists('A correlation', first_N, second_N, 2)
    ranks_2N = scipy.stats.rankdata([first_N, second_N], axis=1)
    x_N, y_N = (ranks_2N - 0.5) / len(first_N) - 0.5
    scale = np.sqrt(np.mean(x_N**2) * np.mean(y_N**2))
    if scale == 0:
        return np.zeros(len(x_N))
    value = np.mean(x_N * y_N) / scale
    # A pair also changes the ranks of all values above its own.
    covariance_N = x_N * y_N + _above(first_N, y_N) + _above(second_N, x_N)
    variances_N = [
        (rank_N**2 + 2 * _above(values_N, rank_N)) / np.mean(rank_N**2)
        for values_N, rank_N in ((first_N, x_N), (second_N, y_N))
    ]
    influence_N = covariance_N / scale - value / 2 * (variances_N[0] + variances_N[1])
    return influence_N - influence_N.mean() + value


def _above(values_N, weights_N):
    """Mean over m of weight_m if value_m > value_n, of weight_m / 2 if they are equal."""
    _, index_N = np.unique(values_N, return_inverse=True)
    total_K = np.bincount(index_N, weights_N)
    return (np.cumsum(total_K[::-1])[::-1] - total_K / 2)[index_N] / len(values_N)


def partial_spearman_influence(first_N, second_N, control_N):
    """Returns one value per pair, whose mean is the partial rank correlation: that of
    both lists' ranks given those of one control.

    By the derivatives of r = (r_12 - r_13 r_23) / sqrt((1 - r_13^2) (1 - r_23^2)). All 0
    if the control explains a list entirely.
    """
    pairs = (first_N, second_N), (first_N, control_N), (second_N, control_N)
    influences = [spearman_influence(*pair) for pair in pairs]
    direct, first, second = (float(np.mean(values_N)) for values_N in influences)
    rest = math.sqrt(max(0.0, (1 - first**2) * (1 - second**2)))
    if rest < 1e-10:
        return np.zeros(len(first_N))
    value = (direct - first * second) / rest
    slopes = (
        1 / rest,
        (direct * first - second) / (rest * (1 - first**2)),
        (direct * second - first) / (rest * (1 - second**2)),
    )
    changes = (s * (x_N - np.mean(x_N)) for s, x_N in zip(slopes, influences))
    return value + sum(changes)
