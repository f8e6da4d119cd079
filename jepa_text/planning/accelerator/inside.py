"""The accelerator checks that compute; tasks.py runs each in a child process.

environment   devices, driver, versions
arithmetic    small programs, compared with numpy (running/self_test.py)
kernels       an attention backend, compared with the reference, forward and backward
training      some steps of `train` on the bundled corpus: losses and speed

Each returns a dict of its results; `wrong`, if present, lists the failures as text.
"""

import os
import platform
import statistics
import subprocess

import jax
import jax.numpy as jnp
import psutil

from jepa_text.models.attention import attend, trial, xla
from jepa_text.planning import child
from jepa_text.planning.accelerator import settings
from jepa_text.running import allocator, compilation, metrics, self_test, xla_flags
from jepa_text.training import train

PACKAGES = ('jax', 'jaxlib', 'flax', 'tokamax', 'jax-cuda12-plugin', 'jax-cuda13-plugin')
NVIDIA = ('name', 'driver_version', 'memory.total', 'power.limit', 'clocks.max.sm')


def main():
    """Responds to the request on stdin: {'check': name in CHECKS, and its arguments}."""
    child.serve(respond)


def respond(request):
    """Runs the requested check."""
    check = CHECKS[request.pop('check')]
    if allocator.computes_on_cpu():
        allocator.keep_freed_memory()
    compilation.use_cache(compilation.PRIVATE)
    return check(**request)


def environment():
    """The devices, driver, host and library versions. Raises RuntimeError for AMD GPUs,
    and for platforms other than CPU, GPU and TPU, which are not supported."""
    device = jax.local_devices()[0]
    runtime = device.client.platform_version.strip().splitlines()
    if any('rocm' in line.lower() for line in runtime):
        raise RuntimeError(
            f'{device.device_kind} is driven by ROCm. jepa_text does not support AMD '
            'GPUs: it has no kernels, environment or tests for them. Set '
            'JAX_PLATFORMS=cpu to check the CPU.'
        )
    if device.platform not in attend.FASTEST:
        raise RuntimeError(
            f'{device.device_kind} has the unsupported platform {device.platform!r}; '
            f'supported: {", ".join(attend.FASTEST)}. Set JAX_PLATFORMS=cpu to check '
            'the CPU.'
        )
    return {
        'platform': device.platform,
        'device': device.device_kind,
        'devices': jax.local_device_count(),
        'memory': (device.memory_stats() or {}).get('bytes_limit'),
        'runtime': runtime[-1],
        'driver': nvidia() if device.platform == 'gpu' else {},
        'cores': os.cpu_count(),
        'host_memory': psutil.virtual_memory().total,
        'system': platform.platform(),
        'python': platform.python_version(),
        'versions': xla_flags.installed(*PACKAGES, 'libtpu'),
        'flags': os.environ.get('XLA_FLAGS', ''),
    }


def nvidia():
    """{field: value} of the first GPU from nvidia-smi; {} if nvidia-smi fails."""
    command = ['nvidia-smi', f'--query-gpu={",".join(NVIDIA)}', '--format=csv,noheader']
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {}
    return dict(zip(NVIDIA, lines[0].split(', ')))


def arithmetic():
    """Compares small programs with numpy: {'programs': {name: {'off', 'allowed'}}}."""
    found = self_test.deviations(tuple(jax.local_devices()))
    return {
        'programs': {
            name: dict(off=off, allowed=allowed) for name, (off, allowed) in found.items()
        },
        'wrong': [
            f'{name} is off by {off:.2g} of the largest value ({allowed:.0e} is allowed)'
            for name, (off, allowed) in found.items()
            if not off <= allowed
        ],
    }


def kernels(backend):
    """Compares an attention backend with the reference: {'answers': [the request with its
    `result` and the deviations `off`]}.

    `result` is 'right', 'cannot: ' and the reason, or a description of the failure.
    """
    answers = [one | _compare(attend.BACKENDS[backend], **one) for one in requests()]
    return {
        'answers': answers,
        'wrong': [
            f'{settings.describe(one)}: {one["result"]}'
            for one in answers
            if one['result'] != 'right'
            and not one['result'].startswith(settings.UNSUPPORTED)
        ],
    }


def requests():
    """Attention requests to check. Each runs on packed rows with padding, on a full row,
    and on a row with a repeated document id."""
    names = ('dtype', 'length', 'head_width', 'causal', 'window')
    short, long = trial.LENGTH, 8 * trial.LENGTH
    rows = (
        ('bfloat16', short, 64, False, None),
        ('bfloat16', short, 64, True, None),
        ('bfloat16', short, 64, False, 20),
        ('bfloat16', short, 64, True, 20),
        ('bfloat16', short, 128, False, None),
        ('bfloat16', long, 64, False, None),
        ('float32', short, 64, False, None),
    )
    return [dict(zip(names, row, strict=True)) for row in rows]


def _compare(backend, *, dtype, length, head_width, causal, window):
    rows = jax.ShapeDtypeStruct((3, length, 4, head_width), dtype)
    keys = jax.ShapeDtypeStruct((3, length, 2, head_width), dtype)
    request = attend.request_of(rows, keys, causal=causal, window=window)
    if reason := backend.why_not(request):
        return {'result': f'{settings.UNSUPPORTED}{reason}'}
    try:
        off = trial.deviations(
            backend.attend,
            _reference,
            runs=backend.RUNS,
            dtype=dtype,
            groups=2,
            repeats=2,
            head_width=head_width,
            causal=causal,
            window=window,
            length=length,
        )
    # Any error of a kernel is a result of the check.
    except Exception as error:
        return {'result': child.first_line(error)}
    wrong = [name for name, by in off.items() if not by <= trial.TOLERANCE]
    failures = ', '.join(f'{name} is off by {off[name]:.1%}' for name in wrong)
    return {'result': failures or 'right', 'off': off}


def _reference(q_BLHK, *inputs, **options):
    """Reference attention: all scores at once, in float32."""
    *arrays, ids_BL, order_BL = (q_BLHK, *inputs)
    with jax.default_matmul_precision('highest'):
        wide = [array.astype(jnp.float32) for array in arrays]
        return xla.attend(*wide, ids_BL, order_BL, **options).astype(q_BLHK.dtype)


def training(config, run):
    """Trains a config in the folder `run`; returns all logged losses, and the median
    speed and MFU."""
    train.train(config, run)
    lines = [line for line in metrics.read(run) if 'train/loss' in line]

    def median(name):
        values = [line[name] for line in lines if name in line]
        return statistics.median(values) if values else None

    return {
        'steps': [line['step'] for line in lines],
        'losses': [line['train/loss'] for line in lines],
        'rows': config['data']['batch_size'],
        'length': config['data']['row_length'],
        'tokens_per_second': median('throughput/tokens_per_second'),
        'step_time': median('throughput/step_time'),
        'input_wait': median('throughput/input_wait'),
        'mfu': median('throughput/mfu'),
    }


CHECKS = {
    'environment': environment,
    'arithmetic': arithmetic,
    'kernels': kernels,
    'training': training,
}

if __name__ == '__main__':
    main()
