"""How sure a number is: intervals over sentences, over training seeds, over both.

    mean_interval, bca_mean_interval     one value a sentence: accuracy, a score
    bootstrap_interval, bca_interval     any statistic of the sentences
    half_sample_interval                 geometry, where a repeated sentence would mislead
    two_level_interval                   seeds x sentences
    explained_by_control                 in words: would a control have said the same?

Every interval is (value, low, high), at `level`, from an explicit seed. Intervals over
sentences say nothing about another training run, and those over few seeds and sentences
describe: for a verdict on two ways of training there is `significance.over_seeds`.
"""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
RESAMPLES = 10_000
_CHUNK = 4_000_000  # indices drawn at a time


class Interval(NamedTuple):
    """A value and the ends of its interval."""

    value: float
    low: float
    high: float


class Verdict(NamedTuple):
    """`kind` is 'explained', 'unclear' or 'beyond'; `words` say so for a report."""

    kind: str
    words: str


def mean_interval(values_N, *, level=LEVEL, resamples=RESAMPLES, seed=0):
    """The mean, with its percentile bootstrap interval (Efron 1979).

    >>> mean_interval([1.0, 1.0, 1.0])
    Interval(value=1.0, low=1.0, high=1.0)
    """
    values_N = _checked(values_N)
    means_R = resampled_means(values_N, resamples, seed)
    return percentile(float(values_N.mean()), means_R, level=level)


def bca_mean_interval(values_N, *, level=LEVEL, resamples=RESAMPLES, seed=0):
    """The mean, with its BCa interval (Efron 1987): better for skewed values.

    >>> bca_mean_interval([1.0, 1.0, 1.0])
    Interval(value=1.0, low=1.0, high=1.0)
    """
    values_N = _checked(values_N)
    means_R = resampled_means(values_N, resamples, seed)
    left_out_N = (values_N.sum() - values_N) / max(len(values_N) - 1, 1)
    return bca(float(values_N.mean()), means_R, left_out_N, level=level)


def resampled_means(values_N, resamples=RESAMPLES, seed=0):
    """means_R of samples drawn anew with replacement: `bootstrap` of the mean, at once.

    >>> resampled_means([2.0, 2.0], resamples=3).tolist()
    [2.0, 2.0, 2.0]
    """
    values_N = _checked(values_N)
    count, rng = len(values_N), np.random.default_rng(seed)
    means = [
        values_N[rng.integers(count, size=(size, count))].mean(axis=1)
        for size in _sizes(resamples, count)
    ]
    return np.concatenate(means)


def bootstrap(statistic, *samples, resamples=2000, seed=0):
    """values_R: `statistic` of samples drawn anew with replacement, one call each.

    Several samples are resampled together: row n of all of them is sentence n.

    >>> bootstrap(np.mean, [2.0, 2.0], resamples=3).tolist()
    [2.0, 2.0, 2.0]
    """
    samples = _together(samples)
    count, rng = len(samples[0]), np.random.default_rng(seed)
    found = []
    for _ in range(resamples):
        index_N = rng.integers(count, size=count)
        found.append(float(statistic(*(sample[index_N] for sample in samples))))
    return np.array(found)


def bootstrap_interval(statistic, *samples, level=LEVEL, resamples=2000, seed=0):
    """The statistic, with its percentile interval; see `bootstrap`.

    >>> bootstrap_interval(np.mean, [2.0, 2.0], resamples=3)
    Interval(value=2.0, low=2.0, high=2.0)
    """
    samples = _together(samples)
    values_R = bootstrap(statistic, *samples, resamples=resamples, seed=seed)
    return percentile(float(statistic(*samples)), values_R, level=level)


def bca_interval(statistic, *samples, level=LEVEL, resamples=2000, seed=0):
    """The statistic, with its BCa interval: N calls more than `bootstrap_interval`.

    >>> bca_interval(np.mean, [2.0, 2.0], resamples=3)
    Interval(value=2.0, low=2.0, high=2.0)
    """
    samples = _together(samples)
    values_R = bootstrap(statistic, *samples, resamples=resamples, seed=seed)
    left_out_N = jackknife(statistic, *samples)
    return bca(float(statistic(*samples)), values_R, left_out_N, level=level)


def jackknife(statistic, *samples):
    """values_N: the statistic without sentence n.

    >>> jackknife(np.mean, [1.0, 2.0, 3.0]).tolist()
    [2.5, 2.0, 1.5]
    """
    samples = _together(samples)
    every_N = np.arange(len(samples[0]))
    return np.array(
        [
            float(statistic(*(np.delete(sample, n, axis=0) for sample in samples)))
            for n in every_N
        ]
    )


def half_sample_interval(statistic, *samples, level=LEVEL, resamples=100, seed=0):
    """The statistic, with an interval from random halves of the sentences.

    The spread of a statistic over halves drawn without replacement is its own standard
    error (delete-half jackknife, Shao & Wu 1989). A bootstrap repeats sentences, and
    repeated rows are neighbours at distance 0, which no sample of texts has: uniformity,
    dimension and hubness need this. Halves are compared with their own mean, so that a
    statistic that grows with the number of texts, as a rank does, is not shifted.

    >>> half_sample_interval(np.mean, [2.0, 2.0, 2.0])
    Interval(value=2.0, low=2.0, high=2.0)
    """
    samples = _together(samples)
    count, rng = len(samples[0]), np.random.default_rng(seed)
    if count < 2:
        raise ValueError('Half of one sentence is none: an interval needs at least two.')
    kept = count // 2
    halves_R = np.empty(resamples)
    for r in range(resamples):
        index_M = rng.permutation(count)[:kept]
        halves_R[r] = statistic(*(sample[index_M] for sample in samples))
    # r / d of the delete-d jackknife: 1 for an even count.
    deviations_R = (halves_R - halves_R.mean()) * math.sqrt(kept / (count - kept))
    value = float(statistic(*samples))
    return percentile(value, value + deviations_R, level=level)


def two_level_interval(values_SN, *, level=LEVEL, resamples=RESAMPLES, seed=0):
    """The mean over seeds and sentences, both resampled (Owen & Eckles 2012).

    It describes, and is no test: a bootstrap over few seeds is too narrow, by about
    sqrt((S - 1) / S) and more; over five, 16 % of true values lie outside. Row s holds
    training seed s on the same sentences as the others. One seed gives the interval over
    sentences; it says nothing about seeds then.

    >>> two_level_interval([[1.0, 1.0], [1.0, 1.0]])
    Interval(value=1.0, low=1.0, high=1.0)
    """
    values_SN = np.asarray(values_SN, np.float64)
    if values_SN.ndim != 2:
        raise ValueError(
            'A two-level interval needs values [seeds, sentences], but their shape is '
            f'{values_SN.shape}.'
        )
    _checked(values_SN.ravel())
    (seeds, count), rng = values_SN.shape, np.random.default_rng(seed)
    means = []
    for size in _sizes(resamples, count):
        weight_RS = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=size) / seeds
        values_RN = weight_RS @ values_SN
        index_RN = rng.integers(count, size=(size, count))
        means.append(np.take_along_axis(values_RN, index_RN, axis=1).mean(axis=1))
    return percentile(float(values_SN.mean()), np.concatenate(means), level=level)


def percentile(value, values_R, level=LEVEL):
    """The Interval between the quantiles (1 - level) / 2 and (1 + level) / 2.

    >>> percentile(2.0, np.arange(101.0), level=0.5)
    Interval(value=2.0, low=25.0, high=75.0)
    """
    _check_level(level)
    low, high = np.quantile(values_R, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(value), float(low), float(high))


def bca(value, values_R, left_out_N, level=LEVEL):
    """The Interval of BCa (Efron 1987) from resampled and leave-one-out values.

    Quantiles at Phi(z0 + (z0 + z) / (1 - a (z0 + z))), with z0 the normal quantile of the
    share of resamples below the value (ties one half), and a the skewness of the
    leave-one-out values, sum d^3 / (6 (sum d^2)^1.5).

    >>> print(*np.round(bca(50.0, np.arange(101.0), np.arange(3.0), level=0.9), 6))
    50.0 5.0 95.0
    """
    _check_level(level)
    values_R = np.asarray(values_R)
    below = np.mean(values_R < value) + np.mean(values_R == value) / 2
    if below in (0.0, 1.0):  # no quantile of the resamples says anything
        return percentile(value, values_R, level=level)
    normal = NormalDist()
    deviation_N = np.mean(left_out_N) - left_out_N
    square = np.sum(deviation_N**2)
    skew = np.sum(deviation_N**3) / (6 * square**1.5) if square > 0 else 0.0
    shift, shares = normal.inv_cdf(float(below)), []
    for tail in ((1 - level) / 2, (1 + level) / 2):
        moved = shift + normal.inv_cdf(tail)
        shares.append(normal.cdf(shift + moved / (1 - skew * moved)))
    low, high = np.quantile(values_R, shares)
    return Interval(float(value), float(low), float(high))


def explained_by_control(
    model, control, *, control_name='the control', higher=True, p=None
):
    """A Verdict: does a control (untrained, bag of embeddings, TF-IDF) reach the value?

    `model` is an Interval, `control` one or a number; `higher` says which way is better.
    'explained': the control is as good or better, or the intervals meet and `p`, of a
    paired test over the same sentences, is above 0.05; 'unclear': the intervals meet;
    'beyond': they do not. Intervals alone explain nothing: what both models find hard
    makes each of them wide, and their difference not.

    >>> found = Interval(0.62, 0.59, 0.65)
    >>> [explained_by_control(found, 0.60, p=p).kind for p in (0.4, 0.001, None)]
    ['explained', 'unclear', 'unclear']
    >>> explained_by_control(found, 0.50, control_name='TF-IDF').words
    '0.62 (0.59 to 0.65) is beyond TF-IDF, which reaches 0.5.'
    """
    if not isinstance(control, Interval):
        control = Interval(float(control), float(control), float(control))
    said = f'{model.value:.4g} ({model.low:.4g} to {model.high:.4g})'
    sign = 1 if higher else -1
    worst = sign * (model.low if higher else model.high)
    best = sign * (control.high if higher else control.low)
    if not math.isfinite(worst + best + control.value):
        raise ValueError(f'A verdict needs finite values, not {model} and {control}.')
    meet = max(best, sign * control.value) >= worst
    is_reached = sign * control.value >= sign * model.value
    if is_reached or (meet and p is not None and p > 1 - LEVEL):
        words = f'{control_name} explains {said}: it reaches {control.value:.4g}'
        if not is_reached:
            words += f', and over the same sentences they do not differ (p = {p:.2g})'
        return Verdict('explained', f'{words}.')
    reach = f'{control.value:.4g}'
    if control.low < control.high:
        reach += f' ({control.low:.4g} to {control.high:.4g})'
    if meet:
        words = f'{said} is not clearly beyond {control_name}, which reaches {reach}.'
        if p is not None:
            words += f' Over the same sentences they do differ (p = {p:.2g}).'
        return Verdict('unclear', words)
    return Verdict('beyond', f'{said} is beyond {control_name}, which reaches {reach}.')


def _sizes(resamples, count):
    """Resamples in parts that fit into memory."""
    if resamples < 1:
        raise ValueError(f'{resamples} resamples give no interval: take a thousand.')
    size = max(1, _CHUNK // count)
    return [min(size, resamples - start) for start in range(0, resamples, size)]


def _together(samples):
    samples = [np.asarray(sample) for sample in samples]
    sizes = [len(sample) for sample in samples]
    if not sizes or len(set(sizes)) != 1 or not sizes[0]:
        raise ValueError(
            f'Samples that are drawn together need one length, but have {sizes}.'
        )
    return samples


def _checked(values_N):
    values_N = np.asarray(values_N, np.float64)
    if values_N.ndim != 1 or not values_N.size or not np.isfinite(values_N).all():
        raise ValueError(
            'An interval needs a list of finite values, one a sentence, but got shape '
            f'{values_N.shape} with {np.sum(~np.isfinite(values_N))} that are not finite.'
        )
    return values_N


def _check_level(level):
    if not 0 < level < 1:
        raise ValueError(f'level={level}: an interval holds a share between 0 and 1.')
