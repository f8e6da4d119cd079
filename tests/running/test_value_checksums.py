"""Checksums of values do not depend on where they are, and change with any damage."""

import shutil

import draws
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from test_checkpoint import _assert_same, _restored, _save, _state

from jepa_text.running import checkpoint, restore, value_checksums


def of(array):
    return value_checksums.of_leaves({'x': array})['x']


def test_the_formula():
    def fmix32(h):
        h = (h ^ h >> 16) * 0x85EBCA6B % 2**32
        h = (h ^ h >> 13) * 0xC2B2AE35 % 2**32
        return h ^ h >> 16

    words = [0, 5, 2**32 - 1]
    mixed = [fmix32(word ^ fmix32(i)) for i, word in enumerate(words)]
    wanted = [sum(mixed) % 2**32, sum(h * h for h in mixed) % 2**32]
    assert of(np.array(words, np.uint32)) == of(jnp.array(words, jnp.uint32)) == wanted


@pytest.mark.parametrize(
    'spec', [P(), P('a'), P(None, 'b'), P('b', 'a'), P(('a', 'b'))], ids=str
)
def test_sharding_does_not_change_them(spec):
    mesh = jax.make_mesh((2, 2), ('a', 'b'), axis_types=(AxisType.Auto,) * 2)
    array = np.random.default_rng(0).standard_normal((8, 12, 3)).astype(np.float32)
    assert of(jax.device_put(array, NamedSharding(mesh, spec))) == of(array)


@pytest.mark.parametrize(
    'kind',
    ['bool', 'int8', 'uint8', 'float8_e4m3fn', 'bfloat16', 'float16', 'float64', 'int64'],
)
def test_all_sizes_of_elements(kind):
    with jax.enable_x64(True):
        array = jnp.asarray(np.arange(30).reshape(5, 6) % 7, kind)
        assert of(array) == of(np.asarray(array))
        changed = np.asarray(array).copy()
        changed[4, 5] = not changed[4, 5]
        assert of(changed) != of(array)
    assert of(jnp.zeros((0, 3))) == [0, 0]


def test_random_keys():
    keys = jax.random.split(jax.random.key(0), 3)
    assert of(keys) == of(jax.random.key_data(keys)) != of(jax.random.key(0))


def file_damage(rng, path):
    """Damages a file; says how."""
    content = bytearray(path.read_bytes())
    what = rng.choice(['flip', 'two flips', 'cut', 'missing'])
    if what == 'missing':
        path.unlink()
    elif what == 'cut' or not content:
        path.write_bytes(content[: len(content) // 2])
    else:
        for _ in range(1 + (what == 'two flips')):
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
    return f'{what} in {path}'


@pytest.mark.slow
def test_no_damaged_file_changes_what_is_restored(tmp_path):
    """Of the newer of two steps: it is stepped over, or the damage is harmless."""
    rng, run, restored = np.random.default_rng(draws.seed()), tmp_path / 'run', set()
    _save(tmp_path / 'whole', 1, 2)
    shutil.copytree(tmp_path / 'whole', run)
    for path in sorted(path for path in (run / '2').rglob('*') if path.is_file()):
        shutil.rmtree(run)
        shutil.copytree(tmp_path / 'whole', run)
        what = file_damage(rng, path)
        verified = restore.newest_good(run)
        with checkpoint.Checkpointer(run) as store:
            state, meta = _restored(store)
        step = int(state.step)
        assert meta == {'cursor': step * 10}, what
        assert step == 1 or verified == (step, meta), what
        _assert_same(state, _state(step))
        restored.add(step)
    assert 1 in restored
