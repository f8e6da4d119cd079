"""How sure a number is, and whether one model is better than another.

    bootstrap_interval    any statistic of the sentences
    two_level_interval    the mean over seeds x sentences
    over_seeds            the verdict on two ways of training, from runs of several seeds
    sign_flip             permutation test of a mean difference: few assumptions
    holm                  p-values when many things were compared

Intervals are (value, low, high), at `level`, from an explicit seed. What is over
sentences says nothing about another training run: with sentences as pairs, a small p is
about these two trained models and not about their objectives, however many seeds were
averaged before; where seeds differ by 0.04, such a test rejects four true nulls of ten.
scipy.stats has what is not here: BCa intervals (`bootstrap`), Wilcoxon's test, the false
discovery rate (`false_discovery_control`).
"""

import math
from typing import NamedTuple

import numpy as np
import scipy

LEVEL = 0.95
MIN_SEEDS = 5  # for a verdict
FLIPPED_SEEDS = 8  # from which on sign flips can be sure enough
_EXACT_PAIRS = 14  # 2^14 sign patterns are all looked at
_CHUNK = 4_000_000


class Interval(NamedTuple):
    """A value and the ends of its interval."""

    value: float
    low: float
    high: float


class OverSeeds(NamedTuple):
    """The mean of first minus second over `seeds` pairs of runs, with its interval.

    Without a verdict low, high and p are NaN and `test` is ''.
    """

    difference: float
    low: float
    high: float
    p: float
    seeds: int
    test: str


def bootstrap_interval(statistic, *samples, level=LEVEL, resamples=2000, seed=0):
    """The statistic, with its percentile bootstrap interval (Efron 1979).

    Several samples are resampled together: row n of all of them is sentence n. Resamples
    of which the statistic is NaN, as the AUC of one class is, are left out.

    >>> bootstrap_interval(np.mean, [2.0, 2.0], resamples=3)
    Interval(value=2.0, low=2.0, high=2.0)
    """
    samples = [np.asarray(sample) for sample in samples]
    sizes = [len(sample) for sample in samples]
    if len(set(sizes)) != 1 or not sizes[0]:
        raise ValueError(
            f'Samples that are drawn together need one length, but have {sizes}.'
        )
    rng, values = np.random.default_rng(seed), []
    for _ in range(resamples):
        index_N = rng.integers(sizes[0], size=sizes[0])
        values.append(statistic(*(sample[index_N] for sample in samples)))
    return _percentile(statistic(*samples), values, level)


def two_level_interval(values_SN, *, level=LEVEL, resamples=10_000, seed=0):
    """The mean over seeds and sentences, both resampled (Owen & Eckles 2012).

    It describes, and is no test: a bootstrap over few seeds is too narrow, by about
    sqrt((S - 1) / S) and more; over five, 16 % of true values lie outside. Row s holds
    training seed s on the same sentences as the others. One seed gives the interval over
    sentences; it says nothing about seeds then.

    >>> two_level_interval([[1.0, 1.0], [1.0, 1.0]])
    Interval(value=1.0, low=1.0, high=1.0)
    """
    values_SN = np.asarray(values_SN, np.float64)
    if values_SN.ndim != 2 or not np.isfinite(values_SN).all():
        raise ValueError(
            'A two-level interval needs finite values [seeds, sentences], but their '
            f'shape is {values_SN.shape}, of which {np.sum(~np.isfinite(values_SN))} '
            'are not finite.'
        )
    (seeds, count), rng, means = values_SN.shape, np.random.default_rng(seed), []
    for _ in range(resamples):
        drawn_SN = values_SN[rng.integers(seeds, size=seeds)]
        means.append(drawn_SN.mean(axis=0)[rng.integers(count, size=count)].mean())
    return _percentile(values_SN.mean(), means, level)


def t_reach(values_R, level=LEVEL):
    """How far an interval reaches from one value of so many: t_(R - 1) s, of Student's t.

    >>> print(round(t_reach([0.0, 1.0, 2.0]), 3))
    4.303
    """
    quantile = scipy.stats.t.ppf((1 + level) / 2, len(values_R) - 1)
    return float(quantile * np.std(values_R, ddof=1))


def over_seeds(first_S, second_S, *, tests=1, level=LEVEL):
    """The verdict: do two ways of training differ? Pair s holds the two runs of a seed.

    Student's paired t-test (Student 1908), p = P(|T| > |mean / (s / sqrt S)|) with S - 1
    degrees of freedom, which assumes that differences are normal. From FLIPPED_SEEDS on
    `sign_flip` instead, which assumes only that they are symmetric; unless its least p,
    2^(1 - S), times the number of `tests` that are corrected together is above 1 - level,
    so that no difference could ever pass. The interval is Student's in both cases. With
    fewer than MIN_SEEDS pairs there is no verdict.

    >>> print(round(over_seeds([3.0, 3.1, 2.9, 3.2, 2.8], [2.0] * 5).p, 6))
    0.000145
    """
    difference_S = _differences(first_S, second_S)
    mean, seeds = float(difference_S.mean()), len(difference_S)
    if seeds < MIN_SEEDS:
        return OverSeeds(mean, math.nan, math.nan, math.nan, seeds, '')
    reach = t_reach(difference_S, level) / math.sqrt(seeds)
    if seeds >= FLIPPED_SEEDS and 2.0 ** (1 - seeds) * tests <= 1 - level:
        p, test = sign_flip(first_S, second_S), 'sign flips'
    else:
        test = 't-test'
        # Below it are rounding errors: of no difference, or of one that never varies.
        minimum = 1e-12 * np.abs([first_S, second_S]).max()
        p = float(abs(mean) <= minimum)
        if reach > minimum:
            p = float(scipy.stats.ttest_1samp(difference_S, 0.0).pvalue)
    return OverSeeds(mean, mean - reach, mean + reach, p, seeds, test)


def corrected(pairs):
    """[(OverSeeds, its p after Holm)] of [(first_S, second_S)], corrected together.

    Of no seeds at all the difference is NaN.

    >>> corrected([([3.0, 3.1], [2.0, 2.0])])[0][0].seeds
    2
    """
    count = sum(len(first_S) >= MIN_SEEDS for first_S, _ in pairs)
    none = OverSeeds(math.nan, math.nan, math.nan, math.nan, 0, '')
    found = [over_seeds(*pair, tests=count) if len(pair[0]) else none for pair in pairs]
    return list(zip(found, holm([one.p for one in found]).tolist()))


def paired(first, second):
    """[values of the first, of the second] of {seed: value}, at the seeds of both."""
    both = sorted(first.keys() & second.keys())
    return [[side[seed] for seed in both] for side in (first, second)]


def sign_flip(first_N, second_N, *, resamples=10_000, seed=0):
    """p of the mean difference if every sign were a coin toss (Fisher 1935).

    Up to 14 pairs all sign patterns are counted, so five seeds give at least 2 / 32;
    beyond, `resamples` random ones: p = (1 + as extreme) / (1 + resamples).

    >>> sign_flip([2.0, 3.0, 4.0], [1.0, 1.0, 1.0])
    0.25
    """
    difference_N = _differences(first_N, second_N)
    count = len(difference_N)
    found = scipy.stats.permutation_test(
        (difference_N,),
        lambda signed_RN, axis: np.abs(signed_RN.sum(axis=axis)),
        permutation_type='samples',  # of one sample: its signs
        vectorized=True,
        n_resamples=2**count if count <= _EXACT_PAIRS else resamples,
        batch=max(1, _CHUNK // count),
        alternative='greater',
        rng=seed,
    )
    return float(found.pvalue)


def holm(p_T):
    """Adjusted p-values: all claims p <= 0.05 hold together, but for 5 % (Holm 1979).

    NaN, of what has no verdict, stays NaN and is not counted.

    >>> holm([0.01, 0.04, float('nan'), 0.03]).round(3).tolist()
    [0.03, 0.06, nan, 0.06]
    """
    p_T = np.asarray(p_T, np.float64)
    known_K = np.flatnonzero(~np.isnan(p_T))
    if not np.all((p_T[known_K] >= 0) & (p_T[known_K] <= 1)):
        raise ValueError(f'p-values lie between 0 and 1, but these are {p_T}.')
    order_K = known_K[np.argsort(p_T[known_K], kind='stable')]
    scaled_K = p_T[order_K] * np.arange(len(order_K), 0, -1)
    adjusted_T = np.full_like(p_T, np.nan)
    adjusted_T[order_K] = np.minimum(np.maximum.accumulate(scaled_K), 1.0)
    return adjusted_T


def _percentile(value, values_R, level):
    """The Interval between the quantiles (1 - level) / 2 and (1 + level) / 2."""
    if not 0 < level < 1 or not values_R or not np.isfinite(value):
        raise ValueError(
            f'level={level}, {len(values_R)} resamples, a value of {value}: an interval '
            'needs a level between 0 and 1, some resamples, and a finite value.'
        )
    low, high = np.nanquantile(values_R, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(value), float(low), float(high))


def _differences(first_N, second_N):
    first_N = np.asarray(first_N, np.float64)
    second_N = np.asarray(second_N, np.float64)
    if first_N.shape != second_N.shape or first_N.ndim != 1 or not first_N.size:
        raise ValueError(
            'A paired test needs two lists over the same sentences or seeds, but their '
            f'shapes are {first_N.shape} and {second_N.shape}.'
        )
    difference_N = first_N - second_N
    if not np.isfinite(difference_N).all():
        raise ValueError('A paired test needs finite values, but there is NaN or inf.')
    return difference_N
