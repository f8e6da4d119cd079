"""Child process that compiles training steps for absent devices; started by aot.py.

cuDNN and Tokamax kernels query the local device before they compile. In this process,
which never trains, these queries are patched to return the target device.
"""

import contextlib
import dataclasses
import importlib.util
import re
import time
from pathlib import Path

import jax
import numpy as np
from jax.experimental import topologies

from jepa_text.cost import flops, hardware
from jepa_text.models.attention import attend
from jepa_text.parallel import sharding
from jepa_text.planning import child, compiled, targets
from jepa_text.running import compilation
from jepa_text.training import recipe as recipes
from jepa_text.training import step as steps


def main():
    """Responds to the request on stdin."""
    child.serve(lambda request: respond(**request))


def respond(config, name, vocab_size, text_to):
    """{'phases': the fields of aot.Compiled of each phase}, or {'error': message}."""
    try:
        mesh = sharding.make_mesh(**config['mesh'], devices=devices(name))
        made = recipes.outline(config, mesh, vocab_size)
        with device_queries_patched(name):
            return {'phases': [_compiled(made, phase, text_to) for phase in made.phases]}
    except (ValueError, NotImplementedError) as error:
        return {'error': str(error)}


def devices(name):
    """Descriptions of the devices of 'h200:8' or 'v5e:8', which need not exist here.

    Raises ValueError if the installed compiler cannot describe them.
    """
    kind, topology = targets.topology(name)
    chip = name.partition(':')[0].lower()
    try:
        if kind == 'tpu':
            found = topologies.get_topology_desc(topology, 'tpu')
        else:
            found = topologies.get_topology_desc(
                platform='cuda', topology=topology, target_config=targets.text(chip)
            )
    except (RuntimeError, NotImplementedError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f'The installed compiler cannot describe the devices of {name} ({reason}).'
        ) from error
    return list(np.ravel(found.devices))


@dataclasses.dataclass(frozen=True)
class _Device:
    """The attributes of a device that Tokamax reads."""

    device_kind: str
    core_count: int
    compute_capability: str
    platform: str = 'gpu'


@contextlib.contextmanager
def device_queries_patched(name):
    """Context manager in which kernels see a device of the hardware `name`."""
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
    device = _Device(
        device_kind=target.name,
        core_count=target.cores,
        compute_capability='.'.join(map(str, capability)),
    )
    backend.get_default_device = lambda: device
    with config.cross_compile(True):
        yield


def _compiled(made, phase, text_to):
    began = time.monotonic()
    # Code that queries the devices during tracing gets them from the mesh.
    with jax.set_mesh(made.mesh):
        inputs = made.shapes(phase), made.abstract_batch(phase)
        with attend.record_requests() as seen:
            lowered = steps.jitted(made, phase).lower(*inputs)
        lines = [line for pair in seen.items() for line in attend.explain(*pair)]
    lines = [line for line in lines if not line.startswith(' ')]
    try:
        program = lowered.compile()
    except RuntimeError as error:
        if not (peak := too_large(str(error))):
            raise
        lines.append(f'Does not compile: {str(error).splitlines()[0]}')
        seconds = time.monotonic() - began
        return {'peak': peak, 'kernels': [], 'notes': lines, 'seconds': seconds}
    text = program.as_text()
    if text_to:
        _write(text, Path(text_to), f'{phase.index}_{phase.name}.txt')
    try:
        kernels = compiled.read(text, [_attended(request) for request in seen])
    except ValueError as error:
        kernels, lines = [], [*lines, f'No kernels and no roofline: {error}.']
    return {
        'peak': compilation.peak(program),
        'kernels': [dataclasses.asdict(kernel) for kernel in kernels],
        'notes': lines,
        'seconds': time.monotonic() - began,
    }


def too_large(message):
    """Bytes needed by a program that exceeds a TPU's memory, parsed from libtpu's error
    message; None for other errors.

    >>> too_large('Ran out of memory in memory space hbm. Used 2.00G of 1.00G hbm.')
    2147483648
    >>> too_large('Ran out of memory on HBM, HLO temporaries (1.50G) exceed it (1.00G)')
    1610612736
    """
    pattern = (
        r'Ran out of memory (?:on|in memory space) hbm.*?(?:Used |\()([\d.]+)([KMGT])'
    )
    if not (found := re.search(pattern, message, re.IGNORECASE | re.DOTALL)):
        return None
    return int(float(found[1]) * 1024 ** ('KMGT'.index(found[2].upper()) + 1))


def _attended(request):
    """(row length, fraction of unmasked scores); kernels pad rows to a multiple of
    128."""
    seen = flops.visible(request.length, request.causal, request.window)
    return request.length + -request.length % 128, seen / request.length


def _write(text, folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / re.sub(r'[^\w.]', '_', name)).write_text(text, encoding='utf-8')


if __name__ == '__main__':
    main()
