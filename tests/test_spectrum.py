"""Eigenvalues as TPUs compute them, against LAPACK in float64."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from jepa_text import spectrum


def covariance(width, rank, falls=0.0):
    rng = np.random.default_rng(width)
    x_ND = rng.normal(size=(4 * width, rank)) @ rng.normal(size=(rank, width))
    x_ND = x_ND * np.logspace(0, -falls, width)
    return np.float32(x_ND.T @ x_ND)


@pytest.mark.parametrize('method', [spectrum.bisected, spectrum.eigenvalues])
@pytest.mark.parametrize(
    ('width', 'rank', 'falls'),
    [(2, 2, 0), (3, 3, 0), (48, 48, 0), (64, 64, 3), (64, 5, 0)],
)
def test_eigenvalues_against_float64(method, width, rank, falls):
    matrix_DD = covariance(width, rank, falls)
    wanted_D = np.linalg.eigvalsh(matrix_DD.astype(np.float64))
    found_D = jax.jit(method)(matrix_DD)
    assert_allclose(found_D, wanted_D, atol=2e-6 * wanted_D[-1], rtol=0)


@pytest.mark.parametrize('diagonal_D', [np.zeros(8), np.ones(8), np.arange(8.0)])
def test_what_is_diagonal_already(diagonal_D):
    found_D = spectrum.bisected(np.diag(np.float32(diagonal_D)))
    assert_allclose(found_D, diagonal_D, atol=1e-6)
