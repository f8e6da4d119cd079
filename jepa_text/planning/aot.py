"""Ahead-of-time compilation of each phase's training step for hardware that is absent.

For NVIDIA GPUs by XLA and the CUDA plugin (`pip install 'jepa-text[cuda]'`), for TPUs by
libtpu (`pip install 'jepa-text[tpu]'`). Both compile without a device, in a child process
(aot_process.py). A step takes 20 seconds to three minutes.
"""

import dataclasses
import os

from jepa_text.planning import child, compiled, targets
from jepa_text.running import xla_flags

PLUGINS = ('jax-cuda12-plugin', 'jax-cuda13-plugin')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compiled:
    """A compiled step.

    peak      peak bytes per device that the compiler plans
    kernels   compiled.Kernels; empty if the program text has no loop trip counts
    notes     lines that describe the attention backends and what is missing
    seconds   compilation time
    """

    peak: int
    kernels: tuple
    notes: tuple
    seconds: float


def compile_phases(config, name, vocab_size=None, text_to=None):
    """The Compiled of each phase of a config for hardware such as 'h200:8'.

    If `text_to`, a folder, is given, the programs are written there as text. Raises
    ValueError if this environment cannot compile for the hardware, with the reason.
    """
    kind = targets.topology(name)[0]
    _require(kind, name)
    request = dict(config=config, name=name, vocab_size=vocab_size, text_to=text_to)
    # Local devices may be in use, so none is opened. The CUDA plugin must not look for a
    # driver. libtpu must not query the metadata server, which only TPU hosts have, nor
    # insist on being the only process.
    environ = {
        'JAX_PLATFORMS': 'cpu',
        'JAX_SKIP_CUDA_CONSTRAINTS_CHECK': '1',
        'TPU_SKIP_MDS_QUERY': '1',
        'ALLOW_MULTIPLE_LIBTPU_LOAD': '1',
        'TPU_ACCELERATOR_TYPE': 'v5litepod-8',
        'TPU_WORKER_HOSTNAMES': 'localhost',
        'TPU_WORKER_ID': '0',
        'TF_CPP_MIN_LOG_LEVEL': os.environ.get('TF_CPP_MIN_LOG_LEVEL', '3'),
    }
    response = child.call(
        'jepa_text.planning.aot_process',
        request,
        f'compiling for {name}',
        environ=environ,
    )
    if 'error' in response:
        raise ValueError(response['error'])
    return [_compiled(phase) for phase in response['phases']]


def _compiled(phase):
    kernels = tuple(compiled.Kernel(**kernel) for kernel in phase['kernels'])
    return Compiled(**phase | {'kernels': kernels, 'notes': tuple(phase['notes'])})


def missing(kind):
    """Why this environment cannot compile for 'gpu' or 'tpu', and the remedy; '' if it
    can."""
    packages, extra = (PLUGINS, 'cuda') if kind == 'gpu' else (('libtpu',), 'tpu')
    if xla_flags.installed(*packages):
        return ''
    return (
        f'{" or ".join(packages)} is not installed, which compiles without a device: '
        f"pip install 'jepa-text[{extra}]'"
    )


def _require(kind, name):
    if reason := missing(kind):
        raise ValueError(f'Cannot compile for {name}: {reason}, or omit --compile.')
