"""Power of paired t-tests over seeds: which differences could a test have detected?

    power         the probability that a difference of a given size is significant
    detectable    the smallest difference that is significant with a given probability

Use it before an experiment, or after a test without a significant result. The deviation
is that of the paired differences. With few seeds it is known only roughly (with five,
within a factor of 0.6 to 2.9, 95 %), and so is the power. From statistics.FLIPPED_SEEDS
seeds on, sign flips replace the t-test, with about the same power.
"""

import functools
import math

import numpy as np
import scipy

from jepa_text.measures import statistics

ENOUGH = 0.8  # the conventional power of a study


def power(difference, deviation, seeds, *, tests=1, level=statistics.LEVEL):
    """Returns P(|T| > c), the power of a two-sided paired t-test over seeds.

    T is noncentral t with seeds - 1 degrees of freedom and noncentrality

        |difference| / (deviation / sqrt seeds)

    (Cohen 1988, chapter 2). c is the critical value, two-sided at (1 - level) / tests:
    the smallest p that Holm's correction requires of any of `tests` tests. NaN below two
    seeds, and for a difference or deviation that is not finite.

    >>> print(round(power(1.0, 1.0, 5), 3), round(power(1.0, 1.0, 5, tests=10), 3))
    0.401 0.072
    """
    if seeds < 2 or not math.isfinite(difference) or not math.isfinite(deviation):
        return math.nan
    if not deviation:
        return 1.0 if difference else (1 - level) / tests
    shift = abs(difference) / (deviation / math.sqrt(seeds))
    degrees = seeds - 1
    bound = critical(seeds, tests=tests, level=level)
    # P(T < bound) and P(T < -bound), as scipy.stats.nct.cdf, 40 times faster. Where they
    # are almost 0, they underflow to NaN.
    below, other_tail = np.nan_to_num(
        scipy.special.nctdtr(degrees, shift, [bound, -bound])
    )
    return float(1 - below + other_tail)


def detectable(deviation, seeds, *, tests=1, level=statistics.LEVEL, enough=ENOUGH):
    """Returns the smallest difference with a power of `enough`; NaN below two seeds.

    >>> print(round(detectable(1.0, 5), 2), round(detectable(1.0, 5, tests=10), 2))
    1.68 3.16
    """
    if seeds < 2 or not math.isfinite(deviation):
        return math.nan
    return _detectable(seeds, tests, level, enough) * deviation


@functools.lru_cache
def _detectable(seeds, tests, level, enough):
    options = dict(deviation=1.0, seeds=seeds, tests=tests, level=level)
    high = critical(seeds, tests=tests, level=level)
    while power(high, **options) < enough:
        high *= 2
    root = scipy.optimize.brentq(lambda x: power(x, **options) - enough, 0.0, high)
    return float(root)


def critical(seeds, *, tests=1, level=statistics.LEVEL):
    """Returns the critical value of |t|, two-sided at (1 - level) / tests.

    >>> print(round(critical(5), 3))
    2.776
    """
    # Symmetric, so minus the lower quantile; as scipy.stats.t.isf, far slower.
    return -float(scipy.special.stdtrit(seeds - 1, (1 - level) / (2 * tests)))
