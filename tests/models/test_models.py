"""Properties of the trunks: attention masks, layouts, sizes; for parity see tests/hf."""

import draws
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util
from numpy.testing import assert_allclose, assert_array_equal
from test_objectives import by_repr

from jepa_text.models import heads, layers, stack, transformer
from jepa_text.parallel import activations, sharding
from jepa_text.settings import resolve

V, L = 37, 12
# Two documents and padding in one row.
SEGMENTS = np.array([[1, 1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0]], np.int32)
POSITIONS = np.array([[0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 0, 0]], np.int32)
SCALING = dict(factor=8.0, low=1.0, high=4.0, length=6)


def build(**options):
    return transformer.make('tiny', vocab_size=V, **options)


@by_repr
def init(model, seed=0):
    ids = jnp.zeros((1, L), jnp.int32)
    key = jax.random.key(seed)
    # Larger than the training init, so that attention is not nearly uniform.
    return draws.params(
        lambda: model.init(key, ids, ids, ids, causal=False)['params'], 0.1
    )


def run(model, params, tokens, segments=SEGMENTS, positions=POSITIONS, **options):
    options = {'causal': False, **options}
    apply = program(model, *sorted(options.items()))
    return apply(params, tokens, segments, positions)


@by_repr
def program(model, *options):
    return jax.jit(lambda p, *x: model.apply({'params': p}, *x, **dict(options)))


@pytest.fixture
def tokens():
    return np.random.default_rng(0).integers(4, V, (1, L)).astype(np.int32)


def reach(model, causal):
    """Whether each position of a row of one document depends on each other, [L, L]."""
    params = init(model)
    one, places = np.ones((1, L), np.int32), np.arange(L)[None]

    # Position i has token i, so the gradient of token j is that of position j.
    def outputs(embedding_VD):
        own = {**params, 'embedding': embedding_VD}
        hidden = model.apply({'params': own}, places, one, places, causal=causal)
        return hidden[0].sum(-1)

    jacobian_LVD = jax.jit(jax.jacrev(outputs))(params['embedding'])
    return np.abs(jacobian_LVD[:, :L]).sum(-1) > 0


# With a window, one of two layers has it; in the other, positions see only themselves.
@pytest.mark.parametrize(
    'window, causal',
    draws.in_stages((2, False), (None, True), (2, True), (None, False), slow=2),
)
def test_only_visible_positions_have_a_gradient(window, causal):
    options = {} if window is None else dict(window=(window, 0), rope_theta=None)
    distance_LL = np.arange(L)[:, None] - np.arange(L)
    expected_LL = np.abs(distance_LL) <= (L if window is None else window)
    expected_LL &= (distance_LL >= 0) | (not causal)
    assert_array_equal(reach(build(**options), causal), expected_LL)


@pytest.mark.parametrize('scan', draws.in_stages(True, False, fast=1))
def test_every_layer_returns_all_layers(tokens, scan):
    model = build(scan=scan)
    params = init(model)
    hidden, layers = run(model, params, tokens, every_layer=True)
    assert layers.shape == (model.depth + 1, 1, L, model.width)
    assert_allclose(layers[0, 0], params['embedding'][tokens[0]], rtol=1e-6)
    assert_array_equal(hidden, run(model, params, tokens))
    square = np.mean(np.square(layers[-1]), -1, keepdims=True)
    scale = params['norm']['scale'][None, None]
    assert_allclose(
        hidden, layers[-1] / np.sqrt(square + 1e-5) * scale, rtol=1e-4, atol=1e-5
    )


def test_bfloat16_computes_near_float32_and_keeps_float32_weights(tokens):
    model = build(dtype='bfloat16')
    params = init(build())
    assert {leaf.dtype for leaf in jax.tree.leaves(init(model))} == {jnp.dtype('float32')}
    low, high = run(model, params, tokens), run(build(), params, tokens)
    assert low.dtype == jnp.bfloat16
    assert np.abs(np.float32(low) - high)[SEGMENTS > 0].mean() < 0.05


def test_gradients_of_a_frequent_token_are_summed_in_float32():
    """Those of a mask token were off by half."""
    tokens = jnp.zeros((16, 256), jnp.int32).at[:, ::8].set(1)
    slope_BL1 = jnp.float32(1 + np.random.default_rng(0).random((16, 256, 1)))

    def gradient(dtype):
        def loss(table_VD):
            embedded = activations.embedding_lookup(table_VD, tokens, dtype)
            assert embedded.dtype == dtype
            return jnp.sum(embedded.astype(jnp.float32) * slope_BL1)

        return jax.jit(jax.grad(loss))(jnp.ones((2, 4)))

    assert_allclose(gradient('bfloat16'), gradient('float32'), rtol=2e-3)


@pytest.mark.parametrize(
    'options, words',
    [
        (dict(preset='tyny'), 'tyny'),
        (dict(preset='tiny', kv_heads=3), 'kv_heads=3'),
        (dict(preset='tiny', width=63), 'width=63'),
        (dict(preset='tiny', remat='maximum'), 'maximum'),
        (dict(preset='tiny', attention='magic'), 'magic'),
        (dict(width=64), 'depth'),
        (dict(preset='tiny', window=(1, 2, 3)), 'window has 3 values for 2 layers'),
        (dict(preset='tiny', rope_theta=[1e4]), 'rope_theta has 1 values'),
        (dict(preset='tiny', head_width=15), 'head_width=15: the width .* must be even'),
        (dict(preset='tiny', vocab_rows='all'), "vocab_rows='all' must be an integer"),
        (dict(preset='tiny', vocab_rows=2**40), 'vocab_rows=1099511627776 must be'),
        (dict(preset='tiny', vocab_row=64), "'vocab_row'. Did you mean 'vocab_rows'"),
        (
            dict(preset='tiny', rope_scaling=dict(factor=2)),
            "requires 'low'.*high, length",
        ),
        (dict(preset='tiny', rope_scaling=SCALING | {'factor': 0}), 'factor=0 must be'),
        (dict(preset='tiny', rope_scaling=SCALING | {'low': 4}), 'a low below its high'),
        (dict(name='bert', preset='tiny', act='gelo'), "act='gelo'.*'gelu'"),
        (dict(name='bert', preset='tiny', types=0), 'types=0 must be'),
        (dict(name='bert', preset='tiny', position_offset=-1), 'position_offset=-1'),
        (
            dict(name='bert', preset='tiny', positions=2, position_offset=2),
            'position_offset=2 leaves none of positions=2',
        ),
        (dict(name='modernbert', preset='tiny', head_act='tanh'), "head_act='tanh'"),
    ],
)
def test_errors_name_bad_sizes(options, words):
    with pytest.raises(ValueError, match=words):
        resolve.build('models', {'name': 'transformer', **options}, vocab_size=V)


OTHERS = {
    'bert': dict(positions=L + 2, position_offset=2),
    'modernbert': dict(local_window=4, depth=2, norm_bias=True, attention_bias=True),
    'transformer': dict(
        window=(3, None),
        rope_theta=(1e4, None),
        rope_scaling=SCALING,
        qkv_bias=True,
        o_bias=True,
        qk_norm=True,
        ffn_bias=True,
    ),
}


def other(name, **options):
    section = dict(name=name, preset='tiny', vocab_size=V)
    return resolve.build('models', section | OTHERS[name] | options)


@pytest.mark.parametrize('name', OTHERS)
def test_all_trunks_have_the_same_interface(tokens, name):
    model, where = other(name, dtype='bfloat16'), (tokens, SEGMENTS, POSITIONS)

    def outputs():
        params = model.init(jax.random.key(0), *where, causal=True)
        return model.apply(params, *where, causal=True, every_layer=True)

    last, every = jax.eval_shape(outputs)
    assert every.shape == (model.depth + 1, 1, L, model.width)
    assert last.shape == every.shape[1:] and last.dtype == jnp.bfloat16


@pytest.mark.parametrize(
    'name, make, remats',
    draws.in_stages(
        ('plain', lambda _, **options: build(**options), stack.REMAT),
        ('modernbert', other, ['full']),
        ('transformer', other, ['full']),
    ),
)
def test_unrolling_and_rematerialization_change_nothing(tokens, name, make, remats):
    def value_and_grad(model, params):
        def loss(p):
            hidden = model.apply({'params': p}, tokens, SEGMENTS, POSITIONS, causal=False)
            return (hidden**2 * jnp.arange(1.0, 65.0)[None, None]).mean()

        return jax.jit(jax.value_and_grad(loss))(params)

    params = init(make(name))
    value, grads = value_and_grad(make(name), params)
    others = [value_and_grad(make(name, remat=remat), params) for remat in remats]
    unrolled = transformer.unstack_layers(params)
    again, unrolled = value_and_grad(make(name, scan=False), unrolled)
    largest = max(np.abs(g).max() for g in jax.tree.leaves(grads))
    for one, slopes in (*others, (again, transformer.stack_layers(unrolled))):
        assert_allclose(one, value, rtol=1e-6)
        jax.tree.map(
            lambda a, b: assert_allclose(a, b, rtol=1e-3, atol=1e-5 * largest),
            slopes,
            grads,
        )


@pytest.mark.parametrize('name', OTHERS)
@pytest.mark.parametrize('tied', [True, False])
def test_all_trunks_have_an_lm_head_and_a_sharding(name, tied):
    model = other(name)
    head = heads.lm_head(model, tied)
    shapes = jax.eval_shape(lambda: head.init(jax.random.key(0), *head.example()))
    leaves = {*traverse_util.flatten_dict(shapes.get('params', {}), sep='/')}
    dense = {'dense/kernel', 'norm/scale', 'bias'}
    dense |= {'norm/bias'} if name == 'modernbert' else {'norm/bias', 'dense/bias'}
    wanted = set() if name == 'transformer' else dense
    assert leaves == (wanted if tied else wanted | {'output/kernel'})
    hidden, embedding = jnp.ones((2, 3, model.width)), jnp.ones((V, model.width))
    assert jax.eval_shape(head.apply, shapes, hidden, embedding).shape == (2, 3, V)
    ids = jnp.zeros((1, 2), jnp.int32)
    trunk = jax.eval_shape(
        lambda: model.init(jax.random.key(0), ids, ids, ids, causal=False)
    )
    mesh = sharding.make_mesh(data=1, fsdp=4)
    sharding.shardings({'params': {'encoder': trunk, 'lm_head': shapes}}, mesh)


@pytest.mark.slow
def test_angles_are_computed_once(tokens):
    """Not per layer, for queries and keys, forward and backward."""
    model = build(scan=False)

    def loss(params):
        inputs = tokens, SEGMENTS, POSITIONS
        return model.apply({'params': params}, *inputs, causal=False).sum()

    program = jax.jit(jax.grad(loss)).lower(init(model)).compile().as_text()
    assert program.count(' cosine(') <= 2


def test_a_bias_is_learned_by_a_product():
    """XLA on CPUs sums over rows slowly, because it recomputes the input of the sum."""
    linear, x_ND = layers.Linear(3, bias=True), jnp.ones((5, 4))
    params = linear.init(jax.random.key(0), x_ND)['params']

    def loss(apply):
        return lambda params: jnp.sum(jax.nn.gelu(apply(params)))

    ours = loss(lambda params: linear.apply({'params': params}, x_ND))
    plain = loss(lambda params: x_ND @ params['kernel'] + params['bias'][None])
    sums = [
        equation.invars[0].aval.shape
        for equation in jax.make_jaxpr(jax.grad(ours))(params).eqns
        if equation.primitive.name == 'reduce_sum' and equation.params['axes'] == (0,)
    ]
    assert (5, 3) not in sums
    slopes = [jax.jit(jax.grad(one))(params) for one in (ours, plain)]
    assert_allclose(slopes[0]['bias'], slopes[1]['bias'], rtol=1e-6)


def test_vocab_rows_gives_the_embedding_more_rows():
    assert build(vocab_rows=64).vocab_size == build(vocab_rows=64.0).vocab_size == 64
    says = 'vocab_rows=5, but the tokenizer has 37.*Set it to 37 or more.*init_from'
    with pytest.raises(ValueError, match=says):
        build(vocab_rows=5)
