"""Regularizers against float64 formulas, also of collapsed vectors."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jepa_text.losses import regularizers

WIDTH = 6


@functools.cache
def directions():
    return regularizers.random_directions(jax.random.key(3), 32, WIDTH)


@functools.cache
def compiled():
    functions = {
        'sigreg': functools.partial(regularizers.sigreg, directions_DR=directions()),
        'variance': regularizers.vicreg_variance,
        'covariance': regularizers.vicreg_covariance,
    }
    return {name: jax.jit(function) for name, function in functions.items()}


def sigreg_64(x, u, knots=17, limit=3.0):
    """The definition over [-limit, limit], with complex numbers."""
    t = np.linspace(-limit, limit, 2 * knots - 1)
    empirical = np.exp(1j * t[:, None, None] * (x @ u)).mean(1)
    error = np.abs(empirical - np.exp(-(t**2) / 2)[:, None]) ** 2
    weighed = error * np.exp(-(t**2) / 2)[:, None]
    return len(x) * np.trapezoid(weighed, t, axis=0).mean()


def variance_64(x, u):
    return np.maximum(0, 1 - np.sqrt(x.var(0, ddof=1) + 1e-4)).mean()


def covariance_64(x, u):
    covariance = np.cov(x.T)
    off = covariance - np.diag(np.diag(covariance))
    return (off**2).sum() / len(covariance)


FORMULAS = {'sigreg': sigreg_64, 'variance': variance_64, 'covariance': covariance_64}


def test_directions_have_unit_length_and_are_isotropic():
    u = regularizers.random_directions(jax.random.key(0), 4000, 3)
    assert u.dtype == jnp.float32 and u.shape == (3, 4000)
    assert_allclose(np.linalg.norm(u, axis=0), 1, atol=1e-6)
    assert_allclose(np.asarray(u) @ np.asarray(u).T / 4000, np.eye(3) / 3, atol=0.02)


@pytest.mark.parametrize('name', FORMULAS)
@pytest.mark.parametrize('shape', ['normal', 'wide', 'skewed', 'pair', 'collapsed'])
def test_matches_the_published_formula(rng, name, shape):
    x = {
        'normal': rng.normal(size=(50, WIDTH)),
        'wide': rng.normal(0.5, 3, size=(50, WIDTH)) * np.arange(1, WIDTH + 1),
        'skewed': 0.1 * rng.exponential(size=(50, WIDTH)),
        'pair': rng.normal(size=(2, WIDTH)),
        'collapsed': np.ones((50, WIDTH)),
    }[shape]
    expected = FORMULAS[name](x, np.float64(directions()))
    ours = compiled()[name](np.float32(x))
    assert ours.dtype == jnp.float32 and ours.shape == ()
    assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('name', FORMULAS)
def test_rows_of_tokens_are_refused(name):
    with pytest.raises(ValueError, match=r'shape \(1, 3, 4\), but must be \[N, D\]'):
        compiled()[name](jnp.zeros((1, 3, 4)))


@pytest.mark.parametrize('name', FORMULAS)
def test_masked_rows_affect_neither_value_nor_gradient(rng, name):
    x, where = np.float32(rng.normal(1, 2, size=(30, WIDTH))), rng.random(30) < 0.5
    both = jax.jit(jax.value_and_grad(compiled()[name]))
    value, slope = both(x[where])
    noisy = np.where(where[:, None], x, np.float32(np.nan))
    masked_value, masked_slope = jax.device_get(both(noisy, where_N=where))
    assert_allclose(masked_value, value, rtol=1e-5, atol=1e-6)
    assert_allclose(masked_slope[where], slope, rtol=1e-4, atol=1e-5)
    assert_array_equal(masked_slope[~where], 0)
