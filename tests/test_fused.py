"""Fused word scores: the numbers of the plain form, in a fraction of its memory."""

import doctest
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.testing import assert_allclose, assert_array_equal

from jepa_text import fused, losses, sharding
from jepa_text.models import heads

B, M, D, V = 2, 7, 5, 23
# One of each: smaller, equal, larger; dividing the axis and not.
CHUNKS = [(7, 23), (100, 1000), (3, 5), (1, 1), (6, 22)]


@pytest.fixture
def inputs():
    """hidden, kernel and labels; the labels stand at the borders of the chunks above."""
    rng = np.random.default_rng(0)
    hidden = jnp.float32(rng.normal(size=(B, M, D)))
    kernel = jnp.float32(rng.normal(size=(D, V)))
    labels = [[0, 4, 5, 9, 10, 22, 21], [1, 17, 18, 6, 11, 12, 22]]
    return hidden, kernel, jnp.int32(labels)


def plain(hidden, kernel, labels):
    logits = hidden @ kernel
    z = jax.nn.logsumexp(logits, axis=-1)
    return losses.cross_entropy(logits, labels), z, losses.correct(logits, labels)


def fused_by(chunks):
    return lambda *inputs: fused.linear_cross_entropy(
        *inputs, chunk_positions=chunks[0], chunk_vocabulary=chunks[1]
    )


def total(scores, weight_BM):
    """A scalar in which every position weighs differently, with the z-loss."""
    loss, z, correct = scores
    return jnp.sum(weight_BM * loss) + 0.1 * jnp.sum(weight_BM**2 * z**2) + correct.sum()


def gradients(form, hidden, kernel, labels):
    weight = jnp.linspace(-1.0, 2.0, labels.size).reshape(labels.shape)
    function = jax.grad(lambda h, k: total(form(h, k, labels), weight), argnums=(0, 1))
    return jax.jit(function)(hidden, kernel)


def test_docstrings():
    assert doctest.testmod(fused).failed == 0


@pytest.mark.parametrize('chunks', CHUNKS)
def test_fused_is_plain_forward_and_backward(inputs, chunks):
    form = fused_by(chunks)
    for ours, expected in zip(jax.jit(form)(*inputs), plain(*inputs), strict=True):
        assert ours.dtype == jnp.float32
        assert_allclose(ours, expected, atol=1e-5)
    for ours, expected in zip(
        gradients(form, *inputs), gradients(plain, *inputs), strict=True
    ):
        assert_allclose(ours, expected, atol=1e-5)


def test_fused_is_float64(inputs):
    hidden, kernel, labels = (np.asarray(x) for x in inputs)
    logits = hidden.astype(float) @ kernel.astype(float)
    z = np.log(np.exp(logits).sum(-1))
    loss = z - np.take_along_axis(logits, labels[..., None], -1)[..., 0]
    ours = fused_by((3, 5))(*inputs)
    assert_allclose(ours[0], loss, atol=1e-5)
    assert_allclose(ours[1], z, atol=1e-5)
    assert_array_equal(ours[2], logits.argmax(-1) == labels)


@pytest.mark.peer
def test_fused_is_torch(inputs):
    torch = pytest.importorskip('torch')
    hidden, kernel = (torch.tensor(np.asarray(x), requires_grad=True) for x in inputs[:2])
    labels = torch.tensor(np.asarray(inputs[2]), dtype=torch.long)
    logits = hidden @ kernel
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, V), labels.reshape(-1), reduction='none'
    ).reshape(B, M)
    z = logits.logsumexp(-1)
    weight = torch.linspace(-1.0, 2.0, B * M).reshape(B, M)
    ((weight * loss).sum() + 0.1 * (weight**2 * z**2).sum()).backward()
    assert_allclose(fused_by((3, 5))(*inputs)[0], loss.detach(), atol=1e-5)
    for ours, theirs in zip(
        gradients(fused_by((3, 5)), *inputs), (hidden.grad, kernel.grad), strict=True
    ):
        assert_allclose(ours, theirs, atol=1e-5)


def test_bfloat16_adds_up_in_float32():
    rng = np.random.default_rng(1)
    hidden = jnp.bfloat16(rng.normal(size=(2, 5, 256)))
    kernel = jnp.float32(rng.normal(size=(256, 40)) / 16)
    labels = jnp.asarray(rng.integers(0, 40, (2, 5)))
    # What bfloat16 holds, in float32: products of these are exact there.
    exact = (hidden.astype(jnp.float32), kernel.astype(jnp.bfloat16).astype(jnp.float32))
    form = fused_by((2, 16))
    for ours, expected in zip(
        form(hidden, kernel, labels), plain(*exact, labels), strict=True
    ):
        assert ours.dtype == jnp.float32
        assert_allclose(ours, expected, atol=1e-5)
    d_hidden, d_kernel = gradients(form, hidden, kernel, labels)
    assert (d_hidden.dtype, d_kernel.dtype) == (jnp.bfloat16, jnp.float32)
    for ours, expected in zip(
        (d_hidden, d_kernel), gradients(plain, *exact, labels), strict=True
    ):
        scale = float(jnp.abs(expected).max())
        assert_allclose(ours.astype(jnp.float32), expected, atol=0.004 * scale)


def test_huge_logits_stay_finite(inputs):
    hidden, kernel, labels = inputs
    ours = fused_by((3, 5))(1e4 * hidden, kernel, labels)
    assert_allclose(ours[0], plain(1e4 * hidden, kernel, labels)[0], rtol=1e-5, atol=1e-2)
    assert all(
        np.isfinite(x).all()
        for x in gradients(fused_by((3, 5)), 1e4 * hidden, *inputs[1:])
    )


def test_equal_logits_are_all_highest(inputs):
    hidden, kernel, labels = inputs
    assert_array_equal(fused_by((3, 5))(hidden, 0 * kernel, labels)[2], np.ones((B, M)))


@pytest.mark.parametrize('bad', [-100, V])
def test_a_label_outside_is_nan_and_does_no_harm_where_masked(inputs, bad):
    hidden, kernel, labels = inputs
    outside = labels.at[1, 2].set(bad)
    where = jnp.ones((B, M), bool).at[1, 2].set(False)

    def mean(form, labels):
        return jax.value_and_grad(
            lambda h, k: losses.masked_mean(form(h, k, labels)[0], where), argnums=(0, 1)
        )(hidden, kernel)

    form = fused_by((3, 5))
    assert_array_equal(np.isnan(form(hidden, kernel, outside)[0]), ~where)
    for ours, expected in zip(
        jax.tree.leaves(mean(form, outside)),
        jax.tree.leaves(mean(plain, labels)),
        strict=True,
    ):
        assert_allclose(ours, expected, atol=1e-5)


def test_vmap_over_kernels_is_a_loop(inputs):
    hidden, kernel, labels = inputs
    kernels = jnp.stack([kernel, -kernel, 2 * kernel])
    form = fused_by((3, 5))
    together = jax.vmap(lambda k: gradients(form, hidden, k, labels))(kernels)
    for index, one in enumerate(kernels):
        for ours, expected in zip(
            together, gradients(plain, hidden, one, labels), strict=True
        ):
            assert_allclose(ours[index], expected, atol=1e-5)


def test_a_split_batch_moves_gradients_only(inputs):
    hidden, kernel, labels = inputs
    hidden, labels = jnp.tile(hidden, (2, 1, 1)), jnp.tile(labels, (2, 1))
    mesh = Mesh(np.array(jax.devices()[:4]), ('data',))
    rows, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (('data',), ()))

    def loss(form, hidden, kernel, labels):
        loss, z, _ = form(hidden, kernel, labels)
        return jnp.mean(loss) + jnp.mean(z**2)

    function = jax.jit(
        jax.grad(functools.partial(loss, fused_by((M, 5))), argnums=(0, 1)),
        in_shardings=(rows, whole, rows),
        out_shardings=(rows, whole),
    )
    expected = jax.grad(loss, argnums=(1, 2))(plain, hidden, kernel, labels)
    for ours, theirs in zip(function(hidden, kernel, labels), expected, strict=True):
        assert_allclose(ours, theirs, atol=1e-5)
    program = function.lower(hidden, kernel, labels).compile().as_text()
    assert 'all-reduce' in program
    for moved in ('all-gather', 'all-to-all', 'collective-permute'):
        assert moved not in program, f'{moved}: the rows of a batch should stay'


def test_words_first_is_the_transposed_kernel(inputs):
    hidden, kernel, labels = inputs
    options = dict(chunk_positions=3, chunk_vocabulary=5)

    def first(hidden, embedding, labels):
        return fused.linear_cross_entropy(
            hidden, embedding, labels, words_first=True, **options
        )

    for ours, expected in zip(
        first(hidden, kernel.T, labels), plain(*inputs), strict=True
    ):
        assert_allclose(ours, expected, atol=1e-5)
    d_hidden, d_embedding = gradients(first, hidden, kernel.T, labels)
    expected = gradients(plain, *inputs)
    assert_allclose(d_hidden, expected[0], atol=1e-5)
    assert_allclose(d_embedding.T, expected[1], atol=1e-5)


@pytest.mark.parametrize('shape', [(2, 1, 2), (1, 2, 2), (1, 1, 4), (2, 2, 1)])
def test_rows_and_words_over_a_mesh(inputs, shape):
    """The numbers of one device; and no logits, hidden states or kernel move."""
    hidden, kernel, labels = inputs
    hidden, labels = jnp.tile(hidden, (2, 1, 1)), jnp.tile(labels, (2, 1))
    kernel = jnp.pad(kernel, ((0, 0), (0, 1)))
    mesh = sharding.make_mesh(*shape, devices=jax.devices()[:4])
    rows = NamedSharding(mesh, PartitionSpec(sharding.ROWS))
    words = NamedSharding(mesh, PartitionSpec(None, sharding.WORDS))

    def loss(scores, hidden, kernel):
        loss, z, correct = scores(hidden, kernel, labels)
        return jnp.mean(loss) + jnp.mean(z**2), (loss, z, correct)

    split = functools.partial(
        fused.linear_cross_entropy,
        chunk_positions=3,
        chunk_vocabulary=5,
        split=(sharding.ROWS, sharding.WORDS),
    )
    with jax.set_mesh(mesh):
        function = jax.jit(
            jax.grad(functools.partial(loss, split), argnums=(0, 1), has_aux=True),
            in_shardings=(rows, words),
            out_shardings=((rows, words), rows),
        )
        ours = function(hidden, kernel)
        program = function.lower(hidden, kernel).compile().as_text()
    expected = jax.grad(functools.partial(loss, plain), argnums=(0, 1), has_aux=True)(
        hidden, kernel
    )
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        assert_allclose(one, other, atol=1e-5)
    for moved in ('all-gather', 'all-to-all', 'collective-permute'):
        assert moved not in program


@pytest.mark.parametrize(
    'head',
    [
        heads.LMHead(V, D),
        heads.LMHead(V, D, tied=True),
        heads.DenseHead(V, D, word_bias=False),
        heads.DenseHead(V, D, tied=True),
    ],
)
def test_word_scores_are_the_same_whole_and_in_chunks(inputs, head):
    hidden, kernel, labels = inputs
    own = head.init(jax.random.key(0), hidden, kernel.T).get('params', {})
    params = {'encoder': {'embedding': kernel.T}, 'lm_head': own}

    def apply(name, params, *inputs, **options):
        return head.apply({'params': params[name]}, *inputs, **options)

    def total(params, hidden, mib):
        scores = heads.word_scores(apply, params, hidden, labels, mib)
        return sum(jnp.sum(x) for x in scores.values()), scores

    whole, chunks = (
        jax.value_and_grad(total, argnums=(0, 1), has_aux=True)(params, hidden, mib)
        for mib in (128, 1e-4)
    )
    programs = [
        str(jax.make_jaxpr(lambda h, mib=mib: total(params, h, mib))(hidden))
        for mib in (128, 1e-4)
    ]
    assert 'custom_vjp' not in programs[0] and 'custom_vjp' in programs[1]
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(chunks), strict=True):
        assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('dtype', [jnp.float32, jnp.bfloat16])
def test_memory_at_16k_positions_and_128k_words(dtype):
    """Under 1 GiB beside the arguments and the gradients; the plain form takes 16."""
    shapes = (
        jax.ShapeDtypeStruct((64, 256, 768), dtype),
        jax.ShapeDtypeStruct((768, 128_256), jnp.float32),
        jax.ShapeDtypeStruct((64, 256), jnp.int32),
    )

    def loss(hidden, kernel, labels):
        loss, z, _ = fused_by((64, 8192))(hidden, kernel, labels)
        return loss.mean() + 1e-4 * (z**2).mean()

    program = jax.jit(jax.grad(loss, argnums=(0, 1))).lower(*shapes).compile()
    assert program.memory_analysis().temp_size_in_bytes < 2**30


@pytest.mark.parametrize('name', ['chunk_positions', 'chunk_vocabulary'])
def test_a_chunk_of_nothing_is_refused(inputs, name):
    chunks = {'chunk_positions': 1, 'chunk_vocabulary': 1, name: 0}
    with pytest.raises(ValueError, match=f'{name}=0; a chunk has at least 1'):
        fused.linear_cross_entropy(*inputs, **chunks)
