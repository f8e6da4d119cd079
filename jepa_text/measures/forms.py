"""Four forms of the same vectors, and all measures of each: {metric/form: value}.

    raw                   as given
    centered              minus the mean vector
    whitened              minus the mean, with all principal directions at one variance
    length_residualized   with the part that text length predicts removed

Raw measures of variance are dominated by the component that all vectors share and by text
length, which affects any pooling. A difference between models that disappears in another
form was a difference in what that form removes.
"""

import numpy as np
import scipy

from jepa_text.measures import class_geometry, cloud, geometry

RIDGE = 1e-3  # relative to the mean variance
CUT = 1e-6  # relative to the largest variance
_MAX_KNOTS = 32
_TEXTS_PER_KNOT = 20


def centered(vectors_ND):
    """Returns the vectors minus their mean.

    >>> centered([[1.0, 2.0], [3.0, 2.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    rows = cloud.as_cloud(vectors_ND)
    return rows.centered_ND.astype(rows.rows_ND.dtype)


def whitened(vectors_ND, ridge=RIDGE):
    """Returns principal components x_k / sqrt(l_k + r), [N, K], r = `ridge` mean(l).

    l_k is the variance along direction k. Directions with a variance below CUT times the
    largest are omitted. The ridge keeps directions with a variance far below the mean
    small, instead of amplifying their noise. If N is at most D, whitened rows are all
    about equally far from each other, whatever the model: use several times more texts
    than dimensions.

    >>> print(abs(whitened([[3.0, 0.0], [-3.0, 0.0]], ridge=0)).round(3).tolist())
    [[0.707], [0.707]]
    """
    rows = cloud.as_cloud(vectors_ND)
    transform_DK, _ = _whitening(rows, ridge)
    return (rows.centered_ND @ transform_DK).astype(rows.rows_ND.dtype)


def length_residualized(vectors_ND, lengths_NF):
    """Returns the vectors minus what text lengths predict, plus the mean vector.

    `lengths_NF` are positive: the number of tokens, and of characters in a second column,
    if given; [N] means one column. Each vector is predicted by a sum of piecewise linear
    functions of the logarithms, with a knot at each value, or at up to 32 quantiles, one
    per 20 texts; a second difference is penalized as much as the error of one text. The
    prediction is cross-fitted: the function for a text is fitted on the four fifths that
    do not contain it, so that no more is removed than length explains. The mean is
    added back because the result would otherwise be centered as well: compare it with the
    raw form, or center it.

    >>> lengths_N = np.repeat([1, 2, 3, 4], 50)
    >>> vectors_ND = np.stack([lengths_N, np.ones(200)], axis=1)
    >>> print(length_residualized(vectors_ND, lengths_N).std(axis=0).max() < 0.1)
    True
    """
    rows = cloud.as_cloud(vectors_ND).require_pairs('Length control')
    basis_NK, penalty_KK = _basis(_checked_lengths(lengths_NF, len(rows)))
    fold_N = np.random.default_rng(0).permutation(len(rows)) % min(5, len(rows))
    moments, products = [], []
    for fold in range(fold_N.max() + 1):
        member_N = fold_N == fold
        basis_MK = basis_NK[member_N]
        moments.append(basis_MK.T @ basis_MK)
        products.append(basis_MK.T @ (rows.rows_ND[member_N] - rows.mean_D))
    total_KK, total_KD = sum(moments), sum(products)
    residual_ND = rows.rows_ND.copy()
    for fold, (moment_KK, product_KD) in enumerate(zip(moments, products)):
        function_KD = np.linalg.solve(
            total_KK - moment_KK + penalty_KK, total_KD - product_KD
        )
        where_M = np.flatnonzero(fold_N == fold)
        residual_ND[where_M] -= basis_NK[where_M] @ function_KD
    return residual_ND


def clouds(vectors_ND, lengths_NF=None, labels_N=None):
    """Yields (form, Cloud) one form at a time, so that only one needs to be in memory.

    One eigenvalue decomposition serves the raw, centered and whitened forms.
    """
    raw = cloud.as_cloud(vectors_ND, labels_N).require_pairs('Geometry')
    values_K, _ = raw.axes
    yield 'raw', raw
    known = {'values_K': raw.values_K, 'raw_values_K': raw.values_K}
    yield 'centered', _cloud(centered(raw), raw, known)
    _, shrunk_K = _whitening(raw, RIDGE)
    known = {'values_K': shrunk_K, 'raw_values_K': shrunk_K}
    yield 'whitened', _cloud(whitened(raw), raw, known)
    if lengths_NF is not None:
        yield 'length_residualized', _cloud(length_residualized(raw, lengths_NF), raw, {})


def summary(vectors_ND, lengths_NF=None, labels_N=None, metrics=None):
    """Returns {'uniformity/raw': value, ...}: each metric of each form.

    `metrics` is {name: function of a Cloud}; the default is geometry.METRICS and, with
    labels, also class_geometry.CLASS_METRICS. Without lengths the length-residualized
    form is omitted. Raises ValueError for values that are not finite, for fewer than two
    rows, and for a wrong number of lengths or labels.
    """
    if metrics is None:
        metrics = dict(geometry.METRICS)
        if labels_N is not None:
            metrics |= class_geometry.CLASS_METRICS
    return {
        f'{name}/{form}': measure(rows)
        for form, rows in clouds(vectors_ND, lengths_NF, labels_N)
        for name, measure in metrics.items()
    }


def _whitening(rows, ridge):
    """Returns transform_DK and the whitened rows' squared singular values, descending; a
    single 0 for rows without variance."""
    values_K, vectors_DK = rows.axes
    if not len(values_K):
        return np.zeros((rows.width, 1)), np.zeros(1)
    variance_K = values_K / max(len(rows) - 1, 1)
    kept_K = variance_K > CUT * variance_K[0]
    variance_K, vectors_DK = variance_K[kept_K], vectors_DK[:, kept_K]
    level_K = variance_K + ridge * variance_K.mean()
    return vectors_DK / np.sqrt(level_K), values_K[kept_K] / level_K


def _cloud(vectors_ND, raw, known):
    """Returns a Cloud with the labels of `raw` and some cached properties already set."""
    rows = cloud.as_cloud(vectors_ND, raw.labels_N)
    rows.__dict__.update(known)
    return rows


def _checked_lengths(lengths_NF, count):
    lengths_NF = np.asarray(lengths_NF, np.float64)
    lengths_NF = lengths_NF[:, None] if lengths_NF.ndim == 1 else lengths_NF
    if lengths_NF.ndim != 2 or len(lengths_NF) != count or not np.all(lengths_NF > 0):
        raise ValueError(
            f'Length control of {count} vectors needs a positive length, or a row of '
            f'them, for each vector, but got shape {np.shape(lengths_NF)} with minimum '
            f'{np.min(lengths_NF, initial=np.inf)}. Leave out texts without tokens.'
        )
    return np.log(lengths_NF)


def _basis(logs_NF):
    """Returns the hat functions of all columns and a penalty on second differences."""
    maximum = int(np.clip(len(logs_NF) // _TEXTS_PER_KNOT, 2, _MAX_KNOTS))
    hats, penalties = [], []
    for log_N in logs_NF.T:
        knots_K = np.unique(log_N)
        if len(knots_K) > maximum:
            knots_K = np.unique(np.quantile(log_N, np.linspace(0, 1, maximum)))
        hats += [np.interp(log_N, knots_K, hat_K) for hat_K in np.eye(len(knots_K))]
        bend_K = np.diff(np.eye(len(knots_K)), n=min(2, len(knots_K) - 1), axis=0)
        penalties.append(bend_K.T @ bend_K)
    penalty_KK = scipy.linalg.block_diag(*penalties)
    # A small ridge, because the hat functions of each column sum to one.
    penalty_KK += 1e-3 * np.eye(len(penalty_KK))
    return np.stack(hats, axis=1), penalty_KK
