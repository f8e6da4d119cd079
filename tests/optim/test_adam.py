"""Adam with an age per leaf, against its closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from jepa_text.optim import adam


def tree(seed):
    rng = np.random.default_rng(seed)
    shapes = dict(stack=(3, 4, 5), matrix=(7, 2), vector=(6,), number=())
    return {k: jnp.float32(rng.normal(size=s)) for k, s in shapes.items()}


def closed_form(grads_TX, b1, b2):
    """The last update of a leaf that has only seen these gradients, float64."""
    t = len(grads_TX)
    age_T = np.arange(t)[::-1].reshape(-1, *[1] * (grads_TX.ndim - 1))
    mu = (1 - b1) * np.sum(b1**age_T * grads_TX, 0) / (1 - b1**t)
    nu = (1 - b2) * np.sum(b2**age_T * grads_TX**2, 0) / (1 - b2**t)
    return mu / (np.sqrt(nu) + 1e-8)


@pytest.mark.parametrize('b2', [0.95, 0.999])
@pytest.mark.parametrize('late', [1, 3, 50])
def test_a_leaf_added_late_is_updated_as_in_a_new_run(b2, late):
    optimizer = adam.scale_by_adam(0.9, b2, 1e-8)
    update = jax.jit(optimizer.update)
    grads = [{'old': tree(n)['matrix'], 'new': tree(n)['vector']} for n in range(60)]
    state = optimizer.init({'old': grads[0]['old']})
    for number in range(late):
        _, state = update({'old': grads[number]['old']}, state)
    born = optimizer.init(grads[0])
    trees = zip(born, state)
    state = adam.AdamState(*({**new, 'old': old['old']} for new, old in trees))
    for number in range(late, late + 6):
        updates, state = update(grads[number], state)
        for name, begin in (('old', 0), ('new', late)):
            seen = np.stack([each[name] for each in grads[begin : number + 1]])
            expected = closed_form(np.float64(seen), 0.9, b2)
            assert_allclose(updates[name], expected, rtol=2e-4, atol=1e-6)
        if number == late:
            assert_allclose(np.abs(updates['new']), 1, rtol=1e-4)
