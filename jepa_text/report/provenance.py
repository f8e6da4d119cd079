"""Versions and machine of a result."""

import platform
from importlib import metadata

import jax

PACKAGES = ('jax', 'flax', 'optax', 'orbax-checkpoint', 'grain', 'tokenizers')


def versions():
    """Versions and machine, for whoever wants the same numbers."""
    return {
        'python': platform.python_version(),
        'machine': f'{platform.system()} {platform.machine()}',
        'devices': [str(device) for device in jax.devices()],
        **{name: metadata.version(name) for name in PACKAGES},
    }
