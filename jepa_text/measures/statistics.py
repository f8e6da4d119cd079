"""Confidence intervals and significance tests for comparisons of models.

    mean_interval         for a mean over examples, which may share texts
    two_level_interval    for a mean over seeds x examples
    over_seeds            compares two training methods by runs with several seeds
    sign_flip             permutation test of a mean difference, with few assumptions
    holm                  corrects p-values for multiple comparisons

Intervals are (value, low, high) at LEVEL. Tests over sentences say nothing about other
training runs: with sentences as pairs, a small p is about these two trained models and
not about their objectives, however many seeds were averaged before. If seeds differ by
0.04, such a test rejects four of ten true null hypotheses.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy

LEVEL = 0.95
MIN_SEEDS = 5  # for a test
FLIPPED_SEEDS = 8  # the smallest number for which sign flips can be significant enough
_EXACT_PAIRS = 14  # up to here, all 2^n sign patterns are enumerated
_FLIPS = 10_000  # random sign patterns above that
_CHUNK = 4_000_000
_ROUNDING = 1e-6  # of means of influences, which may leave their scale
# Scales of means over examples, and their range.
SCALES = {
    'share': (0.0, 1.0),
    'correlation': (-1.0, 1.0),
    'difference': (-math.inf, math.inf),
}


class Interval(NamedTuple):
    """A value with the bounds of its interval."""

    value: float
    low: float
    high: float


class OverSeeds(NamedTuple):
    """The mean of first minus second over `seeds` pairs of runs, its interval and p.
    Without a test, `low`, `high` and `p` are NaN and `test` is ''."""

    difference: float
    low: float
    high: float
    p: float
    seeds: int
    test: str


def mean_interval(values_N, scale, clusters=()):
    """Returns the mean over examples with its interval, on one of the SCALES.

    share          values from 0 to 1, such as right or wrong: Wilson's interval (1927),
                   which has a width at 0 and 1; of other values or with clusters, for as
                   many independent examples as have their variance
    correlation    influences on a correlation (correlations.py): by Fisher's z (1921)
    difference     any values: symmetric

    The variance of the mean is that of `variance`, with Student's t; NaN ends if all
    examples have one key. Simulated intervals for 95 % hold 92 to 98 %, and 86 to 94 % if
    all pairs of 20 to 60 texts are scored, where intervals over independent pairs hold 42
    to 61 %.
    """
    values_N = np.asarray(values_N, np.float64)
    is_list = values_N.ndim == 1 and values_N.size and np.isfinite(values_N).all()
    mean = float(values_N.mean()) if is_list else math.nan
    least, most = SCALES.get(scale, (math.nan, math.nan))
    if not least - _ROUNDING <= mean <= most + _ROUNDING:
        raise ValueError(
            f'scale={scale!r}, values of shape {values_N.shape}, mean {mean}: an '
            'interval needs a list of finite values with a mean on its scale: share (0 '
            'to 1, not percent), correlation (-1 to 1) or difference.'
        )
    mean = float(np.clip(mean, least, most))
    spread, freedom, count = variance(values_N, clusters)
    quantile = float(scipy.special.stdtrit(freedom, (1 + LEVEL) / 2))
    reach = quantile * math.sqrt(spread)
    ends = [mean - reach, mean + reach]
    if scale == 'correlation' and abs(mean) < 1:
        reach /= 1 - mean**2
        ends = [math.tanh(math.atanh(mean) + x) for x in (-reach, reach)]
    elif scale == 'share' and (spread or mean in (0, 1)):
        if (spread, freedom, count) == variance(values_N):  # independent: N, if 0 or 1
            quantile = float(scipy.special.ndtri((1 + LEVEL) / 2))
            spread *= freedom / (freedom + 1)
        ratio = quantile**2 / (
            mean * (1 - mean) / spread if spread and 0 < mean < 1 else count
        )
        center = (mean + ratio / 2) / (1 + ratio)
        reach = math.sqrt(ratio * (mean * (1 - mean) + ratio / 4)) / (1 + ratio)
        ends = [center - reach, center + reach]
    # Rounding must not exclude the mean. Unlike min and max, these keep NaN.
    low, high = np.minimum(mean, ends[0]), np.maximum(mean, ends[1])
    return Interval(mean, float(low), float(high))


def variance(values_N, clusters=()):
    """Returns (variance of the mean, its degrees of freedom, number of examples).

    clusters    columns of keys, [N] each, of the same kind, such as the first and second
                texts of pairs: examples with a key in common are dependent

    Without a common key it is s^2 / N. Otherwise, with the sum S_k of the deviations of
    the N_k examples that have key k, it is the sum of c_k = (S_k / (N - N_k))^2 minus the
    same over pairs of keys, which count twice (Fafchamps & Gubert 2007, each key left out
    in turn), but at least s^2 / N. The degrees of freedom are those of a sum of squares
    with the kurtosis of S_k, 2 (sum c)^2 / (sum c^2 - (sum c)^2 / K), and at most K - 1.
    The number of examples is that of different keys, if it is smaller than N.
    """
    values_N = np.asarray(values_N, np.float64)
    error_N, count = values_N - values_N.mean(), len(values_N)
    independent = error_N @ error_N / max(count * (count - 1), 1)
    known = {}  # an array of texts would give each the memory of the longest
    codes = [known.setdefault(key, len(known)) for column in clusters for key in column]
    if len(known) == len(codes):
        return float(independent), count - 1, count
    codes_CN = np.sort(np.reshape(codes, (len(clusters), count)), axis=0)
    low_N, high_N, size = codes_CN[0], codes_CN[-1], len(known)
    both_N = np.where(low_N == high_N, 0.0, error_N)
    _, pair_N = np.unique(low_N * size + high_N, return_inverse=True)

    def squares(sum_K, count_K):
        return (sum_K / np.maximum(count - count_K, 1)) ** 2

    sum_K = np.bincount(low_N, error_N, size) + np.bincount(high_N, both_N, size)
    count_K = np.bincount(low_N, minlength=size)
    count_K += np.bincount(high_N[low_N != high_N], minlength=size)
    square_K = squares(sum_K, count_K)
    total = square_K.sum()
    shared = squares(np.bincount(pair_N, both_N), np.bincount(pair_N)).sum()
    excess = np.sum(square_K**2) - total**2 / size
    freedom = min(2 * total**2 / excess, size - 1) if excess > 0 else size - 1
    return float(max(total - shared, independent)), freedom, min(count, size)


def two_level_interval(values_SN, scale='difference', clusters=()):
    """Returns the mean over seeds and examples, with an interval over both.

    Row s has training seed s on the same examples as the other rows. The margins of the
    means over seeds, by Student's t, and over examples (`mean_interval`) are added in
    squares (Zou & Donner 2008). Simulated intervals for 95 % hold 96 to 99 % for two to
    five seeds, whatever their variance. With one seed, the interval is over examples
    alone: other seeds lie outside if they differ. Raises ValueError for other shapes and
    values that are not finite.
    """
    values_SN = np.asarray(values_SN, np.float64)
    if values_SN.ndim != 2 or not values_SN.size or not np.isfinite(values_SN).all():
        raise ValueError(
            'A two-level interval needs finite values [seeds, sentences], but the shape '
            f'is {values_SN.shape}, and {np.sum(~np.isfinite(values_SN))} values are '
            'not finite.'
        )
    value, low, high = mean_interval(values_SN.mean(axis=0), scale, clusters)
    reach, seeds = 0.0, len(values_SN)
    if seeds > 1:
        reach = t_margin(values_SN.mean(axis=1)) / math.sqrt(seeds)
    below, above = (math.hypot(end - value, reach) for end in (low, high))
    return Interval(value, value - below, value + above)


def t_margin(values_R):
    """Returns the margin of error of a t interval for a single value: t_(R - 1) s.

    s is the standard deviation of the values, and t_(R - 1) the quantile of Student's t.
    """
    # The functions of scipy.stats give the same numbers, a hundred times slower.
    quantile = scipy.special.stdtrit(len(values_R) - 1, (1 + LEVEL) / 2)
    return float(quantile * np.std(values_R, ddof=1))


def over_seeds(first_S, second_S, *, tests=1):
    """Tests whether two training methods differ; pair s has the two runs with seed s.

    Student's paired t-test (Student 1908), p = P(|T| > |mean / (s / sqrt S)|) with S - 1
    degrees of freedom, which assumes normal differences. From FLIPPED_SEEDS pairs on,
    `sign_flip` instead, which assumes only symmetric differences; unless its smallest p
    times the number of `tests` that are corrected together exceeds 1 - LEVEL, so that no
    difference could be significant. Also `sign_flip` for a difference other than 0 that
    all seeds share, for which t has no value. The interval is Student's in all cases.
    With fewer than MIN_SEEDS pairs there is no test. Raises ValueError for values that
    are not finite and for lists of different lengths.
    """
    difference_S = _differences(first_S, second_S)
    mean, seeds = float(difference_S.mean()), len(difference_S)
    if seeds < MIN_SEEDS:
        return OverSeeds(mean, math.nan, math.nan, math.nan, seeds, '')
    margin = t_margin(difference_S) / math.sqrt(seeds)
    if seeds >= FLIPPED_SEEDS and smallest_p(seeds) * tests <= 1 - LEVEL:
        p, test = sign_flip(first_S, second_S), 'sign flips'
    else:
        p, test = 1.0, 't-test'
        # Below this are rounding errors: the difference is 0, or it is constant.
        minimum = 1e-12 * np.abs([first_S, second_S]).max()
        if margin > minimum:
            t = mean / (np.std(difference_S, ddof=1) / math.sqrt(seeds))
            p = 2 * float(scipy.special.stdtr(seeds - 1, -abs(t)))
        elif abs(mean) > minimum:  # t is infinite
            p, test = sign_flip(first_S, second_S), 'sign flips'
    return OverSeeds(mean, mean - margin, mean + margin, p, seeds, test)


def smallest_p(seeds):
    """Returns the p of `sign_flip` if all differences are equal."""
    return max(2.0 ** (1 - seeds), 1 / (1 + _FLIPS))


def corrected(pairs):
    """Returns [(OverSeeds, Holm-adjusted p)] of [(first_S, second_S)], jointly corrected;
    for a pair without any seeds the difference is NaN."""
    count = sum(len(first_S) >= MIN_SEEDS for first_S, _ in pairs)
    none = OverSeeds(math.nan, math.nan, math.nan, math.nan, 0, '')
    results = [over_seeds(*pair, tests=count) if len(pair[0]) else none for pair in pairs]
    return list(zip(results, holm([result.p for result in results]).tolist()))


def paired(first, second):
    """Returns [values of first, values of second] at the seeds that both dicts have."""
    both = sorted(first.keys() & second.keys())
    return [[side[seed] for seed in both] for side in (first, second)]


def sign_flip(first_N, second_N, *, resamples=_FLIPS):
    """Returns the p-value of the mean difference under random sign flips (Fisher 1935).

    Up to 14 pairs all sign patterns are enumerated, so that five seeds give at least 2 /
    32. Above that, `resamples` random patterns are drawn:

        p = (1 + number as extreme) / (1 + resamples)
    """
    difference_N = _differences(first_N, second_N)
    count = len(difference_N)
    if count == 1:
        return 1.0
    result = scipy.stats.permutation_test(
        (difference_N,),
        lambda signed_RN, axis: np.abs(signed_RN.sum(axis=axis)),
        permutation_type='samples',  # flips the signs of a single sample
        vectorized=True,
        n_resamples=2**count if count <= _EXACT_PAIRS else resamples,
        batch=max(1, _CHUNK // count),
        alternative='greater',
        rng=0,
    )
    return float(result.pvalue)


def paired_p(first_N, second_N, clusters=()):
    """Returns the p-value of a mean difference over examples.

    By `sign_flip`, or by Student's t with the `variance` of examples that have a key in
    common, such as pairs that share a text, whose signs are not independent.
    """
    difference_N = _differences(first_N, second_N)
    spread, freedom, count = variance(difference_N, clusters)
    if (spread, freedom, count) == variance(difference_N) or not spread:
        return sign_flip(first_N, second_N, resamples=5000)
    t = abs(difference_N.mean()) / math.sqrt(spread)
    return 2 * float(scipy.special.stdtr(freedom, -t))


def holm(p_T):
    """Returns p-values adjusted by Holm's method (Holm 1979).

    With probability 95 %, none of the claims with an adjusted p <= 0.05 is false. NaN, of
    a comparison without a test, stays NaN and is not counted. Raises ValueError for
    values outside [0, 1].
    """
    p_T = np.asarray(p_T, np.float64)
    known_K = np.flatnonzero(~np.isnan(p_T))
    if not np.all((p_T[known_K] >= 0) & (p_T[known_K] <= 1)):
        raise ValueError(f'p-values must be between 0 and 1, but these are {p_T}.')
    order_K = known_K[np.argsort(p_T[known_K], kind='stable')]
    scaled_K = p_T[order_K] * np.arange(len(order_K), 0, -1)
    adjusted_T = np.full_like(p_T, np.nan)
    adjusted_T[order_K] = np.minimum(np.maximum.accumulate(scaled_K), 1.0)
    return adjusted_T


def paired_lists(what, first_N, second_N, least=1):
    """Returns two lists as float64; raises ValueError, naming `what` needs them, unless
    they are finite and of one length."""
    first_N, second_N = np.asarray(first_N, float), np.asarray(second_N, float)
    if first_N.shape != second_N.shape or first_N.ndim != 1 or len(first_N) < least:
        raise ValueError(
            f'{what} needs two lists of one length, at least {least}, but the shapes are '
            f'{first_N.shape} and {second_N.shape}.'
        )
    if not np.isfinite([first_N, second_N]).all():
        raise ValueError(f'{what} needs finite values, but some are NaN or inf.')
    return first_N, second_N


def _differences(first_N, second_N):
    return np.subtract(*paired_lists('A paired test', first_N, second_N))
