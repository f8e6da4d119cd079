"""The pure functions as a library: common properties."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from jepa_text import losses
from jepa_text.losses import positions, regularizers, tokens, vectors
from jepa_text.objectives.latent import balance
from jepa_text.optim import schedules

MODULES = (positions, tokens, vectors, regularizers, schedules, balance)


def short(module):
    return module.__name__.rpartition('.')[2]


def public(module):
    """{name: function or class} of the public definitions of a module."""
    return {
        name: value
        for name, value in vars(module).items()
        if getattr(value, '__module__', None) == module.__name__
        and (inspect.isfunction(value) or inspect.isclass(value))
        and not name.startswith('_')
    }


# --- each function as a function of x_BMD, y_BMD and where_BM, not all of which it uses

B, M, D = 2, 5, 4
LABELS = np.arange(B * M).reshape(B, M) % D
SEGMENTS = np.array([[1, 1, 2, 2, 2], [1, 1, 1, 0, 0]])


def flat(x_BMD):
    return x_BMD.reshape(B * M, -1)


def directions():
    return regularizers.random_directions(jax.random.key(0), 8, D)


def weighed(section):
    """Returns the weights and memory of a balance rule after one update."""
    rule = balance.make(section, steps=10)

    def weights(x, y, where):
        params = {'balance': {'logit': x[0, 0, 0]}}
        seen = {
            'latent_loss': x[0, 0, 1],
            'token_loss': y[0, 0, 1],
            'latent_grad_norm': jnp.abs(x[0, 0, 2]),
            'token_grad_norm': jnp.abs(y[0, 0, 2]),
        }
        memory = rule.update(rule.memory(), seen)
        return *rule.weights(params, memory, 3), memory

    return weights


def at_step(schedule):
    return lambda x, y, where: schedule(jnp.abs(x[0, 0, 0]))


CASES = {
    'tokens.cross_entropy': lambda x, y, where: losses.cross_entropy(x, LABELS),
    'tokens.z_loss': lambda x, y, where: losses.z_loss(x),
    'tokens.correct': lambda x, y, where: losses.correct(x, LABELS),
    'vectors.cosine_distance': lambda x, y, where: losses.cosine_distance(x, y),
    'vectors.smooth_l1': lambda x, y, where: losses.smooth_l1(x, y, 0.5),
    'vectors.mse': lambda x, y, where: losses.mse(x, y),
    'vectors.info_nce': lambda x, y, where: losses.info_nce(
        flat(x), flat(y), where.reshape(-1), 0.07
    ),
    'vectors.layer_normalize': lambda x, y, where: losses.layer_normalize(x),
    'vectors.instance_normalize': lambda x, y, where: losses.instance_normalize(
        x, SEGMENTS * where
    ),
    'vectors.average_layers': lambda x, y, where: losses.average_layers(
        [x, y], 2, losses.layer_normalize
    ),
    'vectors.unit': lambda x, y, where: losses.unit(x),
    'positions.masked_sum': lambda x, y, where: losses.masked_sum(x[..., 0], where),
    'positions.masked_mean': lambda x, y, where: losses.masked_mean(x[..., 0], where),
    'positions.select': lambda x, y, where: losses.select(where, 3),
    'positions.take': lambda x, y, where: losses.take(x, losses.select(where, 3)[0]),
    'regularizers.random_directions': lambda x, y, where: directions(),
    'regularizers.sigreg': lambda x, y, where: regularizers.sigreg(
        flat(x), directions(), where.reshape(-1)
    ),
    'regularizers.vicreg_variance': lambda x, y, where: regularizers.vicreg_variance(
        flat(x), where.reshape(-1)
    ),
    'regularizers.vicreg_covariance': lambda x, y, where: regularizers.vicreg_covariance(
        flat(x), where.reshape(-1)
    ),
    'schedules.make': at_step(schedules.make(0.3, 10)),
    'schedules.constant': at_step(schedules.constant(0.3)),
    'schedules.linear': at_step(schedules.linear(1.0, 0.1, 10)),
    'schedules.cosine': at_step(schedules.cosine(1.0, 0.1, 10)),
    'schedules.wsd': at_step(schedules.wsd(1.0, 2, 3, 10)),
    'schedules.warmup_cosine': at_step(schedules.warmup_cosine(1.0, 2, 10)),
    'schedules.wsd_twice': at_step(schedules.wsd_twice(1.0, 2, 2, 6, 12)),
    'balance.make': weighed(0.3),
    'balance.fixed': weighed(dict(name='fixed', weight=0.2)),
    'balance.Scheduled': weighed(
        dict(name='schedule', of=dict(name='linear', start=0.1, end=0.9))
    ),
    'balance.Sigmoid': weighed(dict(name='sigmoid')),
    'balance.GradientRatio': weighed(dict(name='gradient_ratio')),
}
# An interface: nothing to differentiate.
NO_CASE = {'Balance'}
# These return integers and the dtype of the input by design.
KEEPS_DTYPE = {'positions.select', 'positions.take'}


def each(names, change=lambda function: function):
    """One program of all of them, which compiles in less time: to {name: values}."""
    made = {name: change(CASES[name]) for name in names}
    return jax.jit(lambda *inputs: {name: f(*inputs) for name, f in made.items()})


def given(seed):
    rng = np.random.default_rng(seed)
    x, y = np.float32(rng.normal(size=(2, B, M, D)))
    return x, y, rng.random((B, M)) < 0.6


def stacked(inputs):
    return tuple(np.stack(parts) for parts in zip(*inputs))


def with_slopes(function):
    """Its values, and the gradients with respect to x and y of the sum of all of them
    that are not integers."""

    def total(x, y, where):
        values = jax.tree.leaves(function(x, y, where))
        numbers = [z for z in values if jnp.issubdtype(z.dtype, jnp.floating)]
        return sum((jnp.sum(z) for z in numbers), 0.0 * jnp.sum(x)), values

    def both(*inputs):
        (_, values), slopes = jax.value_and_grad(total, (0, 1), has_aux=True)(*inputs)
        return values, slopes

    return both


def test_all_public_functions_have_a_case():
    wanted = {
        f'{short(module)}.{name}'
        for module in MODULES
        for name in public(module)
        if name not in NO_CASE
    }
    assert wanted == set(CASES)


EXTREMES = {
    'zeros': (0.0, 0.0),
    'the same': (1.0, 1.0),
    'opposite': (1.0, -1.0),
    'far apart': (1e4, -1e4),
    'one is zero': (0.0, 1e4),
    'tiny': (1e-20, -1e-20),
}


def test_values_and_gradients_are_finite_for_extreme_inputs():
    ones, signs = np.ones((B, M, D), np.float32), np.sign(given(0)[0])
    inputs = [
        (a * shape, b * shape, np.full((B, M), is_kept))
        for a, b in EXTREMES.values()
        for shape in (ones, signs)
        for is_kept in (False, True)
    ]
    one = np.arange(B * M).reshape(B, M) == 3
    inputs += [(ones, ones, one), (0 * ones, ones, one)]
    # Small divisors near 0, and a mask with some true positions.
    inputs += [(1e-3 * x, 1e3 * y, where) for x, y, where in map(given, range(3))]
    found = each(CASES, lambda f: jax.vmap(with_slopes(f)))(*stacked(inputs))
    for name, leaves in found.items():
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(leaves)), name


def test_bfloat16_input_gives_float32_output():
    x, y, where = given(0)
    halves, run = (jnp.bfloat16(x), jnp.bfloat16(y)), each(sorted({*CASES} - KEEPS_DTYPE))
    found, exact = run(*halves, where), run(*map(np.float32, halves), where)
    for name, leaves in found.items():
        for leaf, same in zip(*map(jax.tree.leaves, (leaves, exact[name])), strict=True):
            assert leaf.dtype == jnp.float32, name
            # It must also be computed in float32.
            assert_allclose(leaf, same, 1e-5, 1e-5, err_msg=name)


MASKED = (
    'positions.masked_mean',
    'vectors.info_nce',
    'vectors.instance_normalize',
    'regularizers.sigreg',
    'regularizers.vicreg_variance',
    'regularizers.vicreg_covariance',
)


def test_an_empty_mask_gives_zero():
    x, y, where = given(0)
    run = each(MASKED, with_slopes)
    for number in (1, np.nan):
        found = run(number * x, number * y, np.zeros_like(where))
        for name, leaves in found.items():
            for leaf in jax.tree.leaves(leaves):
                assert_array_equal(leaf, 0, err_msg=name)
