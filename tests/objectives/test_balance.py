"""The weights of each balance rule, and the drift of the learned one."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose

from jepa_text.objectives.latent import balance
from jepa_text.optim import adam

EVERY_RULE = [
    dict(name='fixed', weight=0.3),
    dict(name='schedule', of=dict(name='linear', start=0.1, end=0.9)),
    dict(name='sigmoid'),
    dict(name='gradient_ratio'),
]


def parameters(rule):
    """The initial parameters of the modules of a rule."""
    return {
        name: module.init(jax.random.key(0), *module.example())['params']
        for name, module in rule.modules().items()
    }


def weights_of(rule, memory=None, step=0, params=None):
    memory = rule.memory() if memory is None else memory
    return jax.jit(rule.weights)(params or parameters(rule), memory, step)


def observe(latent=jnp.nan, tokens=jnp.nan, latent_norm=jnp.nan, token_norm=jnp.nan):
    return {
        'latent_loss': latent,
        'token_loss': tokens,
        'latent_grad_norm': latent_norm,
        'token_grad_norm': token_norm,
    }


@pytest.mark.parametrize('section', EVERY_RULE, ids=lambda section: section['name'])
def test_contract(section):
    rule = balance.make(section, steps=100)
    memory = {**rule.memory(), 'diagnostics': {'of': jnp.ones(2)}}
    for step in range(3):
        latent_weight, token_weight = weights_of(rule, memory, step=step)
        for weight in (latent_weight, token_weight):
            assert weight.shape == () and weight.dtype == jnp.float32
            assert np.isfinite(weight) and weight >= 0
        share = latent_weight / (latent_weight + token_weight)
        assert 0 < share < 1
        new = jax.jit(rule.update)(memory, observe(0.5, 6.0, 0.1, 0.2))
        assert jax.tree.structure(new) == jax.tree.structure(memory)
        assert all(new[key].dtype == jnp.float32 for key in rule.memory())
        assert_allclose(new['diagnostics']['of'], 1)
        memory = new


@pytest.mark.parametrize('section', EVERY_RULE, ids=lambda section: section['name'])
def test_no_gradient_flows_through_the_losses_into_the_weights(section):
    rule = balance.make(section, steps=100)
    params, memory = parameters(rule), rule.memory()

    def later(losses_2):
        seen = rule.update(memory, observe(*losses_2, *losses_2))
        return rule.weights(params, seen, 1)[0]

    assert_allclose(jax.grad(later)(jnp.array([0.4, 3.0])), 0)


def test_fixed_and_schedule():
    assert_allclose(weights_of(balance.make(0.25, 10)), (0.25, 0.75))
    assert_allclose(weights_of(balance.make(dict(name='fixed', weight=1), 10)), (1, 0))
    rule = balance.make(EVERY_RULE[1], steps=10)
    found = [weights_of(rule, step=step)[0] for step in (0, 5, 10, 99)]
    assert_allclose(found, [0.1, 0.5, 0.9, 0.9], rtol=1e-6)


def test_sigmoid_has_the_gradient_of_the_paper_and_none_if_clipped():
    """jepa_mlm 2.3: dL/dw = lambda (1 - lambda) (latent - tokens)."""
    rule = balance.make(dict(name='sigmoid'), 10)
    assert_allclose(parameters(rule)['balance']['logit'], 0)

    def loss(logit):
        learned = {'balance': {'logit': logit}}
        a, b = rule.weights(learned, {}, 0)
        return a * 1.0 + b * 8.0

    for logit in (-1.0, 0.0, 2.0):
        share = 1 / (1 + np.exp(-logit))
        assert_allclose(jax.grad(loss)(logit), share * (1 - share) * -7, rtol=1e-5)
    assert_allclose([jax.grad(loss)(3.0), jax.grad(loss)(-3.0)], 0)
    for logit, share in ((3.0, 0.9), (-3.0, 0.1)):
        learned = {'balance': {'logit': jnp.float32(logit)}}
        found = weights_of(rule, params=learned)
        assert_allclose(found, (share, 1 - share), rtol=1e-5)


def test_running_means_are_unbiased_from_the_first_value_on(rng):
    rule = balance.make(dict(name='gradient_ratio', momentum=0.9, high=1.0), 10)
    memory, seen, update = rule.memory(), [], jax.jit(rule.update)
    for latent, tokens in rng.uniform(0.1, 9, (20, 2)):
        seen.append((latent, tokens))
        memory = update(memory, observe(1.0, 8.0, latent, tokens))
        # A step with a value that is not finite updates neither mean.
        memory = update(memory, observe(1.0, 8.0, jnp.nan, 5.0))
        memory = update(memory, observe(1.0, 8.0, 5.0, jnp.inf))
        decay = 0.9 ** np.arange(len(seen))[::-1]
        mean = np.exp(decay @ np.log(seen) / decay.sum())
        expected = mean[::-1] / mean.sum()
        assert_allclose(weights_of(rule, memory), expected, rtol=1e-5)


def test_gradient_ratio_in_closed_form():
    rule = balance.make(dict(name='gradient_ratio', ratio=0.5, initial=0.2), 10)
    assert_allclose(weights_of(rule)[0], 0.2, rtol=1e-6)
    memory = rule.update(rule.memory(), observe(1.0, 8.0))
    assert_allclose(weights_of(rule, memory)[0], 0.2, rtol=1e-6)
    memory = rule.update(memory, observe(1.0, 8.0, 3.0, 2.0))
    found, rest = weights_of(rule, memory)
    assert_allclose(found * 3.0 / (rest * 2.0), 0.5, rtol=1e-6)
    # Clipped if either gradient vanishes; without latents or masks nothing is measured.
    tiny = 1e-20
    for norms, clamp in (((tiny, 1.0), 0.9), ((1.0, tiny), 0.01), ((tiny, tiny), 1 / 3)):
        memory = rule.update(rule.memory(), observe(1.0, 8.0, *norms))
        assert_allclose(weights_of(rule, memory)[0], clamp, rtol=1e-6)
    for norms in ((0.0, 1.0), (1.0, 0.0)):
        assert rule.update(memory, observe(1.0, 8.0, *norms)) == memory


def warm_up(steps):
    """A run that ends during warm-up: it has three epochs, the warm-up ten."""
    return np.linspace(1e-6, 1e-6 + 0.3 * 4.9e-5, steps)


def test_the_published_settings_drift_as_their_schedules_predict():
    """jepa_mlm 2.3, measured with torch's AdamW: lambda at 1/3, 2/3 and the end."""
    steps = 300_000
    fall = 0.5 * (1 + np.cos(np.pi * np.arange(steps) / steps))
    half = np.append(warm_up(steps // 2), np.zeros(steps // 2))
    rates = np.stack([warm_up(steps), half, 1e-6 + 4.9e-5 * fall], axis=1)
    noise_T = 0.3 * np.random.default_rng(0).uniform(-1, 1, steps)
    rule = balance.Sigmoid(low=0.0, high=1.0)
    adam = optax.chain(
        optax.scale_by_adam(0.9, 0.999, 1e-8), optax.add_decayed_weights(0.05)
    )

    def share(w):
        return rule.share({'balance': {'logit': w}}, {}, 0)

    def step(carry, inputs):
        w, state = carry
        number, rate, noise = inputs
        fall = jnp.exp(-number / (0.1 * steps))
        latent = (0.15 + 0.8 * fall) * (1 + noise)
        tokens = (2.5 + 7.5 * fall) * (1 - noise)
        grad = jax.grad(lambda w: share(w) * latent + (1 - share(w)) * tokens)(w)
        update, state = adam.update(grad, state, w)
        w = w - rate * update
        return (w, state), share(w)

    @jax.jit
    @functools.partial(jax.vmap, in_axes=1, out_axes=1)
    def run(rates_T):
        start = jnp.zeros(())
        inputs = (jnp.arange(steps, dtype=jnp.float32), rates_T, jnp.float32(noise_T))
        return jax.lax.scan(step, (start, adam.init(start)), inputs)[1]

    shares = run(jnp.float32(rates))
    thirds = [steps // 3, 2 * steps // 3, steps - 1]
    assert_allclose(shares[thirds, 0], [0.584, 0.754, 0.905], atol=0.02)
    halves = [steps // 6, steps // 3, steps // 2]
    assert_allclose(shares[halves, 1], [0.542, 0.637, 0.762], atol=0.02)
    assert_allclose(shares[thirds, 2], [0.973, 0.995, 0.997], atol=0.02)


def test_the_logit_has_its_own_lr_multiplier_and_no_weight_decay():
    params = parameters(balance.make(dict(name='sigmoid', initial=0.8), 10))
    optimizer = adam.adamw(weight_decay=0.5, balance_lr_multiplier=0.1)
    zeros, ones = (
        jax.tree.map(jnp.zeros_like, params),
        jax.tree.map(jnp.ones_like, params),
    )
    still, _ = optimizer.update(zeros, optimizer.init(params), params)
    moved, _ = optimizer.update(ones, optimizer.init(params), params)
    assert_allclose(still['balance']['logit'], 0)
    assert_allclose(moved['balance']['logit'], -0.1, rtol=1e-5)


@pytest.mark.parametrize(
    'section, message',
    [
        (1.5, 'balance fixed: weight=1.5 must be a number at least 0 and at most 1'),
        (dict(name='magic'), "balance='magic'. Available: fixed, gradient"),
        (dict(name='fixed'), "fixed requires 'weight'"),
        (dict(name='sigmoid', initial=1.0), 'initial=1.0 must be .* at most 0.999'),
        (dict(name='sigmoid', low=-0.1), 'low=-0.1 must be a number at least 0'),
        (dict(name='sigmoid', low=0.6), r'low=0.6, high=0.9\) needs low <= initial'),
        (dict(name='gradient_ratio', momentum=1.0), 'momentum=1.0 must be .* below 1'),
        (dict(name='gradient_ratio', initial=0), 'initial=0 must be .* least 1e-12'),
        (
            dict(name='gradient_ratio', ratio=-2),
            'ratio=-2 must be a number at least 1e-12',
        ),
        (dict(name='gradient_ratio', high=0.4), 'high=0.4'),
        (dict(name='gradient_ratio', every_steps=0), 'every_steps=0 must be an int'),
        (None, 'weight=None must be a finite'),
        (
            dict(name='schedule', of=dict(name='linear', start=0, end=2)),
            'balance: of at step 10=2.0 must be .* at most 1',
        ),
        (
            # Too high neither at the start, nor in the middle, nor at the end.
            dict(
                name='schedule',
                of=dict(name='wsd', peak=1.25, warmup_steps=2, decay_steps=7),
            ),
            'balance: of at step 1=1.25 must be .* at most 1',
        ),
        (dict(name='schedule'), "schedule requires 'of'"),
    ],
)
def test_errors_name_what_is_wrong_in_a_section(section, message):
    with pytest.raises(ValueError, match=message):
        balance.make(section, steps=10)
