"""All attention backends against float64, forward and backward, and their choice.

Kernels for GPUs and TPUs are interpreted or only lowered here; tests/planning/
test_accelerator.py runs them on their devices.
"""

import dataclasses
import functools
import types

import draws
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh
from numpy.testing import assert_allclose, assert_array_equal

from jepa_text.models import stack
from jepa_text.models.attention import attend as attention
from jepa_text.models.attention import (
    blockwise,
    cudnn,
    masks,
    pallas,
    splash,
    split,
    tokamax,
    trial,
    xla,
)
from jepa_text.parallel import sharding

L = 256
# Two documents and padding; padding alone.
SEGMENTS = np.zeros((2, L), np.int32)
SEGMENTS[0, :90] = 1
SEGMENTS[0, 90:230] = 2

REQUEST = attention.Request(
    platform='cpu',
    dtype='bfloat16',
    batch=8,
    length=512,
    heads=12,
    kv_heads=4,
    head_width=64,
    causal=False,
)
HOPPER = dataclasses.replace(REQUEST, platform='gpu', capability=(9, 0))
TPU = dataclasses.replace(REQUEST, platform='tpu')

BACKENDS = {
    'xla': xla.attend,
    'blockwise': blockwise.attend,
    'pallas': functools.partial(pallas.attend, interpret=True),
    'splash': functools.partial(splash.attend, interpret=True),
    # Its only implementation that runs on a CPU.
    'tokamax': functools.partial(tokamax.attend, kernel='xla_chunked'),
    # With the fixture `emulated`.
    'cudnn': cudnn.attend,
}
# The first two of a backend are fast.
EVERY = [(True, 20), (False, None), (True, None), (False, 20)]
SIZES = {'xla': (16, 4, 2), 'blockwise': (16, 4, 2), 'tokamax': (96, 4, 2)}


def draw(width, heads=4, kv_heads=2, batch=2, length=L, seed=0):
    """q, k, v, and the gradient of the loss with respect to the output."""
    rng = np.random.default_rng(seed)
    sizes = (heads, kv_heads, kv_heads, heads)
    return [
        rng.standard_normal((batch, length, h, width)).astype(np.float32) for h in sizes
    ]


def reference(q, k, v, slope, segments, causal, window=None, order=None):
    """out, dq, dk, dv in float64, head by head, by the formulas."""
    q, k, v, slope = (np.asarray(x, np.float64) for x in (q, k, v, slope))
    results = [np.zeros_like(x) for x in (q, q, k, v)]
    out, dq, dk, dv = results
    repeats, scale = q.shape[2] // k.shape[2], q.shape[3] ** -0.5
    i, j = np.indices((q.shape[1],) * 2)
    for b, h in np.ndindex(q.shape[0], q.shape[2]):
        g = h // repeats
        see = segments[b][:, None] == segments[b][None]
        see &= (j <= i) | (not causal)
        see &= abs(i - j) <= (len(i) if window is None else window)
        if order is not None:
            see &= order[b][None] <= order[b][:, None]
        scores = np.where(see, q[b, :, h] @ k[b, :, g].T * scale, -np.inf)
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        out[b, :, h] = p @ v[b, :, g]
        dp = slope[b, :, h] @ v[b, :, g].T
        ds = p * (dp - (dp * p).sum(axis=1, keepdims=True)) * scale
        dq[b, :, h] = ds @ k[b, :, g]
        dk[b, :, g] += ds.T @ q[b, :, h]
        dv[b, :, g] += p.T @ slope[b, :, h]
    return results


def program(attend, segments=SEGMENTS, order=None, **options):
    """(q, k, v, slope) -> [out, dq, dk, dv] of a backend."""
    places = () if order is None else (order,)

    @jax.jit
    def step(q, k, v, slope):
        out, backward = jax.vjp(
            lambda *x: attend(*x, jnp.asarray(segments), *places, **options), q, k, v
        )
        return out, *backward(slope)

    return lambda inputs: [np.asarray(x) for x in step(*inputs)]


def close(got, expected, tolerance=2e-5):
    for one, other in zip(got, expected, strict=True):
        assert_allclose(one, other, atol=tolerance, rtol=tolerance)


def check(attend, inputs, segments=SEGMENTS, order=None, causal=False, window=None):
    masked = dict(order=order, causal=causal, window=window)
    got = program(attend, segments, **masked)(inputs)
    close(got, reference(*inputs, segments, **masked))


def promotion(name):
    """Tokamax uses rank promotion, which conftest forbids."""
    if name == 'tokamax':
        pytest.importorskip('tokamax')
    return jax.numpy_rank_promotion('allow' if name == 'tokamax' else 'raise')


INTERPRETED = [
    ('pallas', 64, 2, 2, False, None),
    ('pallas', 128, 2, 2, False, None),
    ('splash', 64, 2, 2, False, 20),
    ('splash', 96, 2, 1, True, None),
    ('splash', 128, 2, 2, False, None),
]


@pytest.mark.parametrize(
    'name, width, heads, kv_heads, causal, window',
    [
        *(
            case
            for name, sizes in SIZES.items()
            for case in draws.in_stages(
                *((name, *sizes, *mask) for mask in EVERY), fast=2, slow=2
            )
        ),
        *draws.in_stages(*(('cudnn', 16, 2, 1, *mask) for mask in EVERY[:3]), fast=2),
        ('pallas', 96, 2, 1, True, None),
        ('splash', 128, 2, 1, True, 20),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in INTERPRETED),
    ],
)
def test_backends_equal_float64(
    name, width, heads, kv_heads, causal, window, emulated, monkeypatch
):
    # Several blocks in a short row.
    monkeypatch.setattr(blockwise, 'BLOCKS', (64,))
    with promotion(name):
        inputs = draw(width, heads, kv_heads)
        check(BACKENDS[name], inputs, causal=causal, window=window)


@pytest.mark.parametrize(
    'name, window',
    draws.in_stages(
        *(('xla', 20), ('blockwise', None), ('xla', None), ('blockwise', 20)),
        fast=2,
        slow=2,
    ),
)
def test_order_per_row(name, window):
    order = np.zeros((2, L), np.int32)
    order[0, 40:] = np.arange(L - 40)
    order[1] = np.random.default_rng(0).permutation(L)
    check(BACKENDS[name], draw(16), order=order, window=window)


@pytest.mark.parametrize('name', ['xla', 'blockwise'])
def test_half_precision(name):
    inputs = [jnp.asarray(x, jnp.bfloat16) for x in draw(16, heads=2)]
    got = program(BACKENDS[name], causal=True, window=None)(inputs)
    expected = reference(*inputs, SEGMENTS, causal=True)
    assert {x.dtype for x in got} == {jnp.dtype('bfloat16')}
    for one, other in zip(got, expected, strict=True):
        assert_allclose(one.astype(np.float64), other, atol=0.05, rtol=0.02)


def test_products_of_half_precision_have_operands_of_half_precision():
    q, k, v, slope = (jnp.asarray(x, jnp.bfloat16) for x in draw(16, heads=2))

    def gradients(q, k, v, slope):
        ids = jnp.asarray(SEGMENTS)
        attend = functools.partial(xla.attend, causal=True, window=None)
        return jax.vjp(lambda *x: attend(*x, ids), q, k, v)[1](slope)

    found = equations(jax.make_jaxpr(gradients)(q, k, v, slope).jaxpr)
    products = [e for e in found if e.primitive.name == 'dot_general']
    operands = {str(value.aval.dtype) for e in products for value in e.invars}
    assert len(products) == 6 and operands == {'bfloat16'}


@pytest.mark.slow
def test_blockwise_memory_grows_with_the_length_not_its_square():
    def memory(attend, length):
        q = jax.ShapeDtypeStruct((1, length, 2, 64), jnp.float32)
        ids = jax.ShapeDtypeStruct((1, length), jnp.int32)

        def loss(q, ids):
            return attend(q, q, q, ids, causal=True, window=None).sum()

        compiled = jax.jit(jax.grad(loss)).lower(q, ids).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    blocks = [memory(blockwise.attend, length) for length in (2048, 4096)]
    whole = [memory(xla.attend, length) for length in (2048, 4096)]
    assert blocks[1] < 2.5 * blocks[0] and whole[1] > 3 * whole[0]
    assert blocks[1] < whole[1] / 3


@pytest.mark.parametrize('causal, window', EVERY)
def test_ranges_match_the_mask(causal, window):
    first, end = tokamax.ranges(jnp.asarray(SEGMENTS), causal, window)
    index = np.arange(L)
    seen = (index >= np.asarray(first)[..., None]) & (index < np.asarray(end)[..., None])
    assert_array_equal(seen, masks.visible(SEGMENTS, causal, None, window))


# cuDNN ------------------------------------------------------------------------------


@pytest.fixture
def emulated(monkeypatch):
    """Emulates cuDNN's packed interface; positions outside the given ranges are NaN."""
    from jax._src.cudnn import fused_attention_stablehlo as inner

    def emulate(q, k, v, *, q_seqlen, kv_seqlen, q_offsets, kv_offsets, **options):
        assert q.shape == k.shape and q_seqlen.dtype == q_offsets.dtype == jnp.int32
        assert q_offsets.shape[1] == q_seqlen.shape[1] + 1 and kv_seqlen is q_seqlen
        index = jnp.arange(q.shape[1])[None, None]
        starts, lengths = q_offsets[:, :-1, None], q_seqlen[:, :, None]
        is_in = (starts >= 0) & (index >= starts) & (index < starts + lengths)
        see = jnp.einsum('bni,bnj->bij', is_in.astype(int), is_in.astype(int)) > 0
        back = index[0].T - index[0]
        causal = options['mask_type'] is inner.MaskType.PADDING_CAUSAL
        see &= ((back >= 0) | (not causal))[None]
        if options['sliding_window_length'] is not None:
            see &= (back < options['sliding_window_length'])[None]
        scores = jnp.einsum('blhk,bmhk->bhlm', q, k) * options['scale']
        scores = jnp.where(see[:, None], scores, -jnp.inf)
        out = jnp.einsum('bhlm,bmhk->blhk', jax.nn.softmax(scores), v)
        return jnp.where(is_in.any(axis=1)[..., None, None], out, jnp.nan)

    monkeypatch.setattr(inner, 'dot_product_attention', emulate)


@pytest.mark.parametrize('count, fits', [(8, True), (9, False)])
def test_rows_with_too_many_documents_use_blockwise(emulated, count, fits):
    segments = np.minimum(np.arange(128) // 5, count - 1)[None].astype(np.int32) + 1
    assert bool(cudnn.fits(jnp.asarray(segments))) is fits
    request = dataclasses.replace(HOPPER, batch=1, length=128)
    inputs = draw(16, heads=2, batch=1, length=128)
    got = program(split.adapted(cudnn, request), segments)(inputs)
    close(got, reference(*inputs, segments, causal=False))


def test_rows_with_a_known_number_of_documents_need_no_fallback(emulated):
    """The kernel is built for that number plus padding, without a check on the device."""
    segments = np.minimum(np.arange(100) // 10, 8)[None].astype(np.int32) + 1
    segments[:, 95:] = 0
    inputs = draw(16, heads=2, batch=1, length=100)
    request = dataclasses.replace(HOPPER, batch=1, length=100, documents=9)
    attend = split.adapted(cudnn, request)
    checked = split.adapted(cudnn, dataclasses.replace(request, documents=None))
    for one, has_fallback in ((attend, False), (checked, True)):
        made = jax.make_jaxpr(lambda *x, one=one: one(*x, segments))(*inputs[:3])
        names = {each.primitive.name for each in equations(made.jaxpr)}
        assert ('cond' in names) == has_fallback
    close(program(attend, segments)(inputs), reference(*inputs, segments, causal=False))


def test_with_max_documents_applies_while_tracing():
    q = jax.ShapeDtypeStruct((2, 128, 4, 8), jnp.float32)
    ids = jax.ShapeDtypeStruct((2, 128), jnp.int32)
    call = functools.partial(attention.attend, causal=False)
    with attention.record_requests() as seen:
        jax.eval_shape(attention.with_max_documents(7, call), q, q, q, ids)
        jax.eval_shape(call, q, q, q, ids)
    assert [request.documents for request in seen] == [7, None]


def lowered(attend, platform, width):
    def shape(heads):
        return jax.ShapeDtypeStruct((2, L, heads, width), jnp.bfloat16)

    def loss(q, k, v, ids):
        return attend(q, k, v, ids, causal=True, window=None).sum(dtype=jnp.float32)

    ids = jax.ShapeDtypeStruct((2, L), jnp.int32)
    step = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))
    traced = step.trace(shape(4), shape(2), shape(2), ids)
    return traced.lower(lowering_platforms=(platform,)).as_text()


@pytest.fixture
def lowerable(monkeypatch):
    """Lets cuDNN be lowered on a machine without it."""
    from jax._src.cudnn import fused_attention_stablehlo as inner

    monkeypatch.setattr(inner, 'check_cudnn_version', lambda: 91000)
    monkeypatch.setattr(inner, 'check_compute_capability', lambda _: True)
    monkeypatch.setattr(inner, 'is_cuda_compute_capability_equal', lambda _: False)


@pytest.mark.parametrize(
    'width', [96, *(pytest.param(x, marks=pytest.mark.slow) for x in (64, 128))]
)
def test_kernels_lower_for_their_platforms(width, lowerable):
    text = lowered(cudnn.attend, 'cuda', width)
    assert 'fmhaSoftmaxBackward' in text and 'PADDING_CAUSAL' in text
    # The number of documents that the kernel was compiled for, in escaped JSON.
    assert f'max_seg_per_batch\\22: {cudnn.max_documents(L)}' in text
    # jax 0.12 lowers Triton only for a known device.
    h100 = AbstractDevice(device_kind='NVIDIA H100', num_cores=132, platform='gpu')
    with use_abstract_mesh(AbstractMesh((1,), ('one',), abstract_device=h100)):
        assert 'mha_backward' in lowered(pallas.attend, 'cuda', width)
    assert 'tpu_custom_call' in lowered(splash.attend, 'tpu', width)


# Choice of the backend --------------------------------------------------------------


@pytest.mark.parametrize(
    'name, request_, changes, words',
    [
        ('pallas', REQUEST, {}, 'NVIDIA'),
        ('pallas', HOPPER, dict(dtype='float32'), 'float32'),
        ('pallas', HOPPER, dict(head_width=256), '256'),
        ('pallas', HOPPER, dict(window=64), 'not support windows'),
        ('pallas', HOPPER, dict(order=True), 'order'),
        ('pallas', HOPPER, dict(devices=8), 'no mesh is set'),
        ('pallas', HOPPER, dict(tensor=8), 'kv_heads=4 is not a multiple'),
        ('splash', HOPPER, {}, 'TPU'),
        ('cudnn', REQUEST, {}, 'NVIDIA'),
        ('cudnn', HOPPER, dict(capability=(8, 0)), '8.0'),
        ('cudnn', HOPPER, dict(head_width=60), '60'),
        ('cudnn', HOPPER, dict(window=64), 'to the left only'),
        ('tokamax', REQUEST, {}, 'NVIDIA'),
        ('splash', TPU, dict(window=20, gaps=True), 'rows have gaps'),
    ],
)
def test_an_unsupported_backend_is_an_error_that_names_others(
    name, request_, changes, words
):
    request_ = dataclasses.replace(request_, **changes)
    with pytest.raises(ValueError, match=words) as error:
        attention.choose(name, request_)
    assert f'backend {name!r} does not support' in str(error.value)
    assert 'These do: xla, blockwise' in str(error.value)
    assert attention.why_not(name, request_)


def test_missing_packages_are_reasons(monkeypatch):
    monkeypatch.setattr(tokamax.importlib.util, 'find_spec', lambda name: None)
    assert 'pip install' in tokamax.why_not(HOPPER)
    assert 'this version of jax' in cudnn.why_not(HOPPER)


def test_an_old_cudnn_is_a_reason(monkeypatch):
    from jax._src.cudnn import fused_attention_stablehlo as inner

    monkeypatch.setattr(inner, 'check_cudnn_version', lambda: 90100)
    assert '9.6' in cudnn.why_not(HOPPER)
    monkeypatch.setattr(inner, 'dot_product_attention', lambda query, key, value: None)
    assert 'does not take' in cudnn.why_not(HOPPER)


def test_auto_chooses_the_fastest_supported_backend():
    assert attention.choose('auto', REQUEST) == 'xla'
    assert attention.choose('auto', TPU) == 'splash'
    assert attention.choose('auto', dataclasses.replace(TPU, order=True)) == 'xla'
    long = dataclasses.replace(TPU, order=True, length=16384)
    assert attention.choose('auto', long) == 'blockwise'
    # Each of eight devices has an eighth of the scores.
    wide = dataclasses.replace(long, length=8192, batch=2, rows=8)
    assert attention.choose('auto', wide) == 'xla'
    assert attention.choose('pallas', HOPPER) == 'pallas'


def test_all_attention_of_a_function_is_recorded():
    ids = jax.ShapeDtypeStruct((2, 12), jnp.int32)
    q = jax.ShapeDtypeStruct((2, 12, 4, 8), jnp.float32)

    def both(q, ids):
        once = attention.attend(q, q, q, ids, ids, causal=False, backend='blockwise')
        return attention.attend(once, q, q, ids, causal=True, window=3)

    with attention.record_requests() as record:
        jax.eval_shape(both, q, ids)
    assert [attention.explain(*pair) for pair in record.items()] == [
        'attention blockwise (blockwise): cpu, float32, 2 x 12, 4 heads of 8 on 4, '
        'bidirectional, with an order per row',
        'attention xla (auto): cpu, float32, 2 x 12, 4 heads of 8 on 4, causal within 3',
    ]


QUESTION = dict(
    dtype='float32', groups=1, repeats=2, head_width=16, causal=True, window=9
)


def test_a_trial_detects_wrong_kernels():
    def leaks(*inputs, causal, window):
        return xla.attend(*inputs, causal=False, window=window)

    def breaks(*inputs, causal, window):
        raise NotImplementedError('no such instruction\nand more')

    def nothing(q, k, v, ids, **options):
        return q * jnp.nan

    assert trial.failure(blockwise.attend, xla.attend, **QUESTION) == ''
    assert 'its result was off' in trial.failure(leaks, xla.attend, **QUESTION)
    assert 'its result was off by nan' in trial.failure(nothing, xla.attend, **QUESTION)
    broken = trial.failure(breaks, xla.attend, **QUESTION)
    assert broken.endswith('raised NotImplementedError: no such instruction')


def in_runs(q, k, v, ids, **options):
    """The reference with each run of equal ids as a document, as in cuDNN."""
    return xla.attend(q, k, v, cudnn._number(ids), **options)


@pytest.mark.parametrize(
    'name, causal',
    draws.in_stages(
        *(('xla', True), ('blockwise', False), ('xla', False), ('blockwise', True)),
        fast=2,
        slow=2,
    ),
)
def test_windows_use_positions_in_rows_with_gaps(name, causal):
    """A row cut out of another attends as in the other row with the rest masked."""
    whole = draw(16, heads=2, kv_heads=1, batch=1)
    kept = np.sort(np.random.default_rng(0).permutation(230)[:150])
    cut = [x[:, kept] for x in whole]
    segments, positions = SEGMENTS[:1, kept], np.where(kept < 90, kept, kept - 90)
    call = functools.partial(attention.attend, causal=causal, window=20, backend=name)
    got = program(lambda *x: call(*x[:4], None, positions[None]), segments)(cut)
    hidden = np.setdiff1d(np.arange(L), kept)
    alone = SEGMENTS[:1].copy()
    alone[0, hidden] = 3 + np.arange(len(hidden))
    slope = np.zeros_like(whole[3])
    slope[:, kept] = whole[3][:, kept]
    inputs = [*whole[:3], slope]
    close(got, [x[:, kept] for x in reference(*inputs, alone, causal, 20)])


def test_kernels_are_tried_during_tracing(monkeypatch):
    kernel = types.SimpleNamespace(
        attend=functools.partial(blockwise.attend),
        why_not=lambda request: '',
        PLATFORM='cpu',
        CAPABILITY=(0, 0),
        DTYPES=('float32',),
        SPLITS=False,
        MULTIPLE=128,
    )
    monkeypatch.setitem(attention.BACKENDS, 'pallas', kernel)
    q = jnp.ones((4, 8, 4, 8))
    ids = jnp.ones((4, 8), jnp.int32)
    call = functools.partial(attention.attend, causal=True)
    with jax.set_mesh(mesh()):
        got = jax.jit(functools.partial(call, backend='pallas'))(q, q, q, ids)
    assert_allclose(got, q, atol=1e-6)
    kernel.attend = lambda *inputs, **options: inputs[0]
    with jax.set_mesh(mesh()), pytest.raises(ValueError, match='off by .* in a trial'):
        jax.jit(functools.partial(call, backend='pallas'))(q, q, q, ids)


# Rematerialization -------------------------------------------------------------------


def equations(jaxpr):
    """All equations of a program whose results are used, including nested ones."""
    read = {id(x) for equation in jaxpr.eqns for x in equation.invars}
    read |= {id(x) for x in jaxpr.outvars}
    for equation in jaxpr.eqns:
        if any(id(x) in read for x in equation.outvars):
            yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from equations(inner)


def layer(name, policy=None, **options):
    """(q, k, v) -> gradients of an attention layer, rematerialized with a policy."""
    request = dataclasses.replace(
        REQUEST, batch=2, length=L, heads=2, kv_heads=1, head_width=64
    )
    backend = types.SimpleNamespace(**vars(attention.BACKENDS[name]))
    if options:
        backend.attend = functools.partial(backend.attend, **options)
    attend = split.adapted(backend, request, keep='attention')

    def loss(*inputs):
        return jnp.sum(jnp.sin(attend(*(2 * x for x in inputs), SEGMENTS)))

    kept = loss if policy is None else jax.checkpoint(loss, policy=policy)
    return jax.jit(jax.grad(kept, argnums=(0, 1, 2)))


@pytest.mark.parametrize(
    'name, options, products',
    [
        # Matrix products of the program: forward, and those of the backward pass.
        ('blockwise', {}, 2 + 6),
        *(
            pytest.param(name, dict(interpret=True), None, marks=pytest.mark.slow)
            for name in ('pallas', 'splash')
        ),
    ],
)
def test_rematerialization_does_not_recompute_attention(name, options, products):
    inputs = draw(64, heads=2, kv_heads=1)[:3]
    with_names = layer(name, stack.REMAT['names'], **options)
    found = list(equations(jax.make_jaxpr(with_names)(*inputs).jaxpr))
    kernels = [str(e.params) for e in found if e.primitive.name == 'pallas_call']
    if products:
        assert sum(e.primitive.name == 'dot_general' for e in found) == products
    else:
        named = [one for one in kernels if 'forward' in one or 'fwd' in one]
        assert len(named) == 1 and len(kernels) > 1
    # Without saved outputs it is computed twice.
    again = layer(name, stack.REMAT['full'], **options)
    twice = list(equations(jax.make_jaxpr(again)(*inputs).jaxpr))
    counted = [
        sum(e.primitive.name in ('dot_general', 'pallas_call') for e in each)
        for each in (found, twice)
    ]
    assert counted[0] < counted[1]
    close(with_names(*inputs), layer(name, **options)(*inputs), 1e-6)


def test_rematerialization_does_not_run_cudnn_again(lowerable):
    inputs = [x.astype(jnp.bfloat16) for x in draw(64, heads=2, kv_heads=1)[:3]]
    for policy, times in (('names', 1), ('full', 2)):
        program = jax.make_jaxpr(layer('cudnn', stack.REMAT[policy]))(*inputs).jaxpr
        named = [equation.primitive.name for equation in equations(program)]
        assert named.count('dot_product_attention_bwd_wrapper') == 1
        assert sum(named.count(name) for name in cudnn.FORWARD) == times


# Several devices --------------------------------------------------------------------


def mesh(axis='tensor'):
    return sharding.make_mesh(data=2, devices=jax.devices()[:4], **{axis: 2})


@pytest.mark.parametrize(
    'batch, axis',
    draws.in_stages(
        *((4, 'tensor'), (3, 'context'), (4, 'context'), (3, 'tensor')), fast=2, slow=2
    ),
)
def test_a_kernel_on_a_mesh_gets_its_rows_and_heads(batch, axis):
    shapes = []

    def attend(q, *rest, **options):
        shapes.append(q.shape)
        return blockwise.attend(q, *rest, **options)

    kernel = types.SimpleNamespace(attend=attend, SPLITS=False, MULTIPLE=128)
    inputs = draw(16, batch=batch, length=100)
    segments = np.repeat([[1, 2]], 50, axis=1).repeat(batch, axis=0)
    with jax.set_mesh(mesh(axis)):
        # As for the arrays in attend: the mesh is the current one.
        request = attention.request_of(*inputs[:2], causal=False, window=30)
        got = program(split.adapted(kernel, request), segments)(inputs)
    assert (request.rows, request.tensor, request.devices) == (2, 2, 1)
    # Rows whose number is not a multiple of the devices are not split.
    assert set(shapes) == {(2 if batch == 4 else 3, 128, 2, 16)}
    close(got, reference(*inputs, segments, causal=False, window=30))


@pytest.mark.parametrize(
    'groups, repeated', draws.in_stages((3, 12), (2, 4), (1, 4), (4, 4), fast=1, slow=3)
)
def test_groups_of_keys_are_repeated_if_there_are_more_devices(groups, repeated):
    """As few times as possible; 12 heads in 3 groups on 4 devices need 12."""
    heads = 12 if groups == 3 else 4
    q, k, v = draw(16, heads=heads, kv_heads=groups, batch=4, length=8)[:3]
    segments = np.ones((4, 8), np.int32)
    with jax.set_mesh(sharding.make_mesh(context=4, devices=jax.devices()[:4])):
        found = [x.shape[2] for x in split.repeat_groups(heads, k, v)]
        given = functools.partial(attention.attend, causal=False, backend='xla')
        got = jax.jit(given)(q, k, v, segments)
    assert found == [repeated] * 2
    expected = attention.attend(q, k, v, segments, causal=False, backend='xla')
    assert_allclose(got, expected, atol=1e-6)
    # Keys are not repeated if heads are not a multiple of the devices.
    with jax.set_mesh(mesh()):
        alone = split.repeat_groups(3, k[:, :, :1], v[:, :, :1])
        assert [x.shape[2] for x in alone] == [1, 1]


@pytest.mark.parametrize(
    'said, capability', [('9.0', (9, 0)), ('gfx90a', (0, 0)), (None, (0, 0))]
)
def test_the_capability_is_that_of_nvidia_gpus(said, capability, monkeypatch):
    device = types.SimpleNamespace(compute_capability=said)
    monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')
    monkeypatch.setattr(jax, 'local_devices', lambda: [device])
    q = np.zeros((1, 8, 2, 8), np.float32)
    request = attention.request_of(q, q, causal=False)
    assert request.platform == 'gpu' and request.capability == capability
    assert attention.choose('xla', request) == 'xla'


def test_a_request_has_the_number_of_devices_without_a_mesh():
    q, k = np.zeros((4, 8, 4, 8), np.float32), np.zeros((4, 8, 2, 8), np.float32)
    assert attention.request_of(q, k, causal=True).devices == jax.device_count()
    with jax.set_mesh(mesh()):

        def inside(q, k):
            seen.append(attention.request_of(q, k, causal=True))
            return q

        seen = []
        heads = jax.P('data', None, 'tensor')
        jax.jit(jax.shard_map(inside, in_specs=(heads, heads), out_specs=heads))(q, k)
    assert (seen[0].rows, seen[0].tensor, seen[0].devices) == (1, 1, 1)
    assert (seen[0].batch, seen[0].heads, seen[0].kv_heads) == (2, 2, 1)


@pytest.mark.slow
@pytest.mark.parametrize('name', BACKENDS)
def test_documents_do_not_attend_to_each_other(name, emulated):
    inputs = draw(32, heads=1, kv_heads=1)
    changed = [np.where(SEGMENTS[..., None, None] == 2, 7 * x + 1, x) for x in inputs]
    step = program(BACKENDS[name], causal=False, window=None)
    with promotion(name):
        before, after = step(inputs), step(changed)
    for one, other in zip(before, after, strict=True):
        assert_array_equal(one[SEGMENTS != 2], other[SEGMENTS != 2])
        assert (one[SEGMENTS == 2] != other[SEGMENTS == 2]).any()
