"""How two lists of numbers go together, also given a third; and how one ranks a label.

numpy float64; ties share their mean rank.
"""

import numpy as np
import scipy


def pearson(first_N, second_N):
    """The correlation coefficient (Pearson's); 0 where one list is constant.

    >>> round(pearson([1, 2, 3], [2, 4, 7]), 4)
    0.9934
    """
    first_N, second_N = _finite(first_N, second_N)
    if np.ptp(first_N) == 0 or np.ptp(second_N) == 0:
        return 0.0
    return _cosine(first_N - first_N.mean(), second_N - second_N.mean())


def spearman(first_N, second_N):
    """The correlation of the ranks; 0 where one list is constant.

    >>> print(round(spearman([1, 2, 3], [2, 4, 400]), 6))
    1.0
    """
    first_N, second_N = _finite(first_N, second_N)
    return pearson(scipy.stats.rankdata(first_N), scipy.stats.rankdata(second_N))


def spearman_influence(first_N, second_N):
    """One value a pair, with Spearman's correlation as their mean.

    What each pair does to it (its influence function, plus the correlation), so that
    paired tests of means test correlations. Products of the standardized ranks have that
    mean too, but vary far more: each rank is one of all others. 0 where a list is
    constant.

    >>> spearman_influence([1, 2, 3, 4], [1, 2, 4, 3]).mean().round(6).item()
    0.8
    """
    first_N, second_N = _finite(first_N, second_N)
    ranks_2N = scipy.stats.rankdata([first_N, second_N], axis=1)
    one_N, two_N = (ranks_2N - 0.5) / len(first_N) - 0.5
    size = np.sqrt(np.mean(one_N**2) * np.mean(two_N**2))
    if size == 0:
        return np.zeros(len(one_N))
    value = np.mean(one_N * two_N) / size
    # A pair also moves the ranks of those above it.
    shared_N = one_N * two_N + _above(first_N, two_N) + _above(second_N, one_N)
    deviation_N = [
        (x_N**2 + 2 * _above(given_N, x_N)) / np.mean(x_N**2)
        for given_N, x_N in ((first_N, one_N), (second_N, two_N))
    ]
    found_N = shared_N / size - value / 2 * (deviation_N[0] + deviation_N[1])
    return found_N - found_N.mean() + value


def _above(given_N, weights_N):
    """Mean over m of weight_m where given_m is above given_n, half of it where equal."""
    _, index_N = np.unique(given_N, return_inverse=True)
    total_K = np.bincount(index_N, weights_N)
    return (np.cumsum(total_K[::-1])[::-1] - total_K / 2)[index_N] / len(given_N)


def partial_correlation(first_N, second_N, controls_NC):
    """The correlation of what the controls do not explain linearly in either list.

    `controls_NC` may be one list. 0 where the controls explain a list entirely. Raises
    ValueError for values that are not finite, and with too few rows for the controls.

    >>> control_N = np.arange(6.0)
    >>> noise_N = np.array([1, -1, 1, 1, -1, 1])
    >>> round(partial_correlation(control_N + noise_N, control_N - noise_N, control_N), 6)
    -1.0
    """
    first_N, second_N = _finite(first_N, second_N)
    controls_NC = np.asarray(controls_NC, np.float64)
    controls_NC = controls_NC[:, None] if controls_NC.ndim == 1 else controls_NC
    size = len(first_N)
    if len(controls_NC) != size or size < controls_NC.shape[1] + 3:
        raise ValueError(
            f'A partial correlation of {size} pairs given controls of shape '
            f'{controls_NC.shape} needs one row a pair, and at least three pairs more '
            'than controls.'
        )
    if not np.isfinite(controls_NC).all():
        raise ValueError('The controls of a partial correlation hold NaN or infinity.')
    design_NC = controls_NC - controls_NC.mean(axis=0)
    norm_C = np.linalg.norm(design_NC, axis=0)
    design_NC = design_NC / np.where(norm_C > 0, norm_C, 1.0)
    both_N2 = np.stack([first_N - first_N.mean(), second_N - second_N.mean()], axis=1)
    fitted = np.linalg.lstsq(design_NC, both_N2, rcond=None)[0]
    left_N2 = both_N2 - design_NC @ fitted
    explained = np.linalg.norm(left_N2, axis=0) <= 1e-10 * np.linalg.norm(both_N2, axis=0)
    return 0.0 if explained.any() else _cosine(left_N2[:, 0], left_N2[:, 1])


def partial_spearman(first_N, second_N, controls_NC):
    """`partial_correlation` of the ranks, the controls' too.

    >>> control_N = np.arange(6.0)
    >>> noise_N = np.array([1, -1, 1, 1, -1, 1])
    >>> partial_spearman(np.exp(control_N), noise_N, control_N)
    0.0
    """
    _finite(first_N, second_N)
    both = (scipy.stats.rankdata(values_N) for values_N in (first_N, second_N))
    return partial_correlation(*both, scipy.stats.rankdata(controls_NC, axis=0))


def auc(scores_N, positive_N):
    """P(score of a positive > score of a negative), ties one half; chance is 0.5.

    NaN without positives or without negatives.

    >>> auc([0.1, 0.4, 0.35, 0.8], [False, False, True, True])
    0.75
    """
    scores_N, positive_N = np.asarray(scores_N), np.asarray(positive_N, bool)
    if scores_N.shape != positive_N.shape or not np.isfinite(scores_N).all():
        raise ValueError(
            f'An AUC needs finite scores and as many labels, but their shapes are '
            f'{scores_N.shape} and {positive_N.shape}.'
        )
    count = np.count_nonzero(positive_N)
    others = positive_N.size - count
    if not count or not others:
        return float('nan')
    above = scipy.stats.rankdata(scores_N)[positive_N].sum() - count * (count + 1) / 2
    return float(above / (count * others))


def _finite(first_N, second_N):
    first_N, second_N = np.asarray(first_N, float), np.asarray(second_N, float)
    if first_N.shape != second_N.shape or first_N.ndim != 1 or len(first_N) < 2:
        raise ValueError(
            'A correlation needs two lists of one length, at least 2, but their shapes '
            f'are {first_N.shape} and {second_N.shape}.'
        )
    if not np.isfinite(first_N).all() or not np.isfinite(second_N).all():
        raise ValueError('A correlation needs finite values, but there is NaN or inf.')
    return first_N, second_N


def _cosine(first_N, second_N):
    norms = np.linalg.norm(first_N) * np.linalg.norm(second_N)
    return float(np.clip(first_N @ second_N / norms, -1, 1)) if norms > 0 else 0.0
