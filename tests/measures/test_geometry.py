"""Geometry against closed forms, invariances and reference implementations."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special, stats
from scipy.spatial import distance
from sklearn import decomposition

from jepa_text.measures import class_geometry, cloud, geometry

RNG = np.random.default_rng(0)
CLOUD_ND = RNG.normal(size=(200, 12)) @ np.diag(np.geomspace(3, 0.1, 12)) + 0.5
METRICS = geometry.METRICS
every = pytest.mark.parametrize('measure', METRICS.values(), ids=METRICS)


@every
def test_float16_input_is_computed_in_float32(measure):
    half_ND = CLOUD_ND.astype(np.float16)
    assert measure(half_ND) == measure(half_ND.astype(np.float32))
    assert measure(half_ND) == pytest.approx(measure(half_ND.astype(float)), rel=1e-4)
    assert type(measure(half_ND)) in (float, int)


def test_uniformity_against_all_pairs_in_scipy():
    unit_ND = CLOUD_ND / np.linalg.norm(CLOUD_ND, axis=1, keepdims=True)
    pairs = -2 * distance.pdist(unit_ND, 'sqeuclidean')
    expected = special.logsumexp(pairs) - math.log(pairs.size)
    assert geometry.uniformity(CLOUD_ND) == pytest.approx(expected, rel=1e-12)


def test_two_close_rows_keep_their_precision_in_float32():
    far_ND = np.float32([[1, 0, 0], [1, 1e-3, 0], [1, 0, 2e-3]])
    exact = geometry.uniformity(far_ND.astype(np.float64))
    # Products of uncentered rows would be off by a tenth.
    assert geometry.uniformity(far_ND) == pytest.approx(exact, rel=1e-2)
    assert -1e-5 < exact < -1e-7


def test_alignment_is_the_mean_squared_distance():
    other_ND = CLOUD_ND + RNG.normal(size=CLOUD_ND.shape)
    squared = [2 * distance.cosine(x, y) for x, y in zip(CLOUD_ND, other_ND)]
    assert geometry.alignment(CLOUD_ND, other_ND) == pytest.approx(np.mean(squared))
    assert geometry.alignment(CLOUD_ND, 3 * CLOUD_ND) == pytest.approx(0, abs=1e-15)


def test_measures_against_scipy_and_scikit_learn():
    raw = np.linalg.svd(CLOUD_ND, compute_uv=False)
    centered = np.linalg.svd(CLOUD_ND - CLOUD_ND.mean(axis=0), compute_uv=False)
    shares = decomposition.PCA().fit(CLOUD_ND).explained_variance_ratio_
    expected = dict(
        rankme=np.exp(stats.entropy(raw)),
        effective_rank=np.exp(stats.entropy(centered)),
        spectral_entropy=stats.entropy(centered**2, base=12),
        stable_rank=1 / shares[0],
        rank90=decomposition.PCA(0.9).fit(CLOUD_ND).n_components_,
        mean_cosine=1 - distance.pdist(CLOUD_ND, 'cosine').mean(),
        participation_ratio=1 / np.sum(shares**2),
        anisotropy=raw[0] ** 2 / np.sum(raw**2),
    )
    found = {name: METRICS[name](CLOUD_ND) for name in expected}
    assert found == pytest.approx(expected)
    variances = geometry.eigenspectrum(CLOUD_ND)
    assert_allclose(variances / variances.sum(), shares)
    assert_allclose(variances.sum(), np.trace(np.cov(CLOUD_ND.T)))


CLOSED = {
    'a line': (
        np.outer(RNG.normal(size=50), RNG.normal(size=9)),
        dict(effective_rank=1, rankme=1, stable_rank=1, rank90=1, anisotropy=1)
        | dict(spectral_entropy=0),
    ),
    'zeros': (np.zeros((5, 3)), dict(rankme=0, anisotropy=1, mean_cosine=0)),
    'one dimension': ([[1.0], [2.0], [4.0]], dict(spectral_entropy=0)),
}


@pytest.mark.parametrize('name', CLOSED)
def test_closed_forms(name):
    rows_ND, expected = CLOSED[name]
    found = geometry.summary(rows_ND, {name: METRICS[name] for name in expected})
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize('value', [0.1, 1e-30, 12345.678])
@pytest.mark.parametrize('rows', [2, 7, 1000])
def test_equal_rows_have_the_stated_values(rows, value):
    rows_ND = np.full((rows, 6), value, np.float32)
    result = {name: measure(rows_ND) for name, measure in METRICS.items()}
    ones = dict.fromkeys(('mean_cosine', 'rankme', 'anisotropy'), 1)
    assert result == pytest.approx(dict.fromkeys(result, 0) | ones, abs=1e-12)


@pytest.mark.parametrize('count', [2, 3, 11, 12])
def test_too_few_rows_for_a_measure_are_refused_by_name(count):
    few_ND = CLOUD_ND[:count]
    needed = {name: geometry.NEEDED_ROWS.get(name, 3) for name in METRICS}
    lacking = [f'{name} {rows}' for name, rows in needed.items() if rows > count]
    if lacking:
        with pytest.raises(ValueError, match=f'Of {count} rows .*: {", ".join(lacking)}'):
            geometry.summary(few_ND)
    enough = {n: m for n, m in METRICS.items() if needed[n] <= count}
    assert list(geometry.summary(few_ND, enough)) == list(enough)


@pytest.mark.parametrize('bad', [np.nan, np.inf])
@every
def test_values_that_are_not_finite_raise(measure, bad):
    spoilt_ND = CLOUD_ND.copy()
    spoilt_ND[[3, 8], 2] = bad
    with pytest.raises(ValueError, match=r'2 of 200 embeddings .* row 3'):
        measure(spoilt_ND)


LABELS_N = np.arange(200) % 3


def test_measures_of_classes_against_scipy():
    unit_ND = CLOUD_ND / np.linalg.norm(CLOUD_ND, axis=1, keepdims=True)
    distance_NN = distance.squareform(distance.pdist(unit_ND))
    same_NN = (LABELS_N[:, None] == LABELS_N) & ~np.eye(200, dtype=bool)
    other_NN = LABELS_N[:, None] != LABELS_N
    metrics = class_geometry.CLASS_METRICS
    found = {name: measure(CLOUD_ND, LABELS_N) for name, measure in metrics.items()}
    pairs = [distance.pdist(unit_ND[label == LABELS_N]) for label in range(3)]
    expected = {
        'class_alignment': np.mean([np.mean(one**2) for one in pairs]),
        'paper_alignment': np.mean([np.mean(one**4) for one in pairs]),
        'intra_distance': distance_NN[same_NN].mean(),
        'inter_distance': distance_NN[other_NN].mean(),
        'distance_ratio': distance_NN[same_NN].mean() / distance_NN[other_NN].mean(),
    }
    assert found == pytest.approx(expected, rel=1e-10)
    names = [f'class {label}' for label in LABELS_N]
    assert class_geometry.intra_distance(CLOUD_ND, names) == found['intra_distance']


def test_classes_without_pairs_give_nan():
    assert math.isnan(class_geometry.inter_distance(CLOUD_ND, np.zeros(200)))
    assert math.isnan(class_geometry.distance_ratio(CLOUD_ND, np.zeros(200)))
    assert math.isnan(class_geometry.intra_distance(CLOUD_ND, np.arange(200)))
    assert math.isnan(class_geometry.class_alignment(CLOUD_ND, np.arange(200)))


CLOUD = cloud.as_cloud(CLOUD_ND)


@pytest.mark.parametrize(
    'measure, given, message',
    [
        (geometry.summary, [np.ones((1, 4))], 'at least 2 rows'),
        *(
            (geometry.summary, [np.ones(x)], 'at least 1 row')
            for x in (5, (5, 0), (2, 3, 4))
        ),
        (geometry.alignment, [CLOUD_ND, CLOUD_ND[1:]], r'\(200, 12\) and \(199, 12\)'),
        (class_geometry.intra_distance, [CLOUD_ND], 'needs labels'),
        (class_geometry.intra_distance, [CLOUD_ND, [0, 1, 1]], '200 embeddings .* 3'),
        (class_geometry.intra_distance, [CLOUD, LABELS_N], 'has its own labels'),
    ],
)
def test_errors_name_what_is_wrong(measure, given, message):
    with pytest.raises(ValueError, match=message):
        measure(*given)


def test_fewer_rows_than_dimensions_have_the_same_spectrum():
    rows_ND = np.random.default_rng(0).normal(size=(12, 40)) + 1
    for found, center in (
        (np.sqrt(cloud.as_cloud(rows_ND).raw_values_K), 0),
        (geometry.centered_singular_values(rows_ND), rows_ND.mean(axis=0)),
    ):
        expected = np.linalg.svd(rows_ND - center, compute_uv=False)
        assert_allclose(found, expected, atol=1e-7)
