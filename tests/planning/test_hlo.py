"""Programs read from their text: small ones with known costs, and a GPU program."""

import functools
from pathlib import Path

import communication
import jax
import jax.numpy as jnp
import pytest

from jepa_text.models import flops
from jepa_text.parallel import hardware, sharding
from jepa_text.planning import hlo, roofline

CHIP = hardware.CHIPS['h200']


def traffic(function, *inputs):
    """The hlo.Traffic of a function."""
    return hlo.traffic(jax.jit(function).lower(*inputs).compile().as_text())


def part(x, n):
    return jnp.sin(jax.lax.dynamic_slice_in_dim(x, n, 10)) + 1


def stack(x, y):
    def turn(x, n):
        return x.at[n].set(jnp.sin(y * n)), None

    return jax.lax.scan(turn, x, jnp.arange(1000))[0]


def product(a, b):
    return a @ b


def either(x, flag):
    return jax.lax.cond(flag, lambda x: jnp.sort(jnp.sort(x) * x), lambda x: x + 1, x)


ROW, TABLE = 64 * 4, jnp.ones((1000, 64))


@pytest.mark.parametrize(
    'function, inputs, low, high',
    [
        # Input, output, and the index of the slice.
        (part, (TABLE, 3), 2 * 10 * ROW, 3 * 10 * ROW),
        (stack, (TABLE, jnp.ones(64)), 1000 * 2 * ROW, 1000 * 6 * ROW),
        # Matrix products are bounded by their arithmetic.
        (product, (TABLE, TABLE.T), 0, 1),
        # Read and written by the cheaper branch, with what holds the flag.
        (either, (TABLE, True), 2 * 1000 * ROW, 2 * 1000 * ROW + 100),
    ],
    ids=['slice', 'update', 'product', 'branch'],
)
def test_bytes_moved(function, inputs, low, high):
    assert low <= traffic(function, *inputs).bytes < high


def test_collectives_have_bytes_sent():
    mesh = sharding.make_mesh(data=2, fsdp=2)
    spec = jax.sharding.PartitionSpec(('data', 'fsdp'))

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=spec, out_specs=spec)
    def summed(x):
        def turn(x, _):
            return jnp.tanh(jax.lax.psum(x, 'fsdp') + x), None

        return jax.lax.scan(turn, x, length=5)[0]

    text = jax.jit(summed).lower(jnp.ones((8, 3))).compile().as_text()
    (one,) = hlo.traffic(text).collectives
    assert communication.collectives(text) == [one]
    assert (2, 3) in communication.arrays(text)
    # Each of two devices sends half of [2, 3] in float32 twice, five times.
    assert one == ('all-reduce', 2, 24, 5, False) and one.sent == 5 * 24


# A program as written by XLA for GPUs, with small sizes.
GPU = Path(__file__).with_name('gpu_program.txt').read_text(encoding='utf-8')


def test_gpu_program_is_parsed():
    moved, (gather, scatter) = hlo.traffic(GPU)
    assert gather.sent == 16 * 8 * 2 * 3 / 4
    assert (gather.kind, gather.group, gather.is_async) == ('all-gather', 4, True)
    assert (scatter.kind, scatter.sent) == ('reduce-scatter', 3 * 128)
    # An addition, a copy, the stacking of q, and the last fusion; neither products nor
    # attention.
    q = 2 * 128 * 4 * 16 * 2
    last = 2 * 4 * 16 * 2 + 4 * 8 * 2
    assert moved == 3 * 4 * 8 * 2 + 2 * 16 * 8 * 2 + 2 * 3 * q + last


@pytest.mark.parametrize(
    'shape, result, held',
    [
        ('f32[8]{0}', 'f32[8]{0}', 32),
        ('(f32[8]{0}, /*index=1*/f32[8]{0})', '(f32[8]{0}, f32[8]{0})', 64),
        ('((f32[8]{0}, f32[2]{0}), (f32[16]{0}, u32[]))', 'f32[16]{0:T(8)}', 64),
    ],
)
def test_a_collective_has_the_bytes_of_its_end(shape, result, held):
    start = (
        f'%s = {shape} all-gather-start(%b, /*index=1*/%c), replica_groups={{{{0,1}}}}'
    )
    ends = f'%e = {result} all-gather-done({shape} %s)'
    text = f'ENTRY %main () -> f32[] {{\n  {start}\n  ROOT {ends}\n}}'
    program = hlo.parse(text)
    sent, own = program.computations['main'].values()
    assert sent.operands == ['b', 'c'] and hlo.collective(program, 'main', sent) is None
    assert hlo.collective(program, 'main', own) == ('all-gather', 2, held, 1, True)


@pytest.mark.parametrize('links', [450e9, 1e3])
def test_roofline_overlaps_asynchronous_collectives(links):
    chip = CHIP._replace(links=links)
    count = flops.Count({'encoder': 6e12}, 8e12, products=7e12, attention=1e12)
    alone, overlapped = (hlo.Collective('all-gather', 2, 2000, 3, x) for x in (0, 1))
    moved = hlo.Traffic(1e9, (alone, overlapped))
    bound = roofline.of(moved, count, chip, devices=2, dtype='bfloat16')
    assert bound.kernels == pytest.approx(
        {
            'products': 7e12 / (2 * chip.peak * roofline.PRODUCTS),
            'attention': 7 / 6 * 1e12 / (2 * chip.peak * roofline.ATTENTION),
            'other kernels': 1e9 / chip.bandwidth,
        }
    )
    busy, sending = sum(bound.kernels.values()), 3 * 1000 / links
    assert bound.waits == pytest.approx(sending)
    assert bound.step == pytest.approx(max(busy, sending) + sending)
    assert bound.mfu == pytest.approx(6e12 / (2 * chip.peak * bound.step))
    wide = roofline.of(moved, count, chip, devices=2, dtype='float32')
    assert wide.kernels['products'] == 2 * bound.kernels['products']


def looped(x):
    return jax.lax.while_loop(lambda x: jnp.sum(x) < 9, lambda x: x * 2, x)


def test_unreadable_text_is_rejected():
    with pytest.raises(ValueError, match='trip count of loop .* is unknown'):
        traffic(looped, jnp.ones(8))
    with pytest.raises(ValueError, match='has no ENTRY'):
        hlo.traffic('nothing of the kind')
