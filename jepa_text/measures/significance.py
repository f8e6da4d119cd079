"""Is one model better than another? Paired tests, and corrections.

    over_seeds          the verdict on two ways of training, from runs of several seeds
    paired_bootstrap    the difference of means, with interval
    sign_flip           permutation test of the mean difference: few assumptions
    wilcoxon            of the ranks of differences: robust against a few large ones
    mcnemar             right and wrong answers
    holm, benjamini_hochberg    p-values when many things were compared

Pairs are sentences, or training seeds; p is two-sided. With sentences as pairs, a small p
is about these two trained models and not about their objectives, however many seeds were
averaged before: where seeds differ by 0.04, such a test rejects four true nulls of ten.
"""

import math
from typing import NamedTuple

import numpy as np

from jepa_text.measures import statistics

LEAST_SEEDS = 5  # for a verdict
FLIPPED_SEEDS = 8  # from which on sign flips can be sure enough
_EXACT_PAIRS = 14  # 2^14 sign patterns are all looked at
_CHUNK = 4_000_000


class Paired(NamedTuple):
    """Mean of first minus second, its interval, and p of no difference."""

    difference: float
    low: float
    high: float
    p: float


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


def over_seeds(first_S, second_S, *, tests=1, level=statistics.LEVEL):
    """The verdict: do two ways of training differ? Pair s holds the two runs of a seed.

    Student's paired t-test (Student 1908), p = P(|T| > |mean / (s / sqrt S)|) with S - 1
    degrees of freedom, which assumes that differences are normal. From FLIPPED_SEEDS on
    `sign_flip` instead, which assumes only that they are symmetric; unless its least p,
    2^(1 - S), times the number of `tests` that are corrected together is above 1 - level,
    so that no difference could ever pass. The interval is Student's in both cases. With
    fewer than LEAST_SEEDS pairs there is no verdict.

    >>> print(round(over_seeds([3.0, 3.1, 2.9, 3.2, 2.8], [2.0] * 5).p, 6))
    0.000145
    >>> said(over_seeds([3.0, 3.1], [2.0, 2.0]))
    'no verdict: 2 seeds, 5 needed'
    """
    difference_S = _differences(first_S, second_S)
    mean, seeds = float(difference_S.mean()), len(difference_S)
    if seeds < LEAST_SEEDS:
        return OverSeeds(mean, math.nan, math.nan, math.nan, seeds, '')
    from scipy import special  # jax needs scipy, so it is there

    error = float(np.std(difference_S, ddof=1)) / math.sqrt(seeds)
    reach = error * float(special.stdtrit(seeds - 1, (1 + level) / 2))
    if seeds >= FLIPPED_SEEDS and 2.0 ** (1 - seeds) * tests <= 1 - level:
        p, test = sign_flip(first_S, second_S), 'sign flips'
    else:
        test = 't-test'
        # Below it are rounding errors: of no difference, or of one that never varies.
        least = 1e-12 * np.abs([first_S, second_S]).max()
        p = float(abs(mean) <= least)
        if error > least:
            p = 2 * float(special.stdtr(seeds - 1, -abs(mean) / error))
    return OverSeeds(mean, mean - reach, mean + reach, p, seeds, test)


def said(found, p=None, names=('the first', 'the second'), level=statistics.LEVEL):
    """The verdict of an OverSeeds in words; `p` is the corrected one, if any.

    >>> said(OverSeeds(0.2, 0.1, 0.3, 0.01, 5, 't-test'), names=('a', 'b'))
    'a is above b (p = 0.01, 5 seeds)'
    """
    count = f'{found.seeds} seed{"" if found.seeds == 1 else "s"}'
    if not found.test:
        return f'no verdict: {count}, {LEAST_SEEDS} needed'
    p = found.p if p is None else p
    end = f'(p = {p:.2g}, {count})'
    if p > 1 - level:
        return f'no difference shown {end}'
    return (
        f'{names[0]} is {"above" if found.difference > 0 else "below"} {names[1]} {end}'
    )


def paired_bootstrap(
    first_N, second_N, *, level=statistics.LEVEL, resamples=10_000, seed=0
):
    """Paired: sentences are resampled, both models together.

    p = twice the share of resampled differences on the other side of 0 (ties count),
    plus one in both counts, so never 0. For p alone `sign_flip` is the better test.

    >>> paired_bootstrap([3.0, 3.0, 3.0], [1.0, 1.0, 1.0], resamples=999)
    Paired(difference=2.0, low=2.0, high=2.0, p=0.002)
    """
    difference_N = _differences(first_N, second_N)
    means_R = statistics.resampled_means(difference_N, resamples, seed)
    found = statistics.percentile(float(difference_N.mean()), means_R, level=level)
    other = min(np.sum(means_R <= 0), np.sum(means_R >= 0))
    return Paired(*found, p=min(1.0, 2 * float(other + 1) / (resamples + 1)))


def sign_flip(first_N, second_N, *, resamples=10_000, seed=0):
    """p of the mean difference if every sign were a coin toss (Fisher 1935).

    Up to 14 pairs all sign patterns are counted, so five seeds give at least 2 / 32;
    beyond, `resamples` random ones: p = (1 + as extreme) / (1 + resamples).

    >>> sign_flip([2.0, 3.0, 4.0], [1.0, 1.0, 1.0])
    0.25
    """
    difference_N = _differences(first_N, second_N)
    count = len(difference_N)
    # Sums that are equal in exact arithmetic must count as equal.
    observed = abs(difference_N.sum()) - 1e-12 * np.abs(difference_N).sum()
    if count <= _EXACT_PAIRS:
        bits_RN = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        sums_R = (1 - 2 * bits_RN) @ difference_N
        return float(np.mean(np.abs(sums_R) >= observed))
    rng, extreme = np.random.default_rng(seed), 0
    size = max(1, _CHUNK // count)
    for start in range(0, resamples, size):
        shape = min(size, resamples - start), count
        sign_RN = 1 - 2.0 * rng.integers(2, size=shape, dtype=np.int8)
        extreme += int(np.sum(np.abs(sign_RN @ difference_N) >= observed))
    return (1 + extreme) / (1 + resamples)


def wilcoxon(first_N, second_N):
    """p of Wilcoxon's signed-rank test; 1 when all pairs are equal. Needs scipy.

    >>> print(round(wilcoxon([2.0, 3.0, 5.0], [1.0, 1.0, 1.0]), 4))
    0.25
    """
    difference_N = _differences(first_N, second_N)
    if not difference_N.any():
        return 1.0
    try:
        from scipy import stats
    except ImportError as error:
        raise ImportError(
            "Wilcoxon's test needs scipy: pip install 'jepa-text[eval]'. `sign_flip` "
            'needs numpy alone.'
        ) from error
    return float(stats.wilcoxon(difference_N).pvalue)


def mcnemar(first_right_N, second_right_N):
    """p that two classifiers err equally often: the exact test (McNemar 1947).

    Of the sentences that only one gets right, how many are the first's: binomial, 1/2.

    >>> mcnemar([True] * 6 + [False], [False] * 6 + [False])
    0.03125
    """
    first_N = np.asarray(first_right_N, bool)
    second_N = np.asarray(second_right_N, bool)
    _differences(first_N, second_N)
    only_first = int(np.sum(first_N & ~second_N))
    only_second = int(np.sum(~first_N & second_N))
    count, fewer = only_first + only_second, min(only_first, only_second)
    # Whole numbers: neither 2^-count nor the binomials fit into a float.
    ways, term = 0, 1
    for k in range(fewer + 1):
        ways += term
        term = term * (count - k) // (k + 1)
    return min(1.0, 2 * ways / 2**count)


def holm(p_T):
    """Adjusted p-values: all claims p <= 0.05 hold together, but for 5 % (Holm 1979).

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p_T = _probabilities(p_T)
    order_T = np.argsort(p_T, kind='stable')
    scaled_T = p_T[order_T] * np.arange(len(p_T), 0, -1)
    adjusted_T = np.empty_like(p_T)
    adjusted_T[order_T] = np.minimum(np.maximum.accumulate(scaled_T), 1.0)
    return adjusted_T


def holm_known(p_T):
    """`holm` of the p-values that there are; NaN, of no verdict, stays NaN.

    >>> holm_known([0.01, float('nan'), 0.04]).tolist()
    [0.02, nan, 0.04]
    """
    p_T = np.asarray(p_T, np.float64)
    known_T = ~np.isnan(p_T)
    adjusted_T = np.full_like(p_T, np.nan)
    adjusted_T[known_T] = holm(p_T[known_T])
    return adjusted_T


def benjamini_hochberg(p_T):
    """Adjusted p-values: of the claims p <= 0.05, 5 % are expected false (1995).

    >>> benjamini_hochberg([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.04, 0.04]
    """
    p_T = _probabilities(p_T)
    order_T = np.argsort(p_T, kind='stable')[::-1]
    scaled_T = p_T[order_T] * len(p_T) / np.arange(len(p_T), 0, -1)
    adjusted_T = np.empty_like(p_T)
    adjusted_T[order_T] = np.minimum(np.minimum.accumulate(scaled_T), 1.0)
    return adjusted_T


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


def _probabilities(p_T):
    p_T = np.asarray(p_T, np.float64)
    if p_T.ndim != 1 or not np.all((p_T >= 0) & (p_T <= 1)):
        raise ValueError(f'p-values lie between 0 and 1, but these are {p_T}.')
    return p_T
