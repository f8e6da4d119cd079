"""One cell of an analysis: the geometry of one task's texts, with intervals.

A cell is a task, a model or control, a layer and a pooling. What can be read off its
vectors is in readouts.py.
"""

import math
from typing import NamedTuple

import numpy as np

from jepa_text.measures import forms, geometry, statistics
from jepa_text.measures.statistics import Interval

HALVED_ROWS = 1000  # of so many texts the halves are taken
SPECTRUM_FORMS = ('raw', 'length_controlled')


class Cell(NamedTuple):
    """Where a value belongs; `control` is '' for the model itself."""

    task: str
    model: str
    seed: int
    control: str
    layer: int | None
    pooling: str


class Vectors(NamedTuple):
    """A task's texts as vectors; `second` is None for single texts."""

    train_ND: np.ndarray
    test_ND: np.ndarray
    train_second_ND: np.ndarray | None = None
    test_second_ND: np.ndarray | None = None


def split(rows_ND, task):
    """Vectors from rows in the order of task.train.texts(), then task.test.texts()."""
    sizes = [len(task.train)] * (1 + (task.train.second is not None))
    sizes += [len(task.test)] * (1 + (task.test.second is not None))
    parts = np.split(rows_ND, np.cumsum(sizes)[:-1])
    if len(parts) == 2:
        return Vectors(*parts)
    return Vectors(parts[0], parts[2], parts[1], parts[3])


def geometry_values(rows_ND, lengths_NF, labels_N=None, halves=0, seed=0):
    """({(metric, form): Interval}, {(metric, form): deviations_R}).

    Intervals come from `halves` random halves of at most HALVED_ROWS texts (see
    statistics.half_sample_interval), whose standard error is scaled by the root of the
    sizes; without halves, low and high are NaN. The same seed and number of texts give
    the same halves, so deviations of two models are paired.
    """
    values = _by_form(forms.summary(rows_ND, lengths_NF, labels_N, seed=seed))
    deviations = {}
    if halves and len(rows_ND) >= 8:
        rng = np.random.default_rng(seed)
        chosen_M = rng.permutation(len(rows_ND))[:HALVED_ROWS]
        found = []
        for _ in range(halves):
            index_M = rng.permutation(chosen_M)[: len(chosen_M) // 2]
            labels_M = None if labels_N is None else np.asarray(labels_N)[index_M]
            found.append(
                _by_form(forms.summary(rows_ND[index_M], lengths_NF[index_M], labels_M))
            )
        scale = math.sqrt(len(chosen_M) / len(rows_ND))
        for key in values:
            halves_R = np.array([one[key] for one in found])
            deviations[key] = scale * (halves_R - halves_R.mean())
    intervals = {}
    for key, value in values.items():
        reach = math.nan
        if key in deviations:
            reach = quantile(halves - 1) * float(np.std(deviations[key], ddof=1))
        intervals[key] = Interval(float(value), value - reach, value + reach)
    return intervals, deviations


def _by_form(summary):
    return {tuple(name.split('/')): value for name, value in summary.items()}


def spectra(rows_ND, lengths_NF, most=64):
    """{form: eigenvalues of the covariance, largest first}, at most so many."""
    clouds = forms.clouds(rows_ND, lengths_NF)
    return {
        form: geometry.eigenspectrum(one)[:most].tolist()
        for form, one in clouds
        if form in SPECTRUM_FORMS
    }


def quantile(freedom, level=0.95):
    """Student's t: how many standard errors an interval reaches to each side.

    By Hill's expansion around the normal quantile (Hill 1970, without the small terms),
    exact to 1 % from 3 degrees of freedom on; 1 and 2 in closed form.

    >>> [round(quantile(n), 2) for n in (1, 2, 5, 30)]
    [12.71, 4.3, 2.57, 2.04]
    """
    p = (1 + level) / 2
    if freedom == 1:
        return math.tan(math.pi * (p - 0.5))
    if freedom == 2:
        return (2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p)))
    z = statistics.NormalDist().inv_cdf(p)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
