"""The table from parameter paths to mesh axes, and parts of a batch."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

from jepa_text.parallel import sharding


def test_rest_of_the_devices():
    def sizes(*given, **named):
        return tuple(sharding.make_mesh(*given, **named).shape.values())

    assert sharding.AXES == ('data', 'fsdp', 'context', 'tensor')
    assert sizes() == (4, 1, 1, 1)
    assert sizes(fsdp=2) == (2, 2, 1, 1)
    assert sizes(1, -1, 2) == (1, 2, 1, 2)
    assert sizes(context=2) == (2, 1, 2, 1)


@pytest.mark.parametrize(
    'sizes', [dict(data=3), dict(fsdp=3), dict(data=0), dict(data=-1, fsdp=-1)]
)
def test_sizes_that_do_not_fit(sizes):
    with pytest.raises(ValueError, match='4 available devices'):
        sharding.make_mesh(**sizes)


@pytest.mark.parametrize(
    'path, shape, spec',
    [
        ('layers/ffn/up/kernel', (3, 8, 8), P(None, 'fsdp', 'tensor')),
        ('layers/ffn/down/kernel', (3, 8, 8), P(None, 'tensor', 'fsdp')),
        ('embedding', (31, 8), P(None, 'fsdp')),
        ('norm/scale', (8,), P(None)),
    ],
)
def test_moments_and_target_are_sharded_like_parameters(path, shape, spec):
    mesh = sharding.make_mesh(data=1, fsdp=2, tensor=2)
    for of in ('params/encoder', 'target', 'opt_state/0/mu/encoder'):
        assert sharding.spec(f'{of}/{path}', shape, mesh) == spec
    assert sharding.spec(f'opt_state/0/age/encoder/{path}', (), mesh) == P()


@pytest.mark.parametrize(
    'path',
    [
        'params/new/thing',
        # Their names end like those of known layers.
        'params/encoder/seq/kernel',
        'params/encoder/echo/kernel',
        'params/encoder/layers/predense/kernel',
        'params/encoder/value_embedding',
        'params/encoder/grayscale',
        'params/first_memory/x',
        'params/storage/x',
    ],
)
def test_an_unknown_leaf_is_an_error(path):
    with pytest.raises(ValueError, match=f'no entry for {path!r}'):
        sharding.spec(path, (8, 8), sharding.make_mesh())


def test_every_process_reads_its_rows_and_no_others():
    # Four hosts of two devices: data 8; data 4 with tensor 2; tensor over two hosts.
    alone = {p: {2 * p, 2 * p + 1} for p in range(4)}
    assert sharding.parts_of_batch(alone) == {p: (p, 4) for p in range(4)}
    # On a TPU's torus the devices of a host are not adjacent.
    apart = {0: {0, 2}, 1: {1, 3}}
    assert sharding.parts_of_batch(apart) == {0: (0, 2), 1: (1, 2)}
    shared = {0: {0}, 1: {0}, 2: {1}, 3: {1}}
    assert sharding.parts_of_batch(shared) == {0: (0, 2), 1: (0, 2), 2: (1, 2), 3: (1, 2)}
    assert sharding.part_of_batch(sharding.make_mesh()) == (0, 1)
    for held in ({0: {0, 1}, 1: {1, 2}}, {0: {0, 1}, 1: {2}}):
        with pytest.raises(ValueError, match='some processes share only a part'):
            sharding.parts_of_batch(held)


def test_calls_on_a_cpu_are_synchronous():
    @jax.jit
    def slow(x):
        return jax.lax.fori_loop(0, 300, lambda _, x: jnp.tanh(x @ x), x)

    x = jnp.ones((256, 256))
    slow(x).block_until_ready()
    is_ready = sharding.synchronous_on_cpu(sharding.make_mesh(), lambda x: x.is_ready())
    assert is_ready(slow(x))
