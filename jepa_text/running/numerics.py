"""Settings of jax and XLA that change numbers: rejected, or recorded with a run.

The implementation of random keys is not among them: models/network.py names it.
"""

import os

import jax

from jepa_text.parallel import exits
from jepa_text.running import workdir

# Other values would change types, and what is drawn from a seed.
REQUIRED = {
    'jax_enable_x64': False,
    'jax_threefry_partitionable': True,
    'jax_random_seed_offset': 0,
}
VARIABLES = (
    'XLA_FLAGS',
    'LIBTPU_INIT_ARGS',
    'NVIDIA_TF32_OVERRIDE',
    'JAX_ALLOW_F16_REDUCTIONS',
    'JAX_DISABLE_MOST_OPTIMIZATIONS',
    'JAX_OPTIMIZATION_LEVEL',
)


def check():
    """Raises ConfigError for settings that would change types or random draws."""
    for name, value in REQUIRED.items():
        if (current := getattr(jax.config, name)) != value:
            raise exits.ConfigError(
                f'{name.upper()} is {current}, which changes types or random draws, so '
                f'results would differ from those of other machines: it must be {value}. '
                f'Unset the variable, or call jax.config.update({name!r}, {value}).'
            )


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


def current(environ=os.environ):
    """Returns {name: value} of this process; the values are strings."""
    return {
        'jax': jax.__version__,
        'device': jax.devices()[0].device_kind,
        'JAX_DEFAULT_MATMUL_PRECISION': jax.config.jax_default_matmul_precision or '',
        **{name: environ.get(name, '') for name in VARIABLES},
    }


def changes(meta):
    """Yields a sentence if `meta`, of a checkpoint, has recorded other settings."""
    now = current()
    if changed := workdir.differences(meta.get('numerics', now), now):
        yield (
            'numbers  rounding may differ from that of the steps before: '
            f'{workdir.describe(changed)}.'
        )
