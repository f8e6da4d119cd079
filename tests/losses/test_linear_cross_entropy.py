"""linear_cross_entropy equals the unfused computation, in a fraction of its memory."""

import functools

import draws
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from numpy.testing import assert_allclose, assert_array_equal

from jepa_text import losses
from jepa_text.losses import linear_cross_entropy
from jepa_text.models import heads
from jepa_text.parallel import sharding

B, M, D, V = 2, 7, 5, 23
# Chunks of all positions, more, less than one per row, one; divisors of M and others.
CHUNKS = draws.in_stages(14, 4, 12, 1, 100, 6, fast=2, slow=4)


@pytest.fixture
def inputs():
    """hidden, kernel and labels, with labels at both ends of the vocabulary."""
    rng = np.random.default_rng(0)
    hidden = np.float32(rng.normal(size=(B, M, D)))
    kernel = np.float32(rng.normal(size=(D, V)))
    labels = [[0, 4, 5, 9, 10, 22, 21], [1, 17, 18, 6, 11, 12, 22]]
    return hidden, kernel, np.int32(labels)


@functools.partial(jax.jit, static_argnums=4)
def plain(hidden, kernel, labels, weight, z_weight=0.1):
    logits = hidden @ kernel
    z = jax.nn.logsumexp(logits, axis=-1)
    loss = losses.cross_entropy(logits, labels)
    total = jnp.sum(jnp.where(weight == 0, 0, weight * (loss + z_weight * z**2)))
    return total, (loss, z, losses.correct(logits, labels))


@functools.cache
def fused_by(chunk, **options):
    """Compiled as a whole, once per chunk and options."""
    given = dict(chunk_positions=chunk, z_weight=0.1, **options)
    return jax.jit(functools.partial(linear_cross_entropy, **given))


def close(ours, expected, atol=1e-5, **more):
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        assert_allclose(one, other, atol=atol, **more)


def weights(labels):
    """Different weights per position, some negative, one 0."""
    return np.linspace(-1, 2, labels.size, dtype='f').round(1).reshape(labels.shape)


def gradients(form, hidden, kernel, labels, weight=None):
    """Gradients of 3 * total with respect to hidden states, kernel and weights."""
    weight = weights(labels) if weight is None else weight
    return gradient_of(form)(hidden, kernel, weight, labels)


@functools.cache
def gradient_of(form):
    def total(hidden, kernel, weight, labels):
        return 3 * form(hidden, kernel, labels, weight)[0]

    return jax.jit(jax.grad(total, argnums=(0, 1, 2)))


@pytest.mark.parametrize('chunk', CHUNKS)
def test_fused_equals_plain_forward_and_backward(inputs, chunk):
    form = fused_by(chunk)
    weight = weights(inputs[2])
    ours = form(*inputs, weight)
    assert all(one.dtype == jnp.float32 for one in jax.tree.leaves(ours))
    close(ours, plain(*inputs, weight))
    close(gradients(form, *inputs), gradients(plain, *inputs))


def test_bfloat16_accumulates_in_float32():
    rng = np.random.default_rng(1)
    hidden = rng.normal(size=(2, 5, 256)).astype(jnp.bfloat16)
    kernel = np.float32(rng.normal(size=(256, 40)) / 16)
    labels = rng.integers(0, 40, (2, 5))
    # bfloat16 values in float32, where their products are exact.
    exact = np.float32(hidden), np.float32(kernel.astype(jnp.bfloat16))
    form = fused_by(4)
    found = form(hidden, kernel, labels, weights(labels))[1]
    assert {x.dtype for x in found} == {jnp.dtype('float32')}
    close(found, plain(*exact, labels, weights(labels))[1])
    weight = weights(labels).astype(jnp.bfloat16)
    slopes = gradients(form, hidden, kernel, labels, weight)
    assert [x.dtype for x in slopes] == [jnp.bfloat16, jnp.float32, jnp.bfloat16]
    wanted = gradients(plain, *exact, labels, np.float32(weight))
    for ours, expected in zip(slopes[:2], wanted[:2], strict=True):
        scale = np.abs(expected).max()
        assert_allclose(np.float32(ours), expected, atol=0.004 * scale)


def test_huge_logits_stay_finite(inputs):
    hidden, kernel, labels = inputs
    big = 1e4 * hidden, kernel, labels
    ours, expected = (f(*big, weights(labels))[1][0] for f in (fused_by(4), plain))
    assert_allclose(ours, expected, rtol=1e-5, atol=1e-2)
    assert all(np.isfinite(x).all() for x in gradients(fused_by(4), *big))


def test_equal_logits_are_all_correct(inputs):
    hidden, kernel, labels = inputs
    correct = fused_by(4)(hidden, 0 * kernel, labels, weights(labels))[1][2]
    assert_array_equal(correct, np.ones((B, M)))


@pytest.mark.parametrize('bad', [-100, V])
def test_labels_outside_the_vocabulary_give_nan_except_at_weight_0(inputs, bad):
    hidden, kernel, labels = inputs
    outside = labels.copy()
    outside[1, 2] = bad
    ones = np.ones(labels.shape, np.float32)
    total, (loss, *_) = jax.device_get(fused_by(4)(hidden, kernel, outside, ones))
    assert np.isnan(total) and np.isnan(loss).sum() == np.isnan(loss[1, 2]) == 1

    def both(form, labels):
        weight = weights(labels)
        weight[1, 2] = 0
        given = hidden, kernel, labels, weight
        return form(*given)[0], *gradients(form, *given)[:2]

    close(both(fused_by(4), outside), both(plain, labels))


def test_losses_have_no_gradient_and_forward_computes_none(inputs):
    hidden, kernel, labels = inputs

    def loss(hidden):
        return sum(map(jnp.sum, fused_by(4)(hidden, kernel, labels, weights(labels))[1]))

    assert_array_equal(jax.jit(jax.grad(loss))(hidden), np.zeros_like(hidden))
    forward = fused_by(14).lower(*inputs, weights(labels)).compile()
    assert forward.as_text().count(' dot(') == 1
    both = jax.jit(jax.value_and_grad(lambda *x: fused_by(14)(*x)[0], argnums=(0, 1)))
    text = both.lower(*inputs, weights(labels)).compile().as_text()
    assert text.count(' dot(') == 3


def test_vmap_over_kernels_equals_a_loop(inputs):
    hidden, kernel, labels = inputs
    kernels = np.stack([kernel, -kernel, 2 * kernel])
    form = fused_by(4)
    every = jax.jit(jax.vmap(lambda k: gradients(form, hidden, k, labels)))
    together = jax.device_get(every(kernels))
    for index, one in enumerate(kernels):
        ours = [each[index] for each in together]
        close(ours, gradients(plain, hidden, one, labels), rtol=1e-6)


@pytest.mark.parametrize(
    'shape, vocab_first, width',
    draws.in_stages(
        ((2, 2, 1), True, 'fsdp'),
        ((2, 1, 2), False, None),
        ((1, 2, 2), False, 'fsdp'),
        ((2, 2, 1), True, None),
        ((2, 2, 1), False, None),
        ((2, 2, 1), False, 'fsdp'),
        ((2, 1, 2), False, 'fsdp'),
        ((1, 2, 2), False, None),
        ((1, 1, 4), False, None),
        ((1, 1, 4), False, 'fsdp'),
        fast=2,
        slow=8,
    ),
)
def test_rows_and_tokens_over_a_mesh(inputs, shape, vocab_first, width):
    """Equals one device, without communication of logits, hidden states or kernel.

    The gradient of a kernel that is split along its width is reduce-scattered.
    """
    hidden, kernel, labels = inputs
    hidden, labels = np.tile(hidden, (2, 1, 1)), np.tile(labels, (2, 1))
    # Padded to multiples of the mesh axes.
    hidden = np.pad(hidden, ((0, 0), (0, 0), (0, 1)), constant_values=0.5)
    kernel = np.pad(kernel, ((0, 1), (0, 1)), constant_values=0.1)
    mesh = sharding.make_mesh(*shape, devices=jax.devices()[:4])
    rows = NamedSharding(mesh, PartitionSpec(sharding.ROWS))
    order = slice(None, None, -1 if vocab_first else 1)
    words, slope = (
        NamedSharding(mesh, PartitionSpec(*(axis, sharding.TENSOR)[order]))
        for axis in (None, width)
    )

    def loss(form, hidden, kernel):
        return form(hidden, kernel, labels, weights(labels))

    layout = (sharding.ROWS, sharding.TENSOR, width)
    split = fused_by(4, split=layout, vocab_first=vocab_first)
    given = kernel.T if vocab_first else kernel
    with jax.set_mesh(mesh):
        function = jax.jit(
            jax.grad(functools.partial(loss, split), argnums=(0, 1), has_aux=True),
            in_shardings=(rows, words),
            out_shardings=((rows, slope), rows),
        )
        (d_hidden, d_kernel), scores = function(hidden, given)
        program = function.lower(hidden, given).compile().as_text()
    d_kernel = np.asarray(d_kernel)
    ours = (d_hidden, d_kernel.T if vocab_first else d_kernel), scores
    plainly = jax.grad(functools.partial(loss, plain), argnums=(0, 1), has_aux=True)
    close(ours, jax.jit(plainly)(hidden, kernel))
    for moved in ('all-gather', 'all-to-all', 'collective-permute'):
        assert moved not in program
    assert ('reduce-scatter(' in program) == bool(width)


@pytest.mark.parametrize(
    'head',
    draws.in_stages(
        heads.LMHead(V, D, tied=True),
        heads.DenseHead(V, D, lm_head_bias=False),
        heads.LMHead(V, D),
        heads.DenseHead(V, D, tied=True),
        fast=1,
    ),
)
def test_lm_head_loss_equals_that_of_the_heads_logits(inputs, head):
    hidden, kernel, labels = inputs
    own = jax.jit(head.init)(jax.random.key(0), hidden, kernel.T).get('params', {})
    params = {'encoder': {'embedding': kernel.T}, 'lm_head': own}

    def apply(name, params, *inputs, **options):
        return head.apply({'params': params[name]}, *inputs, **options)

    def plainly(params, hidden):
        logits = apply('lm_head', params, hidden, params['encoder']['embedding'])
        loss = losses.cross_entropy(logits, labels) + 0.1 * losses.z_loss(logits)
        scores = losses.cross_entropy(logits, labels), losses.correct(logits, labels)
        return jnp.sum(weights(labels) * loss), scores

    def ours(params, hidden, mib):
        total, scores = heads.lm_head_loss(
            apply, params, hidden, labels, weights(labels), 0.1, mib
        )
        return total, (scores['loss'], scores['correct'])

    slopes = functools.partial(jax.value_and_grad, argnums=(0, 1), has_aux=True)
    expected = jax.jit(slopes(plainly))(params, hidden)
    for mib in (128, 4e-4, 0):
        scores = jax.jit(slopes(ours), static_argnums=2)(params, hidden, mib)
        for one, other in zip(*map(jax.tree.leaves, (scores, expected)), strict=True):
            # Small values are sums of large ones that were rounded to float32.
            rounding = np.finfo(np.float32).eps * abs(other).max()
            assert_allclose(one, other, rtol=1e-5, atol=max(1e-5, rounding))


@pytest.mark.parametrize(
    'dtype, vocab_first, mib',
    draws.in_stages(
        (jnp.float32, False, 600),
        (jnp.float32, True, 600),
        (jnp.bfloat16, False, 1200),
        fast=1,
        slow=2,
    ),
)
def test_memory_at_16k_positions_and_128k_tokens(dtype, vocab_first, mib):
    """Besides arguments and gradients; the unfused computation takes 16 GiB.

    The logits of a chunk, 125 MiB, and their gradients share a buffer. In bfloat16 a CPU
    has two more copies of the kernel, 564 MiB.
    """
    kernel = (128_256, 768) if vocab_first else (768, 128_256)
    shapes = (
        jax.ShapeDtypeStruct((64, 256, 768), dtype),
        jax.ShapeDtypeStruct(kernel, jnp.float32),
        jax.ShapeDtypeStruct((64, 256), jnp.int32),
    )
    form = fused_by(256, vocab_first=vocab_first)

    def loss(hidden, kernel, labels):
        return form(hidden, kernel, labels, jnp.ones(labels.shape))[0]

    program = jax.jit(jax.grad(loss, argnums=(0, 1))).lower(*shapes).compile()
    assert program.memory_analysis().temp_size_in_bytes < mib * 2**20


def test_a_bias_over_a_mesh(inputs):
    """The bias and its gradient equal a kernel's row for hidden states of 1."""
    hidden, kernel, labels = inputs
    hidden = np.pad(hidden, ((0, 0), (0, 0), (0, 1)), constant_values=0.5)
    kernel = np.pad(kernel, ((0, 1), (0, 1)), constant_values=0.1)
    bias = np.linspace(-1, 1, V + 1, dtype=np.float32)
    mesh = sharding.make_mesh(1, 2, 2, devices=jax.devices()[:4])
    split = fused_by(4, split=(sharding.ROWS, sharding.TENSOR, 'fsdp'))

    def ours(hidden, kernel, bias):
        return split(hidden, kernel, labels, weights(labels), bias_V=bias)[0]

    def plainly(hidden, kernel, bias):
        longer = jnp.concatenate([hidden, jnp.ones((B, M, 1))], axis=-1)
        taller = jnp.concatenate([kernel, bias[None]])
        return plain(longer, taller, labels, weights(labels))[0]

    given, every = (hidden, kernel, bias), (0, 1, 2)
    with jax.set_mesh(mesh):
        gradients = jax.jit(jax.grad(ours, argnums=every))(*given)
    expected = jax.jit(jax.grad(plainly, argnums=every))(*given)
    close(gradients, expected)


def test_chunk_positions_of_0_raises(inputs):
    with pytest.raises(ValueError, match='chunk_positions=0, but it must be at least 1'):
        fused_by(0)(*inputs, weights(inputs[2]))
