"""The step of each phase compiled for hardware that is not here: its memory and kernels.

NVIDIA's GPUs by XLA and the CUDA plugin (`pip install 'jepa-text[cuda]'`), TPUs by libtpu
(`pip install 'jepa-text[tpu]'`): both compile without the device, in a process of their
own (aot_process.py). A step takes 20 seconds to three minutes.
"""

import dataclasses
import os
from importlib import metadata

from jepa_text.planning import child, compiled, targets

PLUGINS = ('jax-cuda12-plugin', 'jax-cuda13-plugin')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compiled:
    """A compiled step. peak: bytes that the compiler plans for a device at most.
    kernels: compiled.Kernels; none where the text does not tell how often loops turn.
    notes: lines that tell what attends, and what is missing. seconds: to compile it."""

    peak: int
    kernels: tuple
    notes: tuple
    seconds: float


def compile_phases(config, name, vocab_size=None, text_to=None):
    """The Compiled of each phase of a config on hardware such as 'h200:8'.

    With `text_to`, a folder, programs are left there as text. Raises ValueError where it
    cannot be compiled here, with what is missing.
    """
    kind = targets.topology(name)[0]
    _require(kind, name)
    asked = dict(config=config, name=name, vocab_size=vocab_size, text_to=text_to)
    # No device is opened: one that is here may be in use. The plugin must not look for a
    # driver, nor libtpu ask a server that only machines with TPUs have, or be alone.
    other = {
        'JAX_PLATFORMS': 'cpu',
        'JAX_SKIP_CUDA_CONSTRAINTS_CHECK': '1',
        'TPU_SKIP_MDS_QUERY': '1',
        'ALLOW_MULTIPLE_LIBTPU_LOAD': '1',
        'TPU_ACCELERATOR_TYPE': 'v5litepod-8',
        'TPU_WORKER_HOSTNAMES': 'localhost',
        'TPU_WORKER_ID': '0',
        'TF_CPP_MIN_LOG_LEVEL': os.environ.get('TF_CPP_MIN_LOG_LEVEL', '3'),
    }
    answer = child.ask(
        'jepa_text.planning.aot_process', asked, f'compiling for {name}', environ=other
    )
    if 'error' in answer:
        raise ValueError(answer['error'])
    return [_read(phase) for phase in answer['phases']]


def _read(phase):
    kernels = tuple(compiled.Kernel(**kernel) for kernel in phase['kernels'])
    return Compiled(**phase | {'kernels': kernels, 'notes': tuple(phase['notes'])})


def missing(kind):
    """Why programs for 'gpu' or 'tpu' cannot be compiled here, and the remedy; ''."""
    packages, extra = (PLUGINS, 'cuda') if kind == 'gpu' else (('libtpu',), 'tpu')
    for package in packages:
        try:
            metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
        return ''
    return (
        f'{" or ".join(packages)} is not installed, which compiles without a device: '
        f"pip install 'jepa-text[{extra}]'"
    )


def _require(kind, name):
    if reason := missing(kind):
        raise ValueError(
            f'Compiling for {name} cannot be done here: {reason}; or leave out --compile.'
        )
