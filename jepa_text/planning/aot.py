"""Compiles the training step of each phase for devices that are absent.

For NVIDIA GPUs by XLA and the CUDA plugin (`pip install 'jepa-text[cuda]'`), for TPUs by
libtpu (`pip install 'jepa-text[tpu]'`), in a process of its own, in which no device is
opened. A step takes 20 seconds to three minutes.
"""

import contextlib
import importlib.util
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jax.experimental import topologies

from jepa_text import engine
from jepa_text.models.attention import attend
from jepa_text.parallel import exits, hardware, sharding
from jepa_text.planning import hlo, targets
from jepa_text.running import compilation, xla_flags
from jepa_text.training import recipe as recipes
from jepa_text.training import step as steps

PLUGINS = ('jax-cuda12-plugin', 'jax-cuda13-plugin')
# The CUDA plugin must not look for a driver. libtpu must not query the metadata server,
# which only TPU hosts have, nor insist on being the only process.
_ENVIRONMENT = {
    'JAX_PLATFORMS': 'cpu',
    'JAX_SKIP_CUDA_CONSTRAINTS_CHECK': '1',
    'TPU_SKIP_MDS_QUERY': '1',
    'ALLOW_MULTIPLE_LIBTPU_LOAD': '1',
    'TPU_ACCELERATOR_TYPE': 'v5litepod-8',
    'TPU_WORKER_HOSTNAMES': 'localhost',
    'TPU_WORKER_ID': '0',
}


class Compiled(NamedTuple):
    """A compiled step.

    peak      peak bytes per device that the compiler plans
    traffic   hlo.Traffic; None if the program text has no loop trip counts
    notes     lines that describe the attention backends and what is missing
    """

    peak: int
    traffic: hlo.Traffic | None
    notes: tuple


def compile_phases(config, name, vocab_size=None):
    """The Compiled of each phase of a config for hardware such as 'h200:8'; raises
    ValueError, with the reason, if the step does not compile, or not in this environment.
    """
    if reason := missing(targets.topology(name)[0]):
        raise ValueError(f'Cannot compile for {name}: {reason}, or omit --compile.')
    quiet = {'TF_CPP_MIN_LOG_LEVEL': os.environ.get('TF_CPP_MIN_LOG_LEVEL', '3')}
    task = engine.Task(
        'compile',
        f'{__name__}.{compile_here.__name__}',
        [config, name, vocab_size],
        variables=_ENVIRONMENT | quiet,
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        engine.opened(engine.OWN_PROCESS, folder) as run,
    ):
        value, error = run([task], on_end=lambda *_: None)['compile']
        log = Path(folder, engine.LOGS, f'{task.name}.log')
        said = log.read_text('utf-8', 'replace').strip() if log.is_file() else ''
    if error:
        # Of a process that is lost it names the log, which is gone by now.
        end = '\n'.join(said.splitlines()[-8:]) or 'nothing'
        text = str(error).replace(f'; see {log}', f'; the last that it printed:\n{end}')
        raise ValueError(f'Cannot compile for {name}: {text}') from error
    phases = []
    for peak, traffic, notes in value:  # as lists
        if traffic is not None:
            moved, collectives = traffic
            traffic = hlo.Traffic(moved, tuple(hlo.Collective(*x) for x in collectives))
        phases.append(Compiled(peak, traffic, tuple(notes)))
    return phases


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


def compile_here(config, name, vocab_size):
    """The Compiled of each phase, in the process of `compile_phases`.

    cuDNN and Tokamax kernels query the local device before they compile; in this process,
    which never trains, these queries are answered for the absent device.
    """
    xla_flags.apply()
    with exits.config_errors():
        mesh = sharding.make_mesh(**config['mesh'], devices=devices(name))
        made = recipes.outline(config, mesh, vocab_size)
        with _device_queries_answered(name):
            return [compiled(made, phase) for phase in made.phases]


def devices(name):
    """Descriptions of the devices of 'h200:8' or 'v5e:8', which need not exist here;
    raises ValueError if the installed compiler cannot describe them."""
    kind, topology = targets.topology(name)
    chip = name.partition(':')[0].lower()
    try:
        if kind == 'tpu':
            described = topologies.get_topology_desc(topology, 'tpu')
        else:
            described = topologies.get_topology_desc(
                platform='cuda', topology=topology, target_config=targets.text(chip)
            )
    except (RuntimeError, NotImplementedError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f'The installed compiler cannot describe the devices of {name} ({reason}).'
        ) from error
    return list(np.ravel(described.devices))


class _Device(NamedTuple):
    """The attributes of a device that Tokamax reads."""

    device_kind: str
    core_count: int
    compute_capability: str
    platform: str = 'gpu'


@contextlib.contextmanager
def _device_queries_answered(name):
    capability = hardware.find(name)[0].capability
    if capability is None:
        yield
        return
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    def number(text):
        return tuple(int(part) for part in text.split('.'))

    cudnn.check_compute_capability = lambda minimum: capability >= number(minimum)
    cudnn.is_cuda_compute_capability_equal = lambda other: capability == number(other)
    if importlib.util.find_spec('tokamax') is None:
        yield
        return
    from absl import flags as absl_flags
    from jax.extend import backend
    from tokamax import config

    absl_flags.FLAGS.mark_as_parsed()
    target = targets.TARGETS[name.partition(':')[0].lower()]
    version = '.'.join(map(str, capability))
    backend.get_default_device = lambda: _Device(target.name, target.cores, version)
    with config.cross_compile(True):
        yield


def compiled(made, phase):
    """The Compiled of a phase of a recipe, for the devices of its mesh."""
    # Code that queries the devices during tracing gets them from the mesh.
    with jax.set_mesh(made.mesh):
        inputs = made.shapes(phase), made.abstract_batch(phase)
        with attend.record_requests() as seen:
            lowered = steps.jitted(made, phase).lower(*inputs)
        notes = [attend.explain(*pair) for pair in seen.items()]
    program = lowered.compile()
    try:
        traffic = hlo.traffic(program.as_text())
    except ValueError as error:
        traffic, notes = None, [*notes, f'No collectives and no roofline: {error}.']
    return Compiled(compilation.peak(program), traffic, tuple(notes))
