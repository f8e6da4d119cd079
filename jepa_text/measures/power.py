"""Could a paired t-test over seeds have shown a difference? Before it, or after one that
showed none.

    power         how often it shows a difference of that size
    detectable    the smallest difference that it shows so often

The deviation is that of the differences of pairs. Of few seeds it is itself known only
roughly (of five: within a factor of 0.6 to 2.9, 95 %), and so is what is told here. From
statistics.FLIPPED_SEEDS on, sign flips take the place of t, and are about as powerful.
"""

import functools
import math

import numpy as np
import scipy

from jepa_text.measures import statistics

ENOUGH = 0.8


def power(difference, deviation, seeds, *, tests=1, level=statistics.LEVEL):
    """P(|T| > c), T noncentral t with seeds - 1 degrees of freedom and noncentrality
    |difference| / (deviation / sqrt seeds) (Cohen 1988, chapter 2); c is two-sided at
    (1 - level) / tests, the smallest p that Holm asks of any of so many.

    NaN below two seeds.

    >>> print(round(power(1.0, 1.0, 5), 3), round(power(1.0, 1.0, 5, tests=10), 3))
    0.401 0.072
    """
    if seeds < 2 or not math.isfinite(deviation):
        return math.nan
    if not deviation:
        return 1.0 if difference else (1 - level) / tests
    shift = abs(difference) / (deviation / math.sqrt(seeds))
    degrees = seeds - 1
    bound = critical(seeds, tests=tests, level=level)
    # Far out the other tail has no digits left, and is NaN.
    other = np.nan_to_num(scipy.stats.nct.cdf(-bound, degrees, shift))
    return float(scipy.stats.nct.sf(bound, degrees, shift) + other)


def detectable(deviation, seeds, *, tests=1, level=statistics.LEVEL, enough=ENOUGH):
    """The smallest difference that is shown with the power `enough`; NaN below two seeds.

    >>> print(round(detectable(1.0, 5), 2), round(detectable(1.0, 5, tests=10), 2))
    1.68 3.16
    """
    if seeds < 2 or not math.isfinite(deviation):
        return math.nan
    return _detectable(seeds, tests, level, enough) * deviation


@functools.lru_cache
def _detectable(seeds, tests, level, enough):
    asked = dict(deviation=1.0, seeds=seeds, tests=tests, level=level)
    high = critical(seeds, tests=tests, level=level)
    while power(high, **asked) < enough:
        high *= 2
    found = scipy.optimize.brentq(lambda x: power(x, **asked) - enough, 0.0, high)
    return float(found)


def critical(seeds, *, tests=1, level=statistics.LEVEL):
    """What |t| must exceed, two-sided at (1 - level) / tests.

    >>> print(round(critical(5), 3))
    2.776
    """
    return float(scipy.stats.t.isf((1 - level) / (2 * tests), seeds - 1))
