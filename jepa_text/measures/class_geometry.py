"""Distances between embeddings within a class and between classes.

All measures use rows scaled to unit length. They take a `cloud.Cloud` with labels, or
rows and labels. The value is NaN if the kind of pair that is measured does not exist,
such as pairs between classes when there is a single class.
"""

import numpy as np

from jepa_text.measures import cloud


def class_alignment(rows, labels_N=None):
    """Returns the mean of |z_i - z_j|^2 over pairs with the same label.

    A mean over classes of the mean over the pairs of each class, with alpha = 2 of Wang &
    Isola 2020. Their positive pairs have the same meaning, whereas two texts with the
    same label may mean anything, so this measures the task. Raises ValueError without
    labels or for fewer than two rows, as all measures of this module do.

    >>> class_alignment([[1.0, 0.0], [0.0, 2.0], [0.0, -1.0]], ['a', 'a', 'b'])
    2.0
    """
    return _mean_power(rows, labels_N, power=1)


def paper_alignment(rows, labels_N=None):
    """Returns the mean of |z_i - z_j|^4 over pairs with one label, as arXiv 2606.05173.

    That paper doubles the exponent, contrary to the definition of Wang & Isola. Use it
    only for comparison with the paper's tables.

    >>> paper_alignment([[1.0, 0.0], [0.0, 2.0], [0.0, -1.0]], ['a', 'a', 'b'])
    4.0
    """
    return _mean_power(rows, labels_N, power=2)


def intra_distance(rows, labels_N=None):
    """Returns the mean |z_i - z_j| over the pairs with one label.

    >>> intra_distance([[3.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], ['a', 'a', 'b'])
    2.0
    """
    return float(_labeled(rows, labels_N).pairs.same)


def inter_distance(rows, labels_N=None):
    """Returns the mean |z_i - z_j| over pairs with two labels.

    >>> round(inter_distance([[3.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], ['a', 'a', 'b']), 4)
    1.4142
    """
    return float(_labeled(rows, labels_N).pairs.other)


def distance_ratio(rows, labels_N=None):
    """Returns intra_distance / inter_distance; 1 if labels are unrelated to location.

    >>> print(round(distance_ratio([[1, 0], [-1, 0], [0, 1]], ['a', 'a', 'b']), 4))
    1.4142
    """
    pairs = _labeled(rows, labels_N).pairs
    return float(pairs.same / pairs.other) if pairs.other > 0 else np.nan


CLASS_METRICS = {
    'class_alignment': class_alignment,
    'paper_alignment': paper_alignment,
    'intra_distance': intra_distance,
    'inter_distance': inter_distance,
    'distance_ratio': distance_ratio,
}


def _labeled(rows, labels_N):
    rows = cloud.as_cloud(rows, labels_N).require_pairs('A measure of classes')
    if rows.labels_N is None:
        raise ValueError(
            'A measure of classes needs labels: pass labels_N, or '
            'cloud.as_cloud(rows, labels).'
        )
    return rows


def _mean_power(rows, labels_N, power):
    """Returns the mean over classes of the mean |z_i - z_j|^(2 power) of their pairs."""
    rows, means = _labeled(rows, labels_N), []
    for label, size in enumerate(np.bincount(rows.labels_N)):
        if size > 1:
            sums = _power_sums(rows, np.flatnonzero(rows.labels_N == label))
            means.append(sums[power - 1] / (size * (size - 1)))
    return float(np.mean(means)) if means else np.nan


def _power_sums(rows, index_M):
    """Returns the sums over ordered pairs of |x_i - x_j|^2 and of its square, x centered.

    With a_i = |x_i|^2 and c = x_i.x_j:

        sum (a_i + a_j - 2c)^2 = 2 M sum a^2 + 2 (sum a)^2 + 4 sum c^2 - 8 sum_ij a_i c

    The last term is 0 because the rows sum to 0, and sum c^2 is |X^T X|_F^2.
    """
    unit_MD = rows.unit(index_M)
    centered_MD = unit_MD - unit_MD.mean(axis=0, dtype=np.float64)
    square_M = np.einsum('MD,MD->M', centered_MD, centered_MD)
    size, first, second = len(index_M), square_M.sum(), np.sum(square_M**2)
    moments = np.sum((centered_MD.T @ centered_MD) ** 2)
    return 2 * size * first, 2 * size * second + 2 * first**2 + 4 * moments
