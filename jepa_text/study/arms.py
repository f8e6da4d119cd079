"""The arms of a study: the metrics of each run, by seed.

    by_seed(results)             {arm: {seed: {metric: value}}}
    values(arms, side, metric)   {seed: value} of an arm, or of the spread of several
    summary(arms, metric)        {arm: Interval} over seeds, 95 % by Student's t

Metrics have readable names, and some are means of others:

    masked loss, causal loss     nats per held-out token
    probes                       mean balanced accuracy of all probes; `probe NAME` of one
    EXAM                         mean test score of all tasks of an exam; `EXAM TASK`
    EXAM sensitivity             standard deviation of the test score over learning rates
                                 and seeds of fine-tuning
    uniformity, effective rank   of held-out vectors, mean-pooled unless stated otherwise
    dimensions                   of these vectors
"""

import math

import numpy as np

from jepa_text.evaluation.results import selection
from jepa_text.training import heldout

LOSS, CAUSAL, PROBES = 'masked loss', 'causal loss', 'probes'
SENSITIVITY = 'sensitivity'
GEOMETRY = {
    'uniformity': 'geometry/uniformity',
    'effective rank': 'geometry/effective_rank',
    'effective rank, max pooling': 'geometry/effective_rank_max_pooled',
    'mean cosine': 'geometry/mean_cosine',
}
DIMENSIONS = 'dimensions'
TAKEN = (LOSS, CAUSAL, PROBES, DIMENSIONS, *GEOMETRY)  # names that no exam may have
SPREAD = 'spread'
_PROBE, _EXAM = 'representation/', 'exam/'
UNITS = {LOSS: 'nats per token', CAUSAL: 'nats per token', PROBES: 'balanced accuracy'}
_LOWER = (LOSS, CAUSAL, 'uniformity')


def by_seed(results):
    """Returns {arm: {seed: {metric: value}}} of the results of a study, in order; NaN for
    a member without results, or without those of an exam that other seeds of its arm
    have, as a mean without the runs that failed would be that of a selection."""
    arms = {}
    for member, (arm, seed) in results['recipes'].items():
        measured = results['models'][member]
        examined = results.get('examined', {}).get('values', {}).get(member, {})
        arms.setdefault(arm, {})[seed] = _named(measured | examined, results['probes'])
    for own in arms.values():
        lost = {metric: math.nan for known in own.values() for metric in known}
        own.update({seed: lost | known for seed, known in own.items()})
    for arm, seed in results.get('missing', {}).values():
        # If all members of an arm lack results, those of another arm have its metrics.
        known = arms.get(arm) or next(iter(arms.values()))
        lost = dict.fromkeys(next(iter(known.values())), math.nan)
        arms.setdefault(arm, {})[seed] = lost
    return arms


def outcomes(arms):
    """Returns the metrics of quality that any member has: the masked loss, the means over
    probes and over the tasks of each exam, and the sensitivity of each exam to its
    learning rate."""
    every = dict.fromkeys(m for one in arms.values() for v in one.values() for m in v)
    exams = [metric for metric in every if metric.isidentifier() and metric not in TAKEN]
    wanted = (LOSS, PROBES, *exams, *(f'{name} {SENSITIVITY}' for name in exams))
    return [metric for metric in wanted if metric in every]


def is_lower_better(metric):
    """Whether lower values of a metric are better."""
    return metric in _LOWER or metric.endswith(f' {SENSITIVITY}')


def axis(metric):
    """Returns the label of an axis: the metric and its unit."""
    return ', '.join(filter(None, (metric, UNITS.get(metric))))


def values(arms, side, metric):
    """Returns {seed: value} of one side of a comparison: the name of an arm, or
    {'spread': [names]}, the standard deviation over these arms.

    Raises LookupError, with a readable message, if the study lacks an arm or one of its
    members lacks the metric.
    """
    if isinstance(side, str):
        if side not in arms:
            raise LookupError(f'the study has no run {side}')
        own = arms[side]
        if lacking := [seed for seed, measured in own.items() if metric not in measured]:
            raise LookupError(f'{side} has no {metric} (seed {lacking[0]})')
        return {seed: measured[metric] for seed, measured in own.items()}
    parts = [values(arms, arm, metric) for arm in side[SPREAD]]
    seeds = sorted(set.intersection(*map(set, parts)))
    return {seed: float(np.std([part[seed] for part in parts], ddof=1)) for seed in seeds}


def label(side):
    """Returns the name of a side: its arm, or 'spread of ...'."""
    return side if isinstance(side, str) else f'spread of {", ".join(side[SPREAD])}'


def summary(arms, metric):
    """Returns {arm: Interval of the mean over its seeds} of the arms with the metric; its
    ends are NaN for one seed."""
    means = {}
    for arm, own in arms.items():
        given = [seed[metric] for seed in own.values() if metric in seed]
        if given:
            means[arm] = selection.mean_over_seeds(given)
    return means


def _named(given, probes):
    named = {
        LOSS: heldout.masked_metric(given, 'loss'),
        CAUSAL: given.get('heldout/clm_loss'),
    }
    scores = {f'probe {name}': given[_PROBE + name] for name in probes}
    if scores:
        named[PROBES] = float(np.mean(list(scores.values())))
    named |= scores
    named |= {name: given.get(key) for name, key in GEOMETRY.items()}
    named[DIMENSIONS] = given.get('geometry/dimensions')
    named |= {
        key.removeprefix(_EXAM): value
        for key, value in given.items()
        if key.startswith(_EXAM)
    }
    return {name: float(value) for name, value in named.items() if value is not None}
