"""Checksums of the values of arrays, whatever their sharding, file format or devices.

    sum of h_i and sum of h_i * h_i   mod 2**32,   h_i = fmix32(w_i ^ fmix32(i))

w_i is word i of the whole array: 32 bits, or the 8 or 16 bits of a smaller element.
fmix32 is the finalizer of MurmurHash3 (Appleby), a bijection: any change of one word
changes the sum, as do words that swap places. A sum with weights would miss two flipped
signs.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint32}
_CHUNK = 2**15  # words, which stay in the cache of a core


def of_leaves(leaves):
    """{key: two integers} of {key: array}, each computed where the array is.

    The arrays have elements of 8 to 64 bits, or are random keys. All processes that have
    a part of an array must make this call.
    """
    sums = {
        key: _of_numpy(x) if isinstance(x, np.ndarray) else _compiled(_mesh(x))(x)
        for key, x in leaves.items()
    }
    return {key: np.asarray(pair).tolist() for key, pair in sums.items()}


def _of_numpy(array):
    words = np.ascontiguousarray(array).reshape(-1).view(_WORDS[array.dtype.itemsize])
    sums = np.zeros(2, np.uint32)
    for start in range(0, words.size, _CHUNK):
        part = words[start : start + _CHUNK].astype(np.uint32)
        index = np.arange(start, start + part.size, dtype=np.uint64).astype(np.uint32)
        mixed = _fmix32(part ^ _fmix32(index))
        sums += [mixed.sum(dtype=np.uint32), (mixed * mixed).sum(dtype=np.uint32)]
    return sums


def _mesh(array):
    sharding = getattr(array, 'sharding', None)
    return sharding.mesh if isinstance(sharding, NamedSharding) else None


@functools.cache
def _compiled(mesh):
    """One program for each shape, whose result every process has."""
    everywhere = NamedSharding(mesh, PartitionSpec()) if mesh else None
    return jax.jit(_of_array, out_shardings=everywhere)


def _of_array(array):
    """The two sums, uint32 [2]."""
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    if array.dtype == bool:
        array = array.astype(jnp.uint8)
    # Arrays that are kept in the memory of the host are summed on the device.
    array = jax.device_put(array, jax.memory.Space.Device)
    words = jax.lax.bitcast_convert_type(array, _WORDS[array.dtype.itemsize])
    words, index, stride = words.astype(jnp.uint32), np.uint32(0), 1
    for axis in reversed(range(words.ndim)):
        places = jax.lax.broadcasted_iota(jnp.uint32, words.shape, axis)
        index = index + places * np.uint32(stride % 2**32)
        stride *= words.shape[axis]
    mixed, zero = _fmix32(words ^ _fmix32(index)), np.uint32(0)
    # Both in one pass: on a CPU, two plain sums take twenty times as long.
    sums = jax.lax.reduce(
        (mixed, mixed * mixed),
        (zero, zero),
        lambda left, right: (left[0] + right[0], left[1] + right[1]),
        tuple(range(words.ndim)),
    )
    return jnp.stack(sums)


def _fmix32(h):
    h = (h ^ (h >> 16)) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> 13)) * np.uint32(0xC2B2AE35)
    return h ^ (h >> 16)
