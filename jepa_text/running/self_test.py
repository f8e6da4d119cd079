"""Does this machine compute what it is asked? Small programs, against numpy.

Compilers have been silently wrong before: sums on CPUs (xla_flags.py), single operations
on some GPUs (jax issue 40633). A run that begins on such a machine is worth nothing, so
none does.
"""

import functools
import os

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jepa_text.parallel import exits
from jepa_text.running.self_test_programs import patterns


def check_platforms(environ=os.environ):
    """Raises ConfigError if JAX_PLATFORMS names nothing that jax finds here."""
    try:
        jax.devices()
    # Without a plugin for the platform, jax trips over an assertion of its own.
    except (AssertionError, RuntimeError) as error:
        why = f': {error}' if str(error) else ''
        raise exits.ConfigError(
            f'JAX_PLATFORMS={environ.get("JAX_PLATFORMS")!r}, but jax finds no such '
            f'device here{why}. Unset it, set it to cpu, or install jax for this device '
            "(pip install 'jax[cuda12]' or 'jax[tpu]')."
        ) from error


def check():
    """Raises RuntimeError if a local device computes wrongly; the message names what.

    A second a process at most, and then nothing: results are those of the devices.
    """
    wrong = [
        f'{name} (off by {found:.2g} of the largest value, {allowed:.0e} is allowed)'
        for name, (found, allowed) in deviations(tuple(jax.local_devices())).items()
        if not found <= allowed
    ]
    if wrong:
        device = jax.local_devices()[0]
        raise RuntimeError(
            f'This machine computes wrongly: of {len(patterns())} programs {len(wrong)} '
            f'differ from numpy on {device.platform} ({device.device_kind}), jax '
            f'{jax.__version__}: {"; ".join(wrong)}. Nothing trained here could be '
            'trusted. On a CPU start by the command line, or call '
            'jepa_text.running.xla_flags.mend() before anything is computed, and leave '
            '--xla_cpu_experimental_ynn_fusion_type out of XLA_FLAGS; else install '
            'another version of jax, or use another machine.'
        )


@functools.cache
def deviations(devices):
    """{name: (largest difference found, allowed)}, each as a share of the largest value;
    of all `devices` the worst. Not a number where a device gives one."""
    # One program for all devices, each of which computes all of it.
    everywhere = NamedSharding(Mesh(np.array(devices), ('devices',)), PartitionSpec())
    return {
        pattern.name: (_deviation(pattern, everywhere), pattern.allowed)
        for pattern in patterns()
    }


def _deviation(pattern, everywhere):
    compute = jax.jit(pattern.computed) if pattern.jitted else pattern.computed
    arrays = jax.device_put(pattern.arrays, everywhere)
    # Products of float32 as such, also where they are rounded by default.
    with jax.default_matmul_precision('highest'), jax.numpy_rank_promotion('allow'):
        found = jax.tree.leaves(compute(**arrays))
    right = jax.tree.leaves(
        pattern.expected(**{k: _wide(x) for k, x in pattern.arrays.items()})
    )
    shares = [
        np.max(np.abs(np.asarray(shard.data, np.float64) - want)) / np.max(np.abs(want))
        for array, want in zip(found, right, strict=True)
        for shard in array.addressable_shards
    ]
    return float(np.max(shares))  # that of the builtin may drop a nan


def _wide(array):
    return array.astype(np.float64) if array.dtype == np.float32 else array
