"""Pooling uses only valid positions, and is safe if there are none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jepa_text.models import pooling

RNG = np.random.default_rng(0)
HIDDEN_BLD = RNG.normal(size=(4, 7, 5)).astype(np.float32)
VALID_BL = np.array(
    [[1] * 7, [0, 0, 1, 1, 0, 1, 0], [0, 0, 0, 1, 0, 0, 0], [0] * 7], dtype=bool
)
# What is not valid has no effect, not even NaN.
SPOILT_BLD = np.where(VALID_BL[:, :, None], HIDDEN_BLD, np.nan)
EXPECTED = {
    'mean': lambda rows: rows.mean(axis=0),
    'max': lambda rows: rows.max(axis=0),
    'cls': lambda rows: rows[0],
    'position': lambda rows: np.average(
        rows, axis=0, weights=np.arange(1, len(rows) + 1)
    ),
    'last': lambda rows: rows[-1],
}
every = pytest.mark.parametrize('name', sorted(pooling.POOLINGS))


@every
def test_equals_numpy_on_the_valid_rows(name):
    pooled_BD = jax.jit(pooling.POOLINGS[name])(SPOILT_BLD, VALID_BL)
    for row in range(3):
        expected_D = EXPECTED[name](HIDDEN_BLD[row][VALID_BL[row]])
        assert_allclose(pooled_BD[row], expected_D, rtol=1e-6)
    assert_array_equal(pooled_BD[3], 0)


@every
def test_gradients_are_finite_and_stay_within_valid_positions(name):
    def total(hidden_BLD):
        return jnp.sum(jnp.sin(pooling.POOLINGS[name](hidden_BLD, VALID_BL)))

    gradient_BLD = jax.grad(total)(jnp.asarray(SPOILT_BLD))
    assert np.isfinite(gradient_BLD).all()
    assert_array_equal(gradient_BLD[~VALID_BL], 0)
    assert (np.abs(gradient_BLD).sum(axis=(1, 2))[:3] > 0).all()


@every
def test_bfloat16_is_summed_in_float32(name):
    # 1 + 2^-7; with 'position' sums are multiples of 2^-7 below 2^16, so they are exact
    # in float32 in any order, but not in bfloat16.
    hidden_BLD = jnp.full((1, 256, 1), 1.0078125, jnp.bfloat16)
    pooled_BD = pooling.POOLINGS[name](hidden_BLD, jnp.ones((1, 256), bool))
    assert pooled_BD.dtype == jnp.float32
    assert pooled_BD[0, 0] == 1.0078125


@every
def test_a_mask_of_another_shape_raises(name):
    with pytest.raises(ValueError, match=r'\(4, 7, 5\) and \(4, 6\)'):
        pooling.POOLINGS[name](HIDDEN_BLD, VALID_BL[:, :6])
