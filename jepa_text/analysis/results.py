"""Geometry of one cell of an analysis, with intervals.

A cell is the vectors of one task's texts from one model or control, layer and pooling.
probes.py evaluates probes on the same vectors.
"""

import math
from typing import NamedTuple

import numpy as np

from jepa_text.measures import class_geometry, forms, geometry, statistics
from jepa_text.measures.statistics import Interval

HALVED_ROWS = 1000  # half-samples are drawn from at most this many texts
SPECTRUM_FORMS = ('raw', 'length_residualized')


class Result(NamedTuple):
    """The cell of a value; `control` is '' for the model itself."""

    task: str
    model: str
    seed: int
    control: str
    layer: int | None
    pooling: str


def split(rows_ND, task):
    """((first, second) of the training split, (first, second) of the test split), of rows
    in the order of task.train.texts(), then task.test.texts(); second is None for single
    texts."""
    sides = np.split(rows_ND, [len(task.train.texts())])
    if task.train.second is None:
        return [(side_ND, None) for side_ND in sides]
    return [np.split(side_ND, 2) for side_ND in sides]


class UniqueTexts(NamedTuple):
    """The test texts of a task without duplicates, which would be nearest neighbors.

    index_M       positions in task.test.texts()
    units_M       the example of each text
    positives_P2  pairs of these texts with the same meaning, or None
    """

    index_M: np.ndarray
    units_M: np.ndarray
    positives_P2: np.ndarray | None


def unique_texts(task):
    """The UniqueTexts of a task."""
    first_index = {}
    for i, text in enumerate(task.test.texts()):
        first_index.setdefault(text, i)
    index_M = np.array(list(first_index.values()))
    number = {text: n for n, text in enumerate(first_index)}
    pairs_P2 = None
    if task.test.second is not None and task.positive is not None:
        target_N = task.test.target
        is_score = task.kind == 'scores'
        same_N = target_N >= task.positive if is_score else target_N == task.positive
        pairs = zip(task.test.first, task.test.second)
        positions_N2 = np.array([[number[text] for text in pair] for pair in pairs])
        pairs_P2 = positions_N2[same_N] if same_N.sum() >= 2 else None
    return UniqueTexts(index_M, index_M % len(task.test), pairs_P2)


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

    Intervals come from `half_samples` random halves of at most HALVED_ROWS texts. Their
    standard deviation estimates the standard error (delete-half jackknife, Shao & Wu
    1989), scaled by the root of the ratio of sizes; without halves, low and high are NaN.
    A bootstrap would repeat texts, which makes them neighbors at distance 0. Deviations
    are from the mean of the halves, so that a rank, which grows with the number of texts,
    is not biased. The same seed and number of texts give the same halves, so deviations
    of two models are paired. Rows with the same unit in `units_N` are drawn together, as
    the two texts of a pair are not independent. `pairs_P2` are rows with the same
    meaning, for the alignment.
    """
    values = _summary(rows_ND, lengths_NF, labels_N, pairs_P2)
    units_N = np.arange(len(rows_ND)) if units_N is None else np.asarray(units_N)
    units, deviations = np.unique(units_N), {}
    if half_samples and len(units) >= 8:
        rng = np.random.default_rng(seed)
        maximum = max(8, HALVED_ROWS * len(units) // len(rows_ND))
        chosen_U = rng.permutation(units)[:maximum]
        halves = []
        for _ in range(half_samples):
            drawn_U = rng.permutation(chosen_U)[: len(chosen_U) // 2]
            index_M = np.flatnonzero(np.isin(units_N, drawn_U))
            labels_M = None if labels_N is None else np.asarray(labels_N)[index_M]
            part = rows_ND[index_M], lengths_NF[index_M], labels_M
            halves.append(_summary(*part, _pairs_within(pairs_P2, index_M)))
        scale = math.sqrt(len(chosen_U) / len(units))
        for key in values:
            values_R = np.array([half[key] for half in halves])
            deviations[key] = scale * (values_R - values_R.mean())
    intervals = {}
    for key, value in values.items():
        reach = statistics.t_margin(deviations[key]) if key in deviations else math.nan
        intervals[key] = Interval(float(value), value - reach, value + reach)
    return intervals, deviations


def _summary(rows_ND, lengths_NF, labels_N, pairs_P2):
    """{(metric, form): value}."""
    metrics = dict(geometry.METRICS)
    if labels_N is not None:
        metrics |= class_geometry.CLASS_METRICS
    if pairs_P2 is not None:
        one_P, two_P = pairs_P2.T
        metrics['alignment'] = lambda rows: (
            geometry.alignment(rows.rows_ND[one_P], rows.rows_ND[two_P])
            if len(pairs_P2)
            else math.nan
        )
    summary = forms.summary(rows_ND, lengths_NF, labels_N, metrics)
    return {tuple(name.split('/')): value for name, value in summary.items()}


def _pairs_within(pairs_P2, index_M):
    """The pairs with both rows in `index_M`, as positions in it."""
    if pairs_P2 is None:
        return None
    position = np.full(max(pairs_P2.max(), index_M.max()) + 1, -1)
    position[index_M] = np.arange(len(index_M))
    positions_P2 = position[pairs_P2]
    return positions_P2[(positions_P2 >= 0).all(axis=1)]


def spectra(rows_ND, lengths_NF):
    """{form: the 64 largest eigenvalues of the covariance, largest first}."""
    clouds = forms.clouds(rows_ND, lengths_NF)
    return {
        form: geometry.eigenspectrum(one)[:64].tolist()
        for form, one in clouds
        if form in SPECTRUM_FORMS
    }
