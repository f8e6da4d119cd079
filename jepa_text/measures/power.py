"""Power of paired t-tests over seeds: which differences could a test have detected?

    power         the probability that a difference of a given size is significant
    detectable    the smallest difference that is significant with a given probability
    seeds         the number of seeds with which a difference is

Use it before an experiment, or after a test without a significant result. The deviation
is that of the paired differences. With few seeds it is known only roughly (with five,
within a factor of 0.6 to 2.9, 95 %), and so is the power. From statistics.FLIPPED_SEEDS
seeds on, sign flips replace the t-test, with about the same power.
"""

import bisect
import functools
import math

import numpy as np
import scipy

from jepa_text.measures import statistics

ENOUGH = 0.8  # the conventional power of a study
MAX_SEEDS = 1000  # seeds beyond which nobody trains
_ROUNDING = 1e-9  # deviations of equal differences, relative to these


def power(difference, deviation, seeds, *, tests=1):
    """Returns P(|T| > c), the power of a two-sided paired t-test over seeds.

    T is noncentral t with seeds - 1 degrees of freedom and noncentrality

        |difference| / (deviation / sqrt seeds)

    (Cohen 1988, chapter 2). c is the critical value, two-sided at (1 - LEVEL) / tests:
    the smallest p that Holm's correction requires of any of `tests` tests. Of equal
    differences, which are tested by sign flips: 1 if their smallest p is that small. NaN
    below two seeds, and for a difference or deviation that is not finite.
    """
    if seeds < 2 or not math.isfinite(difference) or not math.isfinite(deviation):
        return math.nan
    level = (1 - statistics.LEVEL) / tests
    if deviation <= _ROUNDING * abs(difference):
        return float(statistics.smallest_p(seeds) <= level) if difference else level
    shift = abs(difference) / (deviation / math.sqrt(seeds))
    bound = critical(seeds, tests=tests)
    # P(T < bound) and P(T < -bound), as scipy.stats.nct.cdf, 40 times faster. Where they
    # are almost 0, they underflow to NaN.
    tails = scipy.special.nctdtr(seeds - 1, shift, [bound, -bound])
    below, other_tail = np.nan_to_num(tails)
    return float(1 - below + other_tail)


def detectable(deviation, seeds, *, tests=1):
    """Returns the smallest difference with a power of ENOUGH; NaN below two seeds."""
    if seeds < 2 or not math.isfinite(deviation):
        return math.nan
    return _detectable(seeds, tests) * deviation


@functools.lru_cache
def _detectable(seeds, tests):
    def excess(difference):
        return power(difference, 1.0, seeds, tests=tests) - ENOUGH

    high = critical(seeds, tests=tests)
    while excess(high) < 0:
        high *= 2
    return float(scipy.optimize.brentq(excess, 0.0, high))


def seeds(difference, deviation, *, tests=1):
    """Returns the smallest number of seeds, from MIN_SEEDS, with a power of ENOUGH; None
    beyond MAX_SEEDS, and if the difference or deviation is not finite.

    >>> seeds(1.0, 1.0), seeds(1.0, 1.0, tests=10), seeds(0.01, 1.0)
    (10, 18, None)
    """
    counts = range(statistics.MIN_SEEDS, MAX_SEEDS + 1)
    place = bisect.bisect_left(
        counts, ENOUGH, key=lambda count: power(difference, deviation, count, tests=tests)
    )
    known = math.isfinite(difference) and math.isfinite(deviation)
    return counts[place] if known and place < len(counts) else None


def needed(result, tests):
    """Returns `seeds` of the difference of a statistics.OverSeeds with a test."""
    reach = (result.high - result.low) / 2  # critical * deviation / sqrt seeds
    deviation = reach * math.sqrt(result.seeds) / critical(result.seeds)
    return seeds(result.difference, deviation, tests=tests)


def critical(seeds, *, tests=1):
    """Returns the critical value of |t|, two-sided at (1 - LEVEL) / tests."""
    # Symmetric, so minus the lower quantile; as scipy.stats.t.isf, far slower.
    return -float(scipy.special.stdtrit(seeds - 1, (1 - statistics.LEVEL) / (2 * tests)))
