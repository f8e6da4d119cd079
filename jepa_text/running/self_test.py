"""Self-test of the devices: compares small jitted programs with numpy before training.

Compilers have been silently wrong before: sums on CPUs (xla_flags.py), single operations
on some GPUs (jax issue 40633). A run on such a machine is worthless, so none is started.
"""

import functools
import os

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jepa_text.parallel import exits
from jepa_text.running.self_test_programs import patterns


def check_platforms():
    """Raises ConfigError if JAX_PLATFORMS names no platform that jax finds here."""
    try:
        jax.devices()
    # Without a plugin for the platform, an assertion inside jax fails.
    except (AssertionError, RuntimeError) as error:
        detail = f': {error}' if str(error) else ''
        raise exits.ConfigError(
            f'JAX_PLATFORMS={os.environ.get("JAX_PLATFORMS")!r}, but jax finds no such '
            f'device here{detail}. Unset it, set it to cpu, or install jax for this '
            "device (pip install 'jax[cuda12]' or 'jax[tpu]')."
        ) from error


def check():
    """Raises RuntimeError, naming the programs, if a local device computes wrong results.

    Takes at most a second per process; results are cached per set of devices.
    """
    wrong = [
        f'{name} (off by {found:.2g} of the largest value, {allowed:.0e} is allowed)'
        for name, (found, allowed) in deviations(tuple(jax.local_devices())).items()
        if not found <= allowed
    ]
    if wrong:
        device = jax.local_devices()[0]
        raise RuntimeError(
            f'This machine computes wrong results: {len(wrong)} of {len(patterns())} '
            f'programs differ from numpy on {device.platform} ({device.device_kind}), '
            f'jax {jax.__version__}: {"; ".join(wrong)}. A model trained here could not '
            'be trusted. On a CPU, start from the command line, or call '
            'jepa_text.running.xla_flags.apply() before anything is computed, and do not '
            'set --xla_cpu_experimental_ynn_fusion_type in XLA_FLAGS; otherwise install '
            'another version of jax, or use another machine.'
        )


@functools.cache
def deviations(devices):
    """{name: (largest difference found, allowed)}, as shares of the largest value.

    The worst of all `devices`; NaN if a device computes NaN.
    """
    # One program, computed in full by every device.
    everywhere = NamedSharding(Mesh(np.array(devices), ('devices',)), PartitionSpec())
    return {
        pattern.name: (_deviation(pattern, everywhere), pattern.allowed)
        for pattern in patterns()
    }


def _deviation(pattern, everywhere):
    compute = jax.jit(pattern.computed) if pattern.jitted else pattern.computed
    arrays = jax.device_put(pattern.arrays, everywhere)
    # float32 products in full precision, even if the default is lower.
    with jax.default_matmul_precision('highest'), jax.numpy_rank_promotion('allow'):
        found = jax.tree.leaves(compute(**arrays))
    expected = jax.tree.leaves(
        pattern.expected(**{k: _wide(x) for k, x in pattern.arrays.items()})
    )
    shares = [
        np.max(np.abs(np.asarray(shard.data, np.float64) - want)) / np.max(np.abs(want))
        for array, want in zip(found, expected, strict=True)
        for shard in array.addressable_shards
    ]
    return float(np.max(shares))  # unlike the builtin max, it propagates NaN


def _wide(array):
    return array.astype(np.float64) if array.dtype == np.float32 else array
