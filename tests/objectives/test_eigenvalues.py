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
    'width, rank, falls', [(2, 2, 0), (3, 3, 0), (48, 48, 0), (64, 64, 3), (64, 5, 0)]
)
def test_eigenvalues_against_float64(method, width, rank, falls):
    matrix_DD = covariance(width, rank, falls)
    wanted_D = np.linalg.eigvalsh(matrix_DD.astype(np.float64))
    found_D = method(matrix_DD)
    assert_allclose(found_D, wanted_D, atol=2e-6 * wanted_D[-1], rtol=0)


@pytest.mark.parametrize('scale', [1e-30, 1e-20, 1e-12, 1e12])
def test_accuracy_does_not_depend_on_scale(scale):
    matrix_DD = covariance(64, 5)
    one_D, other_D = (np.asarray(bisected(matrix_DD * f)) for f in np.float32([1, scale]))
    atol = 2e-6 * float(one_D[-1])
    assert_allclose(other_D / np.float32(scale), one_D, atol=atol, rtol=0)


def collapsed(rows):
    """The covariance of a collapsed encoder, which has only rounding errors."""
    x_ND = np.tile(np.random.default_rng(0).normal(size=96).astype(np.float32), (rows, 1))
    x_ND = x_ND - x_ND.mean(axis=0)
    return x_ND.T @ x_ND


def diagonal(values, off=0.0):
    return np.where(np.eye(len(values)), values, off).astype(np.float32)


@pytest.mark.parametrize(
    'matrix_DD, atol, rtol',
    [
        *((collapsed(rows), None, 0) for rows in (32, 500)),
        *((diagonal(x), 1e-6, 1e-7) for x in (np.zeros(8), np.ones(8), np.arange(8))),
        *(
            (diagonal(np.arange(1, 7), off), 0, 1e-6)
            for off in (1e-8, 1e-15, 1e-19, 1e-21, 1e-25)
        ),
    ],
)
def test_matrices_that_are_nearly_zero_or_diagonal(matrix_DD, atol, rtol):
    wanted_D = np.linalg.eigvalsh(matrix_DD.astype(np.float64))
    atol = 2e-6 * wanted_D[-1] if atol is None else atol
    assert_allclose(bisected(matrix_DD), wanted_D, atol=atol, rtol=rtol)
