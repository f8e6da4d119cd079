"""Muon and AdamW: selection by path, stacked layers, and reference implementations."""

import functools

import draws
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy
from numpy.testing import assert_allclose, assert_array_equal

from jepa_text.optim import adam, muon, optimizers
from jepa_text.parallel import leaves, sharding
from jepa_text.settings import resolve

SHAPES = {
    'encoder': {
        'embedding': (9, 4),
        'layers': {
            'up': {'kernel': (3, 4, 7)},
            'down': {'kernel': (3, 7, 4)},
            'norm': {'scale': (3, 4)},
        },
        'norm': {'scale': (4,)},
    },
    'lm_head': {'output': {'kernel': (4, 9)}},
    'predictor': {'enter': {'kernel': (4, 5)}, 'query': (5,)},
    'balance': {'logit': ()},
}


def is_shape(x):
    return isinstance(x, tuple)


def tree(seed, shapes=SHAPES):
    """Normal values in the shapes of a small network with three stacked layers."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda shape: np.float32(rng.normal(size=shape)), shapes, is_leaf=is_shape
    )


def unrolled(params):
    """The same values with separate layers."""
    encoder = dict(params['encoder'])
    layers = encoder.pop('layers')
    for index in range(3):
        encoder[f'layer_{index}'] = jax.tree.map(lambda x, i=index: x[i], layers)
    return params | {'encoder': encoder}


def updates_of(optimizer, params, gradients):
    """The update of each step on fixed parameters, and the last state."""
    state, found = jax.jit(optimizer.init)(params), []
    update = jax.jit(optimizer.update)
    for gradient in gradients:
        updates, state = update(gradient, state, params)
        found.append(jax.device_get(updates))
    return found, state


@pytest.mark.parametrize('name', draws.in_stages('adamw', 'muon', fast=1))
def test_stacked_and_single_layers_get_the_same_updates_bit_for_bit(name):
    optimizer = optimizers.make({'name': name})
    gradients = [tree(seed) for seed in range(1, 4)]
    stacked, _ = updates_of(optimizer, tree(0), gradients)
    single, _ = updates_of(optimizer, unrolled(tree(0)), map(unrolled, gradients))
    for ours, theirs in zip(stacked, single):
        jax.tree.map(assert_array_equal, unrolled(ours), theirs)


def test_muon_updates_hidden_matrices_and_adamw_all_other_leaves():
    gradients = [tree(1), tree(2)]
    matrices, _ = updates_of(muon.muon(weight_decay=0.1), tree(0), gradients)
    adamw, _ = updates_of(adam.adamw(weight_decay=0.1), tree(0), gradients)
    ours, theirs = leaves.by_name(matrices[-1]), leaves.by_name(adamw[-1])
    differing = {path for path in ours if not np.array_equal(ours[path], theirs[path])}
    assert differing == {
        'encoder/layers/up/kernel',
        'encoder/layers/down/kernel',
        'predictor/enter/kernel',
    }


@pytest.mark.parametrize('ns_lower', [None, 0.05])
@pytest.mark.parametrize(
    'ns_steps, shape',
    [(1, (6, 4)), (3, (4, 6)), (5, (8, 8)), (5, (2, 3, 6, 4)), (5, (1, 7))],
)
def test_ns_steps_are_steps_of_the_polynomial_on_singular_values(
    ns_steps, shape, ns_lower
):
    gradient = np.float32(np.random.default_rng(0).normal(size=shape))
    params = {'encoder': {'kernel': jnp.zeros(shape)}}
    optimizer = muon.muon(weight_decay=0.0, ns_steps=ns_steps, ns_lower=ns_lower)
    # The size of a gradient does not matter.
    gradients = {'encoder': {'kernel': 1e4 * gradient}}
    updates, _ = optimizer.update(gradients, optimizer.init(params), params)
    norm = np.linalg.norm(gradient, axis=(-2, -1), keepdims=True)
    u, s, v = np.linalg.svd(gradient / norm, full_matrices=False)
    jordan = [(3.4445, -4.7750, 2.0315)] * ns_steps
    for a, b, c in muon.minimax(ns_steps, ns_lower) if ns_lower else jordan:
        s = a * s + b * s**3 + c * s**5
    expected = -0.2 * max(shape[-2:]) ** 0.5 * (u * s[..., None, :]) @ v
    assert_allclose(updates['encoder']['kernel'], expected, atol=1e-5)


@pytest.mark.parametrize(
    'steps, lower',
    [
        *((3, 0.01), (2, 0.1)),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((4, 1e-3), (6, 0.3))),
    ],
)
def test_minimax_coefficients_are_those_of_a_linear_program(steps, lower):
    """Minimizes e such that |1 - p(s)| <= e on a fine grid, step by step."""
    upper = 1.0
    for a, b, c in muon.minimax(steps, lower):
        grid_N = np.linspace(lower, upper, 5_000)
        powers_NK = grid_N[:, None] ** [1, 3, 5]
        ones_N1 = np.ones((len(grid_N), 1))
        found = scipy.optimize.linprog(
            [0, 0, 0, 1],
            np.block([[powers_NK, -ones_N1], [-powers_NK, -ones_N1]]),
            np.repeat([1.0, -1.0], len(grid_N)),
            bounds=(None, None),
        )
        error = np.abs(1 - powers_NK @ [a, b, c]).max()
        assert error == pytest.approx(found.x[3], abs=1e-6)
        lower, upper = 1 - error, 1 + error


@pytest.mark.peer
@pytest.mark.parametrize('shape', [(6, 6), (4, 10), (10, 4)])
def test_muon_matches_torch(shape, monkeypatch, rng):
    """Five steps of torch.optim.Muon, with its iteration in float32."""
    torch = pytest.importorskip('torch', minversion='2.9')
    monkeypatch.setattr(torch.Tensor, 'bfloat16', torch.Tensor.float)
    start, *gradients = np.float32(rng.normal(size=(6, *shape)))
    theirs = torch.nn.Parameter(torch.tensor(start))
    settings = dict(lr=0.01, momentum=0.9, weight_decay=0.2)
    reference = torch.optim.Muon([theirs], adjust_lr_fn='match_rms_adamw', **settings)
    optimizer = muon.muon(momentum=0.9, weight_decay=0.2)
    params = {'encoder': {'kernel': jnp.asarray(start)}}
    state = optimizer.init(params)
    for gradient in gradients:
        theirs.grad = torch.tensor(gradient)
        reference.step()
        grads = {'encoder': {'kernel': gradient}}
        updates, state = optimizer.update(grads, state, params)
        params = jax.tree.map(lambda p, u: p + 0.01 * u, params, updates)
    assert_allclose(params['encoder']['kernel'], theirs.detach(), atol=1e-5)
    assert np.abs(start - np.asarray(theirs.detach())).max() > 0.01


@pytest.mark.parametrize('flags', ['', '(?i)'])
def test_decay_is_by_path_in_both_optimizers(flags):
    zeros = [jax.tree.map(np.zeros_like, tree(0))]
    optimizer = muon.muon(weight_decay=0.5, decay_paths=f'{flags}(up|output)/kernel$')
    (updates,), _ = updates_of(optimizer, tree(0), zeros)
    params = leaves.by_name(tree(0))
    for path, update in leaves.by_name(updates).items():
        is_decayed = path.endswith(('up/kernel', 'output/kernel'))
        assert_allclose(update, -0.5 * params[path] * is_decayed, atol=1e-7)


@pytest.mark.parametrize('name', ['muon', 'adamw'])
def test_momentum_in_half_precision_is_nearly_the_same(name):
    gradients = [tree(seed) for seed in range(1, 4)]
    whole, _ = updates_of(optimizers.make({'name': name}), tree(0), gradients)
    half = optimizers.make({'name': name, 'momentum_dtype': 'bfloat16'})
    found, state = updates_of(half, tree(0), gradients)
    halves = [p for p, x in leaves.by_name(state).items() if x.dtype == jnp.bfloat16]
    assert len(halves) == len(jax.tree.leaves(tree(0)))
    for ours, theirs in zip(jax.tree.leaves(found[-1]), jax.tree.leaves(whole[-1])):
        assert ours.dtype == jnp.float32
        assert_allclose(ours, theirs, atol=0.05)
        assert not np.array_equal(ours, theirs)


# One leaf that decays and one that does not.
FEW = {'encoder': {name: SHAPES['encoder'][name] for name in ('embedding', 'norm')}}


@pytest.mark.parametrize(
    'section, reference',
    [
        (
            dict(name='adamw'),
            lambda rate: optax.adamw(
                rate,
                b2=0.95,
                weight_decay=0.1,
                mask=adam.mask(tree(0, FEW), '(kernel|embedding)$'),
            ),
        ),
        (dict(name='sgd', momentum=0.9), lambda rate: optax.sgd(rate, 0.9)),
        (dict(name='sgd'), optax.sgd),
    ],
)
def test_make_is_used_like_the_optimizers_of_optax(section, reference):
    """In a chain with a schedule of the rate; parameters are updated by apply_updates."""

    def schedule(step):
        return 0.1 / (step + 1)

    def trained(optimizer):
        params = tree(0, FEW)
        state = optimizer.init(params)

        @jax.jit
        def step(params, state, gradients):
            updates, state = optimizer.update(gradients, state, params)
            return optax.apply_updates(params, updates), state

        for seed in (1, 2, 3):
            params, state = step(params, state, tree(seed, FEW))
        return params

    rate = optax.scale_by_schedule(schedule)
    ours = trained(optax.chain(optimizers.make(section), rate))
    theirs = trained(reference(schedule))
    jax.tree.map(lambda a, b: assert_allclose(a, b, atol=1e-6), ours, theirs)


@pytest.mark.parametrize('name', draws.in_stages('adamw', 'muon', slow=2))
def test_an_update_is_the_same_on_one_device_and_on_four(name):
    """Moments are sharded like their parameters."""
    shapes = jax.tree.map(
        lambda shape: tuple(2 * size for size in shape), SHAPES, is_leaf=is_shape
    )
    optimizer, params = optimizers.make({'name': name}), tree(0, shapes)
    gradients = [tree(seed, shapes) for seed in (1, 2)]
    alone, _ = updates_of(optimizer, params, gradients)
    mesh = sharding.make_mesh(data=1, fsdp=2, tensor=2)
    places = sharding.shardings(params, mesh)
    placed = [jax.device_put(each, places) for each in (params, *gradients)]
    state = jax.jit(optimizer.init)(placed[0])
    kept = sharding.shardings(state, mesh)
    moments = {key: x for key, x in leaves.by_name(kept).items() if '/age/' not in key}
    for path, place in leaves.by_name(places).items():
        of_it = [x.spec for key, x in moments.items() if key.endswith(f'/{path}')]
        assert of_it and set(of_it) == {place.spec}, path
    update = jax.jit(optimizer.update, out_shardings=(places, kept))
    state = jax.device_put(state, kept)
    for gradient, expected in zip(placed[1:], alone):
        updates, state = update(gradient, state, placed[0])
        jax.tree.map(lambda a, b: assert_allclose(a, b, atol=1e-5), updates, expected)


@pytest.mark.parametrize(
    'section, message',
    [
        (dict(name='moun'), "optimizer='moun'. Did you mean 'muon'.*: adamw, muon, sgd"),
        (dict(name='muon', momentum_dtype='float16'), "momentum_dtype='float16'. Did"),
        (dict(name='sgd', momentum=1.5), 'momentum=1.5 .* below 1'),
        (dict(name='muon', ns_lower=1.0), 'ns_lower=1.0 must be .* below 1'),
        (dict(name='muon', ns_steps=0), 'ns_steps=0 must be an integer at least 1'),
        (
            # A pair is not a list of pairs.
            dict(name='sgd', lr_multipliers=('embedding$', 0.0)),
            r"pairs of a pattern.*\(\('embedding\$', 0.1",
        ),
        (dict(name='sgd', lr_multipliers='embedding$'), 'pairs of a pattern'),
        (dict(name='sgd', lr_multipliers=0.0), 'pairs of a pattern'),
        (
            dict(name='sgd', lr_multipliers=(('norm', 0.1), ('norm', 0.5))),
            'has a pattern twice',
        ),
    ],
)
def test_errors_name_what_is_wrong_in_a_section(section, message):
    with pytest.raises(ValueError, match=message):
        optimizers.make(section)


@pytest.mark.parametrize(
    'paths, message',
    [
        ('attention', "paths='attention' matches no parameter.*default is '.*kernel"),
        ('r/norm', "paths='r/norm' matches 'encoder/norm/scale', which is not a matrix"),
        ('s/norm', "matches 'encoder/layers/norm/scale', which is not a matrix"),
    ],
)
def test_muon_names_wrong_paths(paths, message):
    with pytest.raises(ValueError, match=message):
        muon.muon(paths=paths).init(tree(0))


@pytest.mark.parametrize(
    'section', [{'lr_multipliers': (('predictor/', 0.5),)}, {'decay_paths': 'predictor/'}]
)
def test_patterns_may_match_parameters_of_later_phases(section):
    optimizers.check_paths(section, [{'encoder': 1.0}, {'predictor': {'up': 1.0}}])
    with pytest.raises(ValueError, match="'predictor/' matches no parameter"):
        optimizers.check_paths(section, [{'encoder': 1.0}, {'lm_head': 1.0}])


@pytest.mark.parametrize('pattern', ['layer_0/.*kernel$', '^balance/'])
def test_decay_is_of_whole_leaves_and_not_of_the_balance(pattern):
    """As paths are in the state: of scanned layers, 'encoder/layers/up/kernel'."""
    says = (
        "decay_paths: .* matches no parameter.*'encoder/embedding' and 'predictor/query'"
    )
    with pytest.raises(ValueError, match=says):
        optimizers.check_paths({'decay_paths': pattern}, [tree(0)])


@pytest.mark.parametrize('scan', [True, False])
def test_layers_are_numbered_from_the_first_one_on(scan):
    """Of a ModernBERT, whose first layer is not in the stack."""
    given = dict(preset='tiny', depth=4, scan=scan)
    model = resolve.build('models', dict(name='modernbert', **given), vocab_size=9)
    ids = jnp.zeros((1, 4), jnp.int32)
    run = functools.partial(model.init, causal=False)
    params = jax.eval_shape(run, jax.random.key(0), ids, ids, ids)['params']
    ones = {'encoder': jax.tree.map(lambda x: np.ones(x.shape, np.float32), params)}
    pairs = (('layer_[0-1]/', 0.0), ('layer_3/', 0.5))
    optimizers.check_paths({'lr_multipliers': pairs}, [ones])
    scale = optimizers.with_lr_multipliers(optax.identity(), dict(pairs))
    found = jax.device_get(jax.jit(scale.update)(ones, scale.init(ones))[0])
    found = (unrolled(found) if scan else found)['encoder']
    names = ['first', *(f'layer_{i}' for i in range(3))]
    ups = [float(found[name]['ffn']['up']['kernel'][0, 0]) for name in names]
    assert ups == [0.0, 0.0, 1.0, 0.5]


@pytest.mark.parametrize(
    'name, form',
    draws.in_stages(
        *(('adamw', dict), ('muon', unrolled), ('sgd', dict)),
        *(('adamw', unrolled), ('muon', dict), ('sgd', unrolled)),
        fast=2,
        slow=4,
    ),
)
def test_multipliers_scale_updates_exactly(name, form):
    params, grads = form(tree(0)), form(tree(1))
    lr_multipliers = (
        ('layer_0/', 0.0),
        ('layer_1/', 0.5),
        ('kernel$', 0.25),
        ('embedding', 0.125),
    )
    section = {'name': name, 'lr_multipliers': lr_multipliers}
    (plain,), state = updates_of(optimizers.make({'name': name}), params, [grads])
    (scaled,), its = updates_of(optimizers.make(section), params, [grads])
    jax.tree.map(assert_array_equal, state, its)
    if form is dict:
        plain, scaled = unrolled(plain), unrolled(scaled)
    scaled = leaves.by_name(scaled)
    for path, leaf in leaves.by_name(plain).items():
        factor = 0.25 if path.endswith('kernel') else 1.0
        factor *= 0.125 if 'embedding' in path else 1.0
        factor *= {'layer_0': 0.0, 'layer_1': 0.5}.get(path.split('/')[1], 1.0)
        assert_array_equal(scaled[path], leaf * np.float32(factor), err_msg=path)


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
    grads = [tree(n, dict(old=(7, 2), new=(6,))) for n in range(60)]
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
