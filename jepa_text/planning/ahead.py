"""The step of each phase compiled for hardware that is not here, and its memory.

TPUs: by libtpu (`pip install 'jepa-text[tpu]'`), which compiles without a TPU. Others
need such a device in this machine. A step takes a minute or three to compile.
"""

import os

import jax
import numpy as np

from jepa_text.cost import hardware
from jepa_text.parallel import sharding
from jepa_text.running import compilation
from jepa_text.training import assemble
from jepa_text.training import recipe as recipes

# Slices by chip and count, as libtpu names them.
_FLAT = {4: '2x2', 8: '2x4', 16: '4x4', 32: '4x8', 64: '8x8', 128: '8x16', 256: '16x16'}
_CUBE = {4: '2x2x1', 8: '2x2x2', 16: '2x2x4', 32: '2x4x4', 64: '4x4x4'}
SLICES = {'v5e': _FLAT, 'v6e': _FLAT, 'v5p': _CUBE}


def peaks(config, name, vocab_size=None):
    """Bytes that the compiler plans for a device at most, for each phase of a config on
    hardware such as 'v5e:8'.

    Raises ValueError where it cannot be compiled here, with what is missing.
    """
    mesh = sharding.make_mesh(**config['mesh'], devices=devices(name))
    made = assemble.outline(config, mesh, vocab_size)
    return [_peak(made, phase) for phase in made.phases]


def devices(name):
    """The devices of 'v5e:8' as libtpu describes them, or those of this machine if they
    are of the kind and number."""
    chip, count = hardware.find(name)
    kind = name.partition(':')[0].lower()
    if kind in SLICES:
        return _topology(kind, count)
    here = jax.devices()
    if hardware.peak(here[0].device_kind) == chip.peak and len(here) == count:
        return here
    raise ValueError(
        f'To compile for {name}, this machine must have it, but it has {len(here)} x '
        f'{here[0].device_kind}. TPUs ({", ".join(SLICES)}) can be compiled for on any '
        'machine; without --compile, memory is estimated.'
    )


def _topology(kind, count):
    if count not in SLICES[kind]:
        raise ValueError(
            f'{kind}:{count} is no slice that can be compiled for; there are: '
            f'{", ".join(f"{kind}:{n}" for n in SLICES[kind])}.'
        )
    from jax.experimental import topologies

    # It would else ask a metadata server that only a TPU machine has.
    for key, value in {
        'TPU_SKIP_MDS_QUERY': '1',
        'TPU_ACCELERATOR_TYPE': 'v5litepod-8',
        'TPU_WORKER_HOSTNAMES': 'localhost',
        'TPU_WORKER_ID': '0',
    }.items():
        os.environ.setdefault(key, value)
    name = f'{kind}:{SLICES[kind][count]}'
    try:
        return list(np.ravel(topologies.get_topology_desc(name, 'tpu').devices))
    except (RuntimeError, NotImplementedError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f'Compiling for {name} needs libtpu, which cannot be used here ({reason}). '
            "Install it: pip install 'jepa-text[tpu]'; or leave out --compile."
        ) from error


def _peak(made, phase):
    shapes = recipes.shapes(made, phase), recipes.abstract_batch(made, phase)
    with jax.set_mesh(made.mesh):
        lowered = recipes.jitted(made, phase).lower(*shapes)
    return compilation.peak(lowered.compile())
