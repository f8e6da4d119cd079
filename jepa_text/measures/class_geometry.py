"""Distances between embeddings within a class and between classes.

All measures use rows scaled to unit length. They take a `cloud.Cloud` with labels, or
rows and labels. The value is NaN if the kind of pair that is measured does not exist,
such as pairs between classes when there is a single class.
"""

import numpy as np

from jepa_text.measures import cloud


def class_alignment(rows, labels_N=None):
    """Returns the mean of |z_i - z_j|^2 over pairs with the same label.

    A mean over classes of the mean over the pairs of each class, which is twice its
    variance, with alpha = 2 of Wang & Isola 2020. Their positive pairs have the same
    meaning, whereas two texts with the same label may mean anything, so this measures the
    task. Raises ValueError without labels or for fewer than two rows, as distance_ratio.

    >>> class_alignment([[1.0, 0.0], [0.0, 2.0], [0.0, -1.0]], ['a', 'a', 'b'])
    2.0
    """
    rows, means = _labeled(rows, labels_N), []
    for label, size in enumerate(np.bincount(rows.labels_N)):
        if size > 1:
            unit_MD = rows.unit(np.flatnonzero(rows.labels_N == label))
            means.append(2 * unit_MD.var(axis=0, ddof=1, dtype=np.float64).sum())
    return float(np.mean(means)) if means else np.nan


def distance_ratio(rows, labels_N=None):
    """Returns the mean |z_i - z_j| over the pairs of `cloud.Cloud.pairs` with one label,
    divided by that over pairs with two; 1 if labels are unrelated to location.

    >>> print(round(distance_ratio([[1, 0], [-1, 0], [0, 1]], ['a', 'a', 'b']), 4))
    1.4142
    """
    pairs = _labeled(rows, labels_N).pairs
    return float(pairs.same / pairs.other) if pairs.other > 0 else np.nan


CLASS_METRICS = {'class_alignment': class_alignment, 'distance_ratio': distance_ratio}


def _labeled(rows, labels_N):
    rows = cloud.as_cloud(rows, labels_N).require_pairs('A measure of classes')
    if rows.labels_N is None:
        raise ValueError(
            'A measure of classes needs labels: pass labels_N, or '
            'cloud.as_cloud(rows, labels).'
        )
    return rows
