"""Geometry against closed forms, invariances, and other people's code."""

import math

import numpy as np
import pytest
from scipy import special, stats
from scipy.spatial import distance

from jepa_text import geometry

RNG = np.random.default_rng(0)
CLOUD_ND = RNG.normal(size=(200, 12)) @ np.diag(np.geomspace(3, 0.1, 12)) + 0.5
SCALARS = [
    geometry.uniformity,
    geometry.effective_rank,
    geometry.rankme,
    geometry.spectral_entropy,
    geometry.stable_rank,
    geometry.rank90,
    geometry.anisotropy,
    geometry.mean_cosine,
    geometry.mean_cosine_centred,
]
every = pytest.mark.parametrize('measure', SCALARS, ids=lambda f: f.__name__)


@every
def test_rotation_scale_and_order_change_nothing(measure):
    rotation_DD = np.linalg.qr(RNG.normal(size=(12, 12)))[0]
    moved_ND = 7.5 * RNG.permutation(CLOUD_ND) @ rotation_DD
    assert measure(moved_ND) == pytest.approx(measure(CLOUD_ND), rel=1e-9)


@every
def test_float16_input_is_computed_in_float64(measure):
    half_ND = CLOUD_ND.astype(np.float16)
    assert measure(half_ND) == measure(half_ND.astype(np.float64))
    assert type(measure(half_ND)) in (float, int)


@pytest.mark.parametrize(
    'measure',
    [
        geometry.effective_rank,
        geometry.spectral_entropy,
        geometry.stable_rank,
        geometry.rank90,
        geometry.mean_cosine_centred,
    ],
    ids=lambda f: f.__name__,
)
def test_centred_measures_ignore_a_common_offset(measure):
    assert measure(CLOUD_ND + 100) == pytest.approx(measure(CLOUD_ND), rel=1e-6)


def test_uniformity_against_all_pairs_in_scipy():
    unit_ND = CLOUD_ND / np.linalg.norm(CLOUD_ND, axis=1, keepdims=True)
    pairs = -2 * distance.pdist(unit_ND, 'sqeuclidean')
    expected = special.logsumexp(pairs) - math.log(pairs.size)
    assert geometry.uniformity(CLOUD_ND) == pytest.approx(expected, rel=1e-12)


def test_uniformity_does_not_depend_on_the_block_of_rows(monkeypatch):
    whole = geometry.uniformity(CLOUD_ND)
    monkeypatch.setattr(geometry, '_ROWS', 33)
    assert geometry.uniformity(CLOUD_ND) == pytest.approx(whole, rel=1e-12)


def test_uniformity_of_an_isotropic_gaussian():
    """Of a uniform sphere: exp(-4) times 0F1(; D/2; 4), the mean of exp(4 cos)."""
    width = 64
    expected = -4 + math.log(special.hyp0f1(width / 2, 4.0))
    cloud_ND = np.random.default_rng(1).normal(size=(3000, width))
    assert geometry.uniformity(cloud_ND) == pytest.approx(expected, abs=0.005)
    assert expected == pytest.approx(-4, abs=0.2)


def test_uniformity_of_two_opposite_rows():
    assert geometry.uniformity([[2.0, 0.0], [-5.0, 0.0]]) == pytest.approx(-8)


def test_alignment_is_the_mean_distance_to_the_power_alpha():
    other_ND = CLOUD_ND + RNG.normal(size=CLOUD_ND.shape)
    cosine_N = 1 - np.array([distance.cosine(x, y) for x, y in zip(CLOUD_ND, other_ND)])
    squared_N = 2 - 2 * cosine_N
    for alpha in (1, 2, 4):
        assert geometry.alignment(CLOUD_ND, other_ND, alpha) == pytest.approx(
            np.mean(squared_N ** (alpha / 2))
        )
    assert geometry.alignment(CLOUD_ND, 3 * CLOUD_ND) == pytest.approx(0, abs=1e-15)
    assert geometry.alignment([[1.0, 0.0]], [[-2.0, 0.0]]) == pytest.approx(4)


def test_ranks_against_scipy_entropy():
    raw = np.linalg.svd(CLOUD_ND, compute_uv=False)
    centred = np.linalg.svd(CLOUD_ND - CLOUD_ND.mean(axis=0), compute_uv=False)
    assert geometry.rankme(CLOUD_ND) == pytest.approx(np.exp(stats.entropy(raw)))
    assert geometry.effective_rank(CLOUD_ND) == pytest.approx(
        np.exp(stats.entropy(centred))
    )
    assert geometry.spectral_entropy(CLOUD_ND) == pytest.approx(
        stats.entropy(centred**2, base=12)
    )


def test_variance_shares_against_scikit_learn():
    decomposition = pytest.importorskip('sklearn.decomposition')
    shares = decomposition.PCA().fit(CLOUD_ND).explained_variance_ratio_
    assert geometry.stable_rank(CLOUD_ND) == pytest.approx(1 / shares[0])
    assert geometry.rank90(CLOUD_ND) == decomposition.PCA(0.9).fit(CLOUD_ND).n_components_
    np.testing.assert_allclose(
        geometry.centred_singular_values(CLOUD_ND) ** 2
        / np.sum(geometry.centred_singular_values(CLOUD_ND) ** 2),
        shares,
    )


def test_mean_cosine_against_scipy():
    expected = 1 - distance.pdist(CLOUD_ND, 'cosine').mean()
    assert geometry.mean_cosine(CLOUD_ND) == pytest.approx(expected)


def test_orthonormal_rows():
    rows_ND = np.linalg.qr(RNG.normal(size=(16, 16)))[0]
    assert geometry.rankme(rows_ND) == pytest.approx(16)
    assert geometry.anisotropy(rows_ND) == pytest.approx(1 / 16)
    assert geometry.mean_cosine(rows_ND) == pytest.approx(0, abs=1e-12)
    assert geometry.uniformity(rows_ND) == pytest.approx(-4)
    # Centring takes one direction away and leaves the others equal.
    assert geometry.effective_rank(rows_ND) == pytest.approx(15)
    assert geometry.stable_rank(rows_ND) == pytest.approx(15)
    assert geometry.rank90(rows_ND) == 14
    assert geometry.spectral_entropy(rows_ND) == pytest.approx(
        math.log(15) / math.log(16)
    )


def test_ten_equal_shares_need_nine_directions():
    rows_ND = np.concatenate([np.eye(10), -np.eye(10)])
    assert geometry.rank90(rows_ND) == 9
    assert geometry.spectral_entropy(rows_ND) == pytest.approx(1)


def test_isotropic_gaussian_has_nearly_full_rank():
    cloud_ND = np.random.default_rng(2).normal(size=(4000, 32))
    assert 31.5 < geometry.effective_rank(cloud_ND) <= 32
    assert geometry.spectral_entropy(cloud_ND) > 0.99
    assert geometry.mean_cosine(cloud_ND) == pytest.approx(0, abs=0.01)


def test_rank_one():
    line_ND = np.outer(RNG.normal(size=50), RNG.normal(size=9))
    for measure in (geometry.effective_rank, geometry.rankme, geometry.stable_rank):
        assert measure(line_ND) == pytest.approx(1)
    assert geometry.rank90(line_ND) == 1
    assert geometry.anisotropy(line_ND) == pytest.approx(1)
    assert geometry.spectral_entropy(line_ND) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize('value', [0.1, 1e-30, 12345.678])
@pytest.mark.parametrize('rows', [2, 7, 1000])
def test_equal_rows_have_the_stated_values(rows, value):
    result = geometry.summary(np.full((rows, 6), value, np.float32))
    assert result['uniformity'] == pytest.approx(0, abs=1e-12)
    assert result['mean_cosine'] == pytest.approx(1)
    assert result['rankme'] == pytest.approx(1) and result['anisotropy'] == pytest.approx(
        1
    )
    for name in ('effective_rank', 'spectral_entropy', 'stable_rank', 'rank90'):
        assert result[name] == 0
    assert result['uniformity_centred'] == 0 and result['mean_cosine_centred'] == 0


def test_zero_rows_have_the_stated_values():
    result = geometry.summary(np.zeros((5, 3)))
    assert result['rankme'] == 0 and result['anisotropy'] == 1
    assert result['mean_cosine'] == 0 and result['uniformity'] == 0


def test_one_dimension_is_enough():
    assert geometry.summary([[1.0], [2.0], [4.0]])['spectral_entropy'] == 0


def test_the_summary_is_the_single_measures():
    result = geometry.summary(CLOUD_ND)
    assert set(result) == {f.__name__ for f in SCALARS} | {'uniformity_centred'}
    for measure in SCALARS:
        assert result[measure.__name__] == measure(CLOUD_ND)
    assert result['uniformity_centred'] == geometry.uniformity(
        CLOUD_ND - CLOUD_ND.mean(axis=0)
    )


@pytest.mark.parametrize('bad', [np.nan, np.inf])
@every
def test_values_that_are_not_finite_raise(measure, bad):
    spoilt_ND = CLOUD_ND.copy()
    spoilt_ND[[3, 8], 2] = bad
    with pytest.raises(ValueError, match=r'2 of 200 embeddings .* row 3'):
        measure(spoilt_ND)


@pytest.mark.parametrize('shape', [(1, 4), (5,), (5, 0), (2, 3, 4)])
def test_wrong_shapes_raise(shape):
    with pytest.raises(ValueError, match='at least 2 row'):
        geometry.summary(np.ones(shape))


def test_pairs_must_match():
    with pytest.raises(ValueError, match=r'\(200, 12\) and \(199, 12\)'):
        geometry.alignment(CLOUD_ND, CLOUD_ND[1:])
