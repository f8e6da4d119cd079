"""Confidence intervals and significance tests for comparisons of models.

    bootstrap_interval    for any statistic over sentences
    two_level_interval    for a mean over seeds x sentences
    over_seeds            compares two training methods by runs with several seeds
    sign_flip             permutation test of a mean difference, with few assumptions
    holm                  corrects p-values for multiple comparisons

Intervals are (value, low, high) at `level`, with an explicit seed. Tests over sentences
say nothing about other training runs: with sentences as pairs, a small p is about these
two trained models and not about their objectives, however many seeds were averaged
before. If seeds differ by 0.04, such a test rejects four of ten true null hypotheses. See
scipy.stats for what is not here: BCa intervals (`bootstrap`), Wilcoxon's test, the false
discovery rate (`false_discovery_control`).
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
_RESAMPLED = 65_536  # values at a time: fewer are no slower, and many more are


class Interval(NamedTuple):
    """A value with the bounds of its interval."""

    value: float
    low: float
    high: float


class OverSeeds(NamedTuple):
    """The mean of first minus second over `seeds` pairs of runs, its interval and p.

    Without a test, `low`, `high` and `p` are NaN and `test` is ''.
    """

    difference: float
    low: float
    high: float
    p: float
    seeds: int
    test: str


def bootstrap_interval(statistic, *samples, level=LEVEL, resamples=2000, seed=0):
    """Returns the statistic with its percentile bootstrap interval (Efron 1979).

    Several samples are resampled together: row n of each is sentence n. Resamples for
    which the statistic is NaN, such as the AUC of a single class, are ignored. Raises
    ValueError for samples of different lengths and for a value that is not finite.

    >>> bootstrap_interval(np.mean, [2.0, 2.0], resamples=3)
    Interval(value=2.0, low=2.0, high=2.0)
    """
    samples = [np.asarray(sample) for sample in samples]
    sizes = [len(sample) for sample in samples]
    if len(set(sizes)) != 1 or not sizes[0]:
        raise ValueError(
            f'Samples that are resampled together need the same length, but have {sizes}.'
        )
    rng, values = np.random.default_rng(seed), []
    is_mean = statistic is np.mean and len(samples) == 1 and samples[0].ndim == 1
    for index_RN in _resampled(sizes[0], resamples, rng):
        if is_mean:  # the commonest, and far faster at once
            values += samples[0][index_RN].mean(axis=1).tolist()
        else:
            values += [statistic(*(x[index_N] for x in samples)) for index_N in index_RN]
    return _percentile(statistic(*samples), values, level)


def two_level_interval(values_SN, *, level=LEVEL, resamples=10_000, seed=0):
    """Returns the mean over seeds and sentences; both are resampled (Owen & Eckles 2012).

    A description, not a test: with few seeds S the bootstrap is too narrow, by about
    sqrt((S - 1) / S) and more; with five, 16 % of true values lie outside. Row s has
    training seed s on the same sentences as the other rows. With one seed, the interval
    is over sentences and says nothing about seeds. Raises ValueError for other shapes and
    values that are not finite.

    >>> two_level_interval([[1.0, 1.0], [1.0, 1.0]])
    Interval(value=1.0, low=1.0, high=1.0)
    """
    values_SN = np.asarray(values_SN, np.float64)
    if values_SN.ndim != 2 or not values_SN.size or not np.isfinite(values_SN).all():
        raise ValueError(
            'A two-level interval needs finite values [seeds, sentences], but the shape '
            f'is {values_SN.shape}, and {np.sum(~np.isfinite(values_SN))} values are '
            'not finite.'
        )
    (seeds, count), rng, means = values_SN.shape, np.random.default_rng(seed), []
    # How often each seed is drawn, in as many draws as there are seeds.
    drawn_RS = rng.multinomial(seeds, np.full(seeds, 1 / seeds), resamples)
    for index_RN in _resampled(count, resamples, rng):
        mean_RN = drawn_RS[len(means) :][: len(index_RN)] @ values_SN / seeds
        means += np.take_along_axis(mean_RN, index_RN, axis=1).mean(axis=1).tolist()
    return _percentile(values_SN.mean(), means, level)


def t_margin(values_R, level=LEVEL):
    """Returns the margin of error of a t interval for a single value: t_(R - 1) s.

    s is the standard deviation of the values, and t_(R - 1) the quantile of Student's t.

    >>> print(round(t_margin([0.0, 1.0, 2.0]), 3))
    4.303
    """
    # The functions of scipy.stats give the same numbers, a hundred times slower.
    quantile = scipy.special.stdtrit(len(values_R) - 1, (1 + level) / 2)
    return float(quantile * np.std(values_R, ddof=1))


def over_seeds(first_S, second_S, *, tests=1, level=LEVEL):
    """Tests whether two training methods differ; pair s has the two runs with seed s.

    Student's paired t-test (Student 1908), p = P(|T| > |mean / (s / sqrt S)|) with S - 1
    degrees of freedom, which assumes normal differences. From FLIPPED_SEEDS pairs on,
    `sign_flip` instead, which assumes only symmetric differences; unless its smallest p
    times the number of `tests` that are corrected together exceeds 1 - level, so that no
    difference could be significant. Also `sign_flip` for a difference other than 0 that
    all seeds share, for which t has no value. The interval is Student's in all cases.
    With fewer than MIN_SEEDS pairs there is no test. Raises ValueError for values that
    are not finite and for lists of different lengths.

    >>> print(round(over_seeds([3.0, 3.1, 2.9, 3.2, 2.8], [2.0] * 5).p, 6))
    0.000145
    """
    difference_S = _differences(first_S, second_S)
    mean, seeds = float(difference_S.mean()), len(difference_S)
    if seeds < MIN_SEEDS:
        return OverSeeds(mean, math.nan, math.nan, math.nan, seeds, '')
    margin = t_margin(difference_S, level) / math.sqrt(seeds)
    smallest = max(2.0 ** (1 - seeds), 1 / (1 + _FLIPS))
    if seeds >= FLIPPED_SEEDS and smallest * tests <= 1 - level:
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


def corrected(pairs):
    """Returns [(OverSeeds, Holm-adjusted p)] of [(first_S, second_S)], jointly corrected.

    For a pair without any seeds the difference is NaN.

    >>> corrected([([3.0, 3.1], [2.0, 2.0])])[0][0].seeds
    2
    """
    count = sum(len(first_S) >= MIN_SEEDS for first_S, _ in pairs)
    none = OverSeeds(math.nan, math.nan, math.nan, math.nan, 0, '')
    results = [over_seeds(*pair, tests=count) if len(pair[0]) else none for pair in pairs]
    return list(zip(results, holm([result.p for result in results]).tolist()))


def paired(first, second):
    """Returns [values of first, values of second] at the seeds that both dicts have."""
    both = sorted(first.keys() & second.keys())
    return [[side[seed] for seed in both] for side in (first, second)]


def sign_flip(first_N, second_N, *, resamples=_FLIPS, seed=0):
    """Returns the p-value of the mean difference under random sign flips (Fisher 1935).

    Up to 14 pairs all sign patterns are enumerated, so that five seeds give at least 2 /
    32. Above that, `resamples` random patterns are drawn:

        p = (1 + number as extreme) / (1 + resamples)

    >>> sign_flip([2.0, 3.0, 4.0], [1.0, 1.0, 1.0])
    0.25
    """
    difference_N = _differences(first_N, second_N)
    count = len(difference_N)
    result = scipy.stats.permutation_test(
        (difference_N,),
        lambda signed_RN, axis: np.abs(signed_RN.sum(axis=axis)),
        permutation_type='samples',  # flips the signs of a single sample
        vectorized=True,
        n_resamples=2**count if count <= _EXACT_PAIRS else resamples,
        batch=max(1, _CHUNK // count),
        alternative='greater',
        rng=seed,
    )
    return float(result.pvalue)


def holm(p_T):
    """Returns p-values adjusted by Holm's method (Holm 1979).

    With probability 95 %, none of the claims with an adjusted p <= 0.05 is false. NaN, of
    a comparison without a test, stays NaN and is not counted. Raises ValueError for
    values outside [0, 1].

    >>> holm([0.01, 0.04, float('nan'), 0.03]).round(3).tolist()
    [0.03, 0.06, nan, 0.06]
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


def _resampled(count, resamples, rng):
    """Yields indices of resamples of `count` values, [rows, N], a few rows at a time."""
    rows = max(1, _RESAMPLED // count)
    for first in range(0, resamples, rows):
        yield rng.integers(count, size=(min(rows, resamples - first), count))


def _percentile(value, values_R, level):
    """Returns the Interval between the quantiles (1 - level) / 2 and (1 + level) / 2."""
    if not 0 < level < 1 or not values_R or not np.isfinite(value):
        raise ValueError(
            f'level={level}, {len(values_R)} resamples, a value of {value}: an interval '
            'needs a level between 0 and 1, at least one resample and a finite value.'
        )
    low, high = np.nanquantile(values_R, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(value), float(low), float(high))


def _differences(first_N, second_N):
    first_N = np.asarray(first_N, np.float64)
    second_N = np.asarray(second_N, np.float64)
    if first_N.shape != second_N.shape or first_N.ndim != 1 or not first_N.size:
        raise ValueError(
            'A paired test needs two lists over the same sentences or seeds, but the '
            f'shapes are {first_N.shape} and {second_N.shape}.'
        )
    difference_N = first_N - second_N
    if not np.isfinite(difference_N).all():
        raise ValueError('A paired test needs finite values, but some are NaN or inf.')
    return difference_N
