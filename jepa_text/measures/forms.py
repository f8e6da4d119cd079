"""Four forms of the same vectors, and every measure of each: {metric/form: value}.

    raw                 as they are
    centered             minus the mean vector
    whitened            minus the mean, every principal direction at one variance
    length_residualized   as they would be if all texts had one length

Raw measures of variance are dominated by what all vectors share, and by the length of the
text, which leaks through any pooling; a difference between models that is gone in another
form was a difference in that.
"""

import numpy as np

from jepa_text.measures import class_geometry, cloud, geometry

FORMS = ('raw', 'centered', 'whitened', 'length_residualized')
RIDGE = 1e-3  # of the mean variance
CUT = 1e-6  # of the largest variance
_MAX_KNOTS = 32
_TEXTS_A_KNOT = 20


def centered(vectors_ND):
    """Minus the mean vector.

    >>> centered([[1.0, 2.0], [3.0, 2.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    rows = cloud.of(vectors_ND)
    return _assembled(rows, rows.centered())


def whitened(vectors_ND, ridge=RIDGE, cut=CUT):
    """Principal components x_k / sqrt(l_k + r), [N, K]; r is `ridge` x mean variance.

    l_k is the variance along direction k. Directions below `cut` of the largest variance
    are left out; the ridge keeps those that are far below the mean small, instead of
    blowing up their noise. With N at most D, whitened rows are all about equally far from
    each other, whatever the model: have several times more texts than dimensions.

    >>> print(abs(whitened([[3.0, 0.0], [-3.0, 0.0]], ridge=0)).round(3).tolist())
    [[0.707], [0.707]]
    """
    rows = cloud.of(vectors_ND)
    turn_DK, _ = _whitening(rows, ridge, cut)
    if not turn_DK.shape[1]:  # no variance at all: nothing is left
        turn_DK = np.zeros((rows.width, 1))
    return _assembled(rows, (part_CD @ turn_DK for part_CD in rows.centered()))


def length_residualized(vectors_ND, lengths_NF, folds=5, seed=0):
    """Minus what the lengths predict, plus the mean vector: all texts at one length.

    `lengths_NF` are positive: the number of tokens, and of characters if there are two
    columns; [N] is one column. Each vector is predicted by a sum of piecewise linear
    functions of the logarithms, with a knot at every value, or at up to 32 quantiles,
    one for every 20 texts; a second difference costs as much as one text's error.
    Cross-fitted: a text is predicted by the `folds` - 1 parts that it is not in, so the
    function takes away no more than length explains. The mean stays, as otherwise this
    would be centered too: compare with the raw form, or center it.

    >>> lengths_N = np.repeat([1, 2, 3, 4], 50)
    >>> vectors_ND = np.stack([lengths_N, np.ones(200)], axis=1)
    >>> print(length_residualized(vectors_ND, lengths_N).std(axis=0).max() < 0.1)
    True
    """
    rows = cloud.of(vectors_ND).pairs_needed('Length control')
    basis_NK, penalty_KK = _basis(_checked_lengths(lengths_NF, len(rows)))
    fold_N = np.random.default_rng(seed).permutation(len(rows)) % min(folds, len(rows))
    moments, products = [], []
    for fold in range(fold_N.max() + 1):
        member_N = fold_N == fold
        basis_MK = basis_NK[member_N]
        moments.append(basis_MK.T @ basis_MK)
        products.append(basis_MK.T @ (rows.rows_ND[member_N] - rows.mean_D))
    total_KK, total_KD = sum(moments), sum(products)
    controlled_ND = rows.rows_ND.copy()
    for fold, (moment_KK, product_KD) in enumerate(zip(moments, products)):
        function_KD = np.linalg.solve(
            total_KK - moment_KK + penalty_KK, total_KD - product_KD
        )
        where_M = np.flatnonzero(fold_N == fold)
        controlled_ND[where_M] -= basis_NK[where_M] @ function_KD
    return controlled_ND


def forms(vectors_ND, lengths_NF=None):
    """{form: vectors} of FORMS; without lengths, without the last.

    >>> list(forms(np.eye(3)))
    ['raw', 'centered', 'whitened']
    """
    return {
        form: found.rows_ND for form, found in clouds(vectors_ND, lengths_NF=lengths_NF)
    }


def clouds(vectors_ND, lengths_NF=None, labels_N=None, seed=0):
    """(form, Cloud) of one form after the other, to hold no more than one at a time.

    One eigenvalue problem serves raw, centered and whitened.

    >>> [form for form, _ in clouds(np.eye(3))]
    ['raw', 'centered', 'whitened']
    """
    raw = cloud.of(vectors_ND, labels_N, seed).pairs_needed('Geometry')
    values_K, _ = raw.axes
    yield 'raw', raw
    known = {'values_K': raw.values_K, 'raw_values_K': raw.values_K}
    yield 'centered', _cloud(centered(raw), raw, known)
    _, shrunk_K = _whitening(raw, RIDGE, CUT)
    shrunk_K = shrunk_K if len(shrunk_K) else np.zeros(1)
    known = {'values_K': shrunk_K, 'raw_values_K': shrunk_K}
    yield 'whitened', _cloud(whitened(raw), raw, known)
    if lengths_NF is not None:
        yield 'length_residualized', _cloud(length_residualized(raw, lengths_NF), raw, {})


def summary(vectors_ND, lengths_NF=None, labels_N=None, metrics=None, seed=0):
    """{'uniformity/raw': value, ...}: every metric in every form.

    `metrics` is {name: function of a Cloud}; by default geometry.METRICS, and with
    labels also class_geometry.CLASS_METRICS. Without lengths there is no
    length-controlled form. Raises ValueError for values that are not finite, fewer than
    two rows, and lengths or labels of another number.

    >>> values = summary(np.eye(3), metrics={'rank90': geometry.rank90})
    >>> values
    {'rank90/raw': 2, 'rank90/centered': 2, 'rank90/whitened': 2}
    """
    if metrics is None:
        metrics = dict(geometry.METRICS)
        if labels_N is not None:
            metrics |= class_geometry.CLASS_METRICS
    found = {}
    for form, one in clouds(vectors_ND, lengths_NF, labels_N, seed):
        for name, measure in metrics.items():
            found[f'{name}/{form}'] = measure(one)
    return found


def _assembled(rows, parts):
    """Blocks of float64 -> one array in the type of the rows."""
    start, whole_NK = 0, None
    for part_CK in parts:
        if whole_NK is None:
            whole_NK = np.empty((len(rows), part_CK.shape[1]), rows.rows_ND.dtype)
        whole_NK[start : start + len(part_CK)] = part_CK
        start += len(part_CK)
    return whole_NK


def _whitening(rows, ridge, cut):
    """turn_DK, and the squared singular values of the whitened rows, largest first."""
    values_K, vectors_DK = rows.axes
    variance_K = values_K / max(len(rows) - 1, 1)
    kept_K = variance_K > cut * (variance_K[0] if len(variance_K) else 0.0)
    variance_K, vectors_DK = variance_K[kept_K], vectors_DK[:, kept_K]
    level_K = variance_K + ridge * (variance_K.mean() if len(variance_K) else 0.0)
    return vectors_DK / np.sqrt(level_K), values_K[kept_K] / level_K


def _cloud(vectors_ND, raw, known):
    """A Cloud with the labels of `raw` whose parts are partly known already."""
    made = cloud.of(vectors_ND, raw.labels_N, raw.seed)
    made.__dict__.update(known)
    return made


def _checked_lengths(lengths_NF, count):
    lengths_NF = np.asarray(lengths_NF, np.float64)
    lengths_NF = lengths_NF[:, None] if lengths_NF.ndim == 1 else lengths_NF
    if lengths_NF.ndim != 2 or len(lengths_NF) != count or not np.all(lengths_NF > 0):
        raise ValueError(
            f'Length control of {count} vectors needs as many positive lengths, or a '
            f'row of them each, but got {np.shape(lengths_NF)} with the smallest '
            f'{np.min(lengths_NF, initial=np.inf)}. Leave out texts without tokens.'
        )
    return np.log(lengths_NF)


def _basis(logs_NF):
    """Hat functions of every column, and the penalty on their second differences."""
    maximum = int(np.clip(len(logs_NF) // _TEXTS_A_KNOT, 2, _MAX_KNOTS))
    hats, penalties = [], []
    for log_N in logs_NF.T:
        knots_K = np.unique(log_N)
        if len(knots_K) > maximum:
            knots_K = np.unique(np.quantile(log_N, np.linspace(0, 1, maximum)))
        hats.append(_hats(log_N, knots_K))
        bend_K = np.diff(np.eye(len(knots_K)), n=min(2, len(knots_K) - 1), axis=0)
        penalties.append(bend_K.T @ bend_K)
    size = sum(map(len, penalties))
    # A trace of ridge: two columns of hats both sum to one.
    penalty_KK = 1e-3 * np.eye(size)
    start = 0
    for block in penalties:
        stop = start + len(block)
        penalty_KK[start:stop, start:stop] += block
        start = stop
    return np.concatenate(hats, axis=1), penalty_KK


def _hats(x_N, knots_K):
    """hats_NK: weights with which a piecewise linear function mixes its knots."""
    if len(knots_K) == 1:
        return np.ones((len(x_N), 1))
    left_N = np.clip(np.searchsorted(knots_K, x_N, 'right') - 1, 0, len(knots_K) - 2)
    gap_N = knots_K[left_N + 1] - knots_K[left_N]
    share_N = (x_N - knots_K[left_N]) / gap_N
    hats_NK = np.zeros((len(x_N), len(knots_K)))
    every_N = np.arange(len(x_N))
    hats_NK[every_N, left_N] = 1 - share_N
    hats_NK[every_N, left_N + 1] += share_N
    return hats_NK
