"""The eigenvalue solver for TPUs against LAPACK in float64."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from jepa_text.objectives.latent import diagnostics

bisected, eigenvalues = map(jax.jit, (diagnostics.bisected, diagnostics.eigenvalues))


def covariance(width, rank, falls=0.0):
    rng = np.random.default_rng(width)
    x_ND = rng.normal(size=(4 * width, rank)) @ rng.normal(size=(rank, width))
    x_ND = x_ND * np.logspace(0, -falls, width)
    return np.float32(x_ND.T @ x_ND)


@pytest.mark.parametrize('method', [bisected, eigenvalues])
@pytest.mark.parametrize(
    ('width', 'rank', 'falls'),
    [(2, 2, 0), (3, 3, 0), (48, 48, 0), (64, 64, 3), (64, 5, 0)],
)
def test_eigenvalues_against_float64(method, width, rank, falls):
    matrix_DD = covariance(width, rank, falls)
    wanted_D = np.linalg.eigvalsh(matrix_DD.astype(np.float64))
    found_D = method(matrix_DD)
    assert_allclose(found_D, wanted_D, atol=2e-6 * wanted_D[-1], rtol=0)


@pytest.mark.parametrize('diagonal_D', [np.zeros(8), np.ones(8), np.arange(8.0)])
def test_diagonal_matrices(diagonal_D):
    found_D = bisected(np.diag(np.float32(diagonal_D)))
    assert_allclose(found_D, diagonal_D, atol=1e-6)


@pytest.mark.parametrize('scale', [1e-30, 1e-20, 1e-12, 1e12])
def test_accuracy_does_not_depend_on_scale(scale):
    matrix_DD = covariance(64, 5)
    one_D, other_D = (np.asarray(bisected(matrix_DD * f)) for f in np.float32([1, scale]))
    atol = 2e-6 * float(one_D[-1])
    assert_allclose(other_D / np.float32(scale), one_D, atol=atol, rtol=0)


@pytest.mark.parametrize('rows', [32, 500])
def test_equal_vectors(rows):
    """The covariance of a collapsed encoder has only rounding errors."""
    x_ND = np.tile(np.random.default_rng(0).normal(size=96).astype(np.float32), (rows, 1))
    x_ND = x_ND - x_ND.mean(axis=0)
    matrix_DD = x_ND.T @ x_ND
    wanted_D = np.linalg.eigvalsh(matrix_DD.astype(np.float64))
    found_D = np.asarray(bisected(matrix_DD))
    assert_allclose(found_D, wanted_D, atol=2e-6 * wanted_D[-1], rtol=0)


@pytest.mark.parametrize('off', [1e-8, 1e-15, 1e-19, 1e-21, 1e-25])
def test_nearly_diagonal_matrices(off):
    matrix_DD = np.diag(np.arange(1, 7)).astype(np.float32)
    matrix_DD[matrix_DD == 0] = off
    assert_allclose(bisected(matrix_DD), np.arange(1, 7), rtol=1e-6)
