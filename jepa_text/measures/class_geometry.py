"""How the rows of a cloud lie to their labels: within a class, and between classes.

All on unit rows. The measures take a `cloud.Cloud` with labels, or rows and labels; NaN
where their kind of pair does not exist, as between the classes of a single one.
"""

import numpy as np

from jepa_text.measures import cloud


def class_alignment(rows, labels_N=None):
    """mean of |z_i - z_j|^2 over pairs of one label (Wang & Isola 2020, alpha = 2).

    A mean over classes of the mean over the pairs of each. Their positive pairs say the
    same thing; two texts of one label may say anything, so this measures the task.

    >>> class_alignment([[1.0, 0.0], [0.0, 2.0], [0.0, -1.0]], ['a', 'a', 'b'])
    2.0
    """
    return _mean_power(rows, labels_N, power=1)


def paper_alignment(rows, labels_N=None):
    """mean of |z_i - z_j|^4 over pairs of one label: what arXiv 2606.05173 reports.

    The exponent is doubled there, against the definition of Wang & Isola. Only for
    comparison with its tables.

    >>> paper_alignment([[1.0, 0.0], [0.0, 2.0], [0.0, -1.0]], ['a', 'a', 'b'])
    4.0
    """
    return _mean_power(rows, labels_N, power=2)


def intra_distance(rows, labels_N=None):
    """Mean |z_i - z_j| over pairs of one label; of the pairs that `cloud` looks at.

    >>> intra_distance([[3.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], ['a', 'a', 'b'])
    2.0
    """
    return float(_labeled(rows, labels_N).pairs.same)


def inter_distance(rows, labels_N=None):
    """Mean |z_i - z_j| over pairs of two labels; of the pairs that `cloud` looks at.

    >>> round(inter_distance([[3.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], ['a', 'a', 'b']), 4)
    1.4142
    """
    return float(_labeled(rows, labels_N).pairs.other)


def distance_ratio(rows, labels_N=None):
    """intra_distance / inter_distance; 1 where labels have nothing to do with place.

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
    found = cloud.of(rows, labels_N).pairs_needed('A measure of classes')
    if found.labels_N is None:
        raise ValueError(
            'A measure of classes needs labels: give labels_N, or cloud.of(rows, labels).'
        )
    return found


def _mean_power(rows, labels_N, power):
    """Mean over classes of the mean of |z_i - z_j|^(2 power) over the pairs of each."""
    means_C2 = _labeled(rows, labels_N).once('class_powers', _class_powers)
    return float(np.mean(means_C2[:, power - 1])) if len(means_C2) else np.nan


def _class_powers(rows):
    """The two means, for each class that has a pair; from moments, so of all pairs."""
    means = []
    for label in range(rows.labels_N.max() + 1):
        index_M = np.flatnonzero(rows.labels_N == label)
        size = len(index_M)
        if size > 1:
            means.append(np.array(_power_sums(rows, index_M)) / (size * (size - 1)))
    return np.array(means).reshape(-1, 2)


def _power_sums(found, index_M):
    """Sums over ordered pairs of |x_i - x_j|^2 and of its square, x centered.

    sum (a_i + a_j - 2c)^2 = 2 M sum a^2 + 2 (sum a)^2 + 4 sum c^2 - 8 sum_ij a_i c, and
    the last is 0, as the rows sum to 0; sum c^2 = |X^T X|_F^2.
    """
    parts = np.array_split(index_M, -(-len(index_M) // cloud.CHUNK))
    mean_D = sum(found.unit(part_C).sum(axis=0, dtype=np.float64) for part_C in parts)
    mean_D = mean_D / len(index_M)
    moment_DD = np.zeros((found.width, found.width))
    first = second = 0.0
    for part_C in parts:
        centered_CD = found.unit(part_C) - mean_D
        square_C = np.einsum('CD,CD->C', centered_CD, centered_CD)
        first, second = first + square_C.sum(), second + np.sum(square_C**2)
        moment_DD += centered_CD.T @ centered_CD
    size = len(index_M)
    return (
        2 * size * first,
        2 * size * second + 2 * first**2 + 4 * np.sum(moment_DD**2),
    )
