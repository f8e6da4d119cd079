"""One cell of an analysis: the geometry of one task's texts, with intervals.

A cell is a task, a model or control, a layer and a pooling. What can be read off its
vectors is in probes.py.
"""

import math
from typing import NamedTuple

import numpy as np

from jepa_text.measures import class_geometry, forms, geometry, statistics
from jepa_text.measures.statistics import Interval

HALVED_ROWS = 1000  # of so many texts the halves are taken
SPECTRUM_FORMS = ('raw', 'length_residualized')


class Result(NamedTuple):
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

    @property
    def sides(self):
        """((first, second) to learn from, (first, second) to be scored on)."""
        train = self.train_ND, self.train_second_ND
        return train, (self.test_ND, self.test_second_ND)


def split(rows_ND, task):
    """Vectors from rows in the order of task.train.texts(), then task.test.texts()."""
    train_ND, test_ND = np.split(rows_ND, [len(task.train.texts())])
    if task.train.second is None:
        return Vectors(train_ND, test_ND)
    train, test = np.split(train_ND, 2), np.split(test_ND, 2)
    return Vectors(train[0], test[0], train[1], test[1])


class Once(NamedTuple):
    """The test texts of a task, each once: as repeated rows would be neighbors.

    `index_M`: their places in task.test.texts(); `units_M`: the example of each;
    `positives_P2`: which of them make a pair that says the same, or None.
    """

    index_M: np.ndarray
    units_M: np.ndarray
    positives_P2: np.ndarray | None


def once(task):
    """Once of a task."""
    place = {}
    for i, text in enumerate(task.test.texts()):
        place.setdefault(text, i)
    index_M = np.array(list(place.values()))
    number = {text: n for n, text in enumerate(place)}
    pairs_P2 = None
    if task.test.second is not None and task.positive is not None:
        target_N = task.test.target
        is_score = task.kind == 'scores'
        same_N = target_N >= task.positive if is_score else target_N == task.positive
        pairs = zip(task.test.first, task.test.second)
        positions_N2 = np.array([[number[text] for text in pair] for pair in pairs])
        pairs_P2 = positions_N2[same_N] if same_N.sum() >= 2 else None
    return Once(index_M, index_M % len(task.test), pairs_P2)


def geometry_values(
    rows_ND,
    lengths_NF,
    labels_N=None,
    half_samples=0,
    seed=0,
    units_N=None,
    pairs_P2=None,
):
    """({(metric, form): Interval}, {(metric, form): deviations_R}).

    Intervals come from `half_samples` random halves of at most HALVED_ROWS texts, whose
    standard deviation is the standard error of the whole (delete-half jackknife, Shao &
    Wu 1989), scaled by the root of the sizes; without halves, low and high are NaN. A
    bootstrap repeats texts, and repeated rows are neighbors at distance 0. Halves are
    compared with their own mean, so a rank, which grows with the texts, is not shifted.
    The same seed and number of texts give the same halves, so deviations of two models
    are paired. Rows of one of `units_N` are
    drawn together, as the two texts of a pair, which are no two independent texts.
    `pairs_P2` are rows that say the same, for the alignment.
    """
    values = _summary(rows_ND, lengths_NF, labels_N, pairs_P2, seed)
    units_N = np.arange(len(rows_ND)) if units_N is None else np.asarray(units_N)
    units, deviations = np.unique(units_N), {}
    if half_samples and len(units) >= 8:
        rng = np.random.default_rng(seed)
        maximum = max(8, HALVED_ROWS * len(units) // len(rows_ND))
        chosen_U = rng.permutation(units)[:maximum]
        found = []
        for _ in range(half_samples):
            drawn_U = rng.permutation(chosen_U)[: len(chosen_U) // 2]
            index_M = np.flatnonzero(np.isin(units_N, drawn_U))
            labels_M = None if labels_N is None else np.asarray(labels_N)[index_M]
            part = rows_ND[index_M], lengths_NF[index_M], labels_M
            found.append(_summary(*part, _within(pairs_P2, index_M)))
        scale = math.sqrt(len(chosen_U) / len(units))
        for key in values:
            values_R = np.array([one[key] for one in found])
            deviations[key] = scale * (values_R - values_R.mean())
    intervals = {}
    for key, value in values.items():
        reach = statistics.t_reach(deviations[key]) if key in deviations else math.nan
        intervals[key] = Interval(float(value), value - reach, value + reach)
    return intervals, deviations


def _summary(rows_ND, lengths_NF, labels_N, pairs_P2, seed=0):
    """{(metric, form): value}."""
    metrics = dict(geometry.METRICS)
    if labels_N is not None:
        metrics |= class_geometry.CLASS_METRICS
    if pairs_P2 is not None:
        metrics['alignment'] = lambda rows: _alignment(rows.rows_ND, pairs_P2)
    return _by_form(forms.summary(rows_ND, lengths_NF, labels_N, metrics, seed))


def _alignment(rows_ND, pairs_P2):
    """Wang & Isola's, of pairs that say the same; NaN if there are none."""
    if not len(pairs_P2):
        return math.nan
    return geometry.alignment(*(rows_ND[one_P] for one_P in pairs_P2.T))


def _within(pairs_P2, index_M):
    """Pairs of which both rows are among those, as places there."""
    if pairs_P2 is None:
        return None
    place = np.full(max(pairs_P2.max(), index_M.max()) + 1, -1)
    place[index_M] = np.arange(len(index_M))
    positions_P2 = place[pairs_P2]
    return positions_P2[(positions_P2 >= 0).all(axis=1)]


def _by_form(summary):
    return {tuple(name.split('/')): value for name, value in summary.items()}


def spectra(rows_ND, lengths_NF, maximum=64):
    """{form: eigenvalues of the covariance, largest first}, at most so many."""
    clouds = forms.clouds(rows_ND, lengths_NF)
    return {
        form: geometry.eigenspectrum(one)[:maximum].tolist()
        for form, one in clouds
        if form in SPECTRUM_FORMS
    }
