"""Parsing of compiled programs: small programs with known costs, and a GPU program."""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from jepa_text.cost import hardware
from jepa_text.parallel import sharding
from jepa_text.planning import compiled, hlo, roofline

CHIP = hardware.CHIPS['h200']


def text_of(function, *inputs):
    """The compiled program of a function, as text."""
    return jax.jit(function).lower(*inputs).compile().as_text()


def flops(kernels, kind='product'):
    return sum(k.flops * k.times for k in kernels if k.kind == kind)


def test_products_in_a_loop_count_per_iteration():
    a, b = jnp.ones((8, 16), jnp.float32), jnp.ones((16, 16), jnp.float32)

    def looped(a, b):
        return jax.lax.scan(lambda x, _: (jnp.tanh(x @ b), None), a, length=5)[0]

    kernels = compiled.read(text_of(looped, a, b))
    assert flops(kernels) == 5 * 2 * 8 * 16 * 16
    (product,) = (kernel for kernel in kernels if kernel.kind == 'product')
    assert (product.times, product.dtype) == (5, 'f32')
    assert product.name.endswith('dot_general')
    # Both operands and the result are read from and written to memory.
    assert product.bytes == 4 * (2 * 8 * 16 + 16 * 16)


def test_batched_products_and_gradients_are_counted():
    q = jnp.ones((3, 4, 8, 16))

    def scores(q):
        return jnp.sum(jnp.einsum('bhlk,bhmk->bhlm', q, q) ** 2)

    forward = compiled.read(text_of(scores, q))
    assert flops(forward) == 2 * 3 * 4 * 8 * 8 * 16
    backward = compiled.read(text_of(jax.grad(scores), q))
    assert flops(backward) == 3 * flops(forward)
    assert any(k.name.endswith(', backward') for k in backward if k.kind == 'product')


def test_only_the_slice_of_an_array_is_read():
    x = jnp.ones((1000, 64))

    def part(x, n):
        return jnp.sin(jax.lax.dynamic_slice_in_dim(x, n, 10)) + 1

    total = sum(k.bytes * k.times for k in compiled.read(text_of(part, x, 3)))
    # Input, output, and the index of the slice.
    assert 2 * 10 * 64 * 4 <= total < 3 * 10 * 64 * 4


def test_only_the_update_of_an_array_is_written():
    x, y = jnp.ones((1000, 64)), jnp.ones((64,))

    def stack(x, y):
        def turn(x, n):
            return x.at[n].set(jnp.sin(y * n)), None

        return jax.lax.scan(turn, x, jnp.arange(1000))[0]

    kernels = compiled.read(text_of(stack, x, y))
    inside = sum(k.bytes * k.times for k in kernels if k.times == 1000)
    assert 1000 * 2 * 64 * 4 <= inside < 1000 * 6 * 64 * 4


def test_cheapest_branch_counts():
    x = jnp.ones((64, 64))

    def either(x, flag):
        return jax.lax.cond(flag, lambda x: x @ x @ x, lambda x: x + 1, x)

    assert flops(compiled.read(text_of(either, x, True))) == 0


def test_collectives_have_bytes_sent():
    mesh = sharding.make_mesh(data=2, fsdp=2)
    spec = jax.sharding.PartitionSpec(('data', 'fsdp'))

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=spec, out_specs=spec)
    def summed(x):
        def turn(x, _):
            return jnp.tanh(jax.lax.psum(x, 'fsdp') + x), None

        return jax.lax.scan(turn, x, length=5)[0]

    kernels = compiled.read(text_of(summed, jnp.ones((8, 3))))
    (one,) = (kernel for kernel in kernels if kernel.kind == 'collective')
    # Each of two devices sends half of [2, 3] in float32 twice.
    assert (one.op, one.group, one.times, one.sent) == ('all-reduce', 2, 5, 24)


# A program as written by XLA for GPUs, with small sizes.
GPU = Path(__file__).with_name('gpu_program.txt').read_text(encoding='utf-8')


def test_gpu_program_is_parsed():
    kernels = compiled.read(GPU, attended=[(128, 0.5)])
    kinds = [kernel.kind for kernel in kernels]
    assert kinds == [
        *('collective', 'pass', 'product', 'collective', 'copy'),
        *('attention', 'attention', 'pass', 'attention', 'pass'),
    ]
    gather, add, product, scatter, copy, forward, backward, _, sliced, _ = kernels
    assert (gather.sent, gather.group, gather.until) == (16 * 8 * 2 * 3 / 4, 4, 3)
    # No kernel overlaps the scattering of gradients.
    assert (scatter.op, scatter.sent, scatter.until) == ('reduce-scatter', 3 * 128, 4)
    assert add.bytes == 3 * 4 * 8 * 2 and copy.bytes == 2 * 16 * 8 * 2
    assert product.flops == 2 * 4 * 16 * 8
    assert product.name == 'encoder/layers/ffn/up/dot_general, backward'
    # Two products per head, half of the scores masked.
    assert forward.flops == 2 * 2 * (2 * 4 * 128 * 128 * 16) / 2
    assert backward.flops == 2.5 * forward.flops
    assert (forward.forward, backward.forward) == (1, 0)
    # A kernel in a fusion; its single result is the gradient of q.
    assert sliced.flops == 1.5 * forward.flops
    assert sliced.name == 'attention/mpmd_map, backward'


@pytest.mark.parametrize(
    ('shape', 'op', 'held'),
    [
        ('f32[8]{0}', 'all-reduce', 32),
        ('f32[8]{0}', 'all-reduce-start', 32),
        ('(f32[8]{0}, f32[2]{0})', 'all-reduce-start', 40),
        ('((f32[8]{0}, f32[2]{0}), (f32[8]{0}, f32[2]{0}))', 'all-reduce-start', 40),
        ('((f32[8]{0}), f32[8]{0})', 'all-reduce-start', 32),
        ('(bf16[4]{0}, bf16[16]{0})', 'all-gather-start', 32),
        ('((f32[16]{0}), f32[4]{0})', 'reduce-scatter-start', 16),
        ('(f32[4]{0}, f32[4]{0}, u32[], u32[])', 'collective-permute-start', 16),
    ],
)
def test_result_bytes_of_collectives(shape, op, held):
    text = f'ENTRY %main () -> f32[] {{\n  ROOT %a = {shape} {op}(%b)\n}}'
    (sender,) = hlo.parse(text).instructions('main')
    assert hlo.result_bytes(sender) == held


def test_roofline_sums_kernels_and_overlaps_collectives():
    kernels = compiled.read(GPU, attended=[(128, 1.0)])
    bound = roofline.of(kernels, CHIP, flops=1e6)
    gather, add, product, scatter = kernels[:4]
    times = [roofline.kernel_seconds(kernel, CHIP) for kernel in kernels]
    assert times[0] == gather.sent / CHIP.links
    assert times[2] == max(
        product.flops / (roofline.PRODUCTS * CHIP.peak), product.bytes / CHIP.bandwidth
    )
    exposed = max(0, times[0] - times[1] - times[2]) + times[3]
    assert bound.exposed == pytest.approx(exposed)
    assert bound.communication == pytest.approx(times[0] + times[3])
    alone = sum(times) - times[0] - times[3]
    assert bound.step == pytest.approx(alone + exposed)
    assert bound.mfu == pytest.approx(1e6 / (CHIP.peak * bound.step))
    costliest = roofline.costliest(kernels, CHIP, count=2)
    assert [time for _, time in costliest] == sorted(times, reverse=True)[:2]


def test_unknown_trip_count_is_rejected():
    def looped(x):
        return jax.lax.while_loop(lambda x: jnp.sum(x) < 9, lambda x: x * 2, x)

    with pytest.raises(ValueError, match='trip count of loop .* is unknown'):
        compiled.read(text_of(looped, jnp.ones(8)))


def test_text_without_entry_is_rejected():
    with pytest.raises(ValueError, match='has no ENTRY'):
        compiled.read('nothing of the kind')
