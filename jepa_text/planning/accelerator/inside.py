"""The checks that compute, each in a process of its own: tasks.py asks, one at a time.

environment   what is here: devices, driver, versions
arithmetic    small programs against numpy (running/self_test.py)
kernels       a backend of attention against the reference, forward and backward
training      some steps of `train` on the bundled corpus: its losses, and its speed

Each returns what it found; `wrong` in it is what is not as it must be, in words.
"""

import contextlib
import importlib.metadata
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
from jepa_text.running import allocator, compilation, metrics, self_test
from jepa_text.training import train

PACKAGES = ('jax', 'jaxlib', 'flax', 'tokamax', 'jax-cuda12-plugin', 'jax-cuda13-plugin')
NVIDIA = ('name', 'driver_version', 'memory.total', 'power.limit', 'clocks.max.sm')


def main():
    """Answers {'check': one of CHECKS, and what it takes} with what it found."""
    child.serve(answer)


def answer(question):
    """What the check finds."""
    check = CHECKS[question.pop('check')]
    if allocator.computes_on_cpu():
        allocator.keep_freed_memory()
    compilation.use_cache(compilation.PRIVATE)
    return check(**question)


def environment():
    """What computes here. RuntimeError for AMD's GPUs and for platforms that are neither
    CPU, GPU nor TPU, of which nothing here was made."""
    device = jax.local_devices()[0]
    runtime = device.client.platform_version.strip().splitlines()
    if any('rocm' in line.lower() for line in runtime):
        raise RuntimeError(
            f'{device.device_kind} is driven by ROCm. jepa_text has no kernels, no '
            'environment and no test for AMD GPUs; JAX_PLATFORMS=cpu checks the CPU.'
        )
    if device.platform not in attend.FASTEST:
        raise RuntimeError(
            f'{device.device_kind} is of the platform {device.platform!r}; those '
            f'known are {", ".join(attend.FASTEST)}. JAX_PLATFORMS=cpu checks the CPU.'
        )
    versions = {}
    for name in (*PACKAGES, 'libtpu'):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
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
        'versions': versions,
        'flags': os.environ.get('XLA_FLAGS', ''),
    }


def nvidia():
    """What nvidia-smi says of the first GPU: {field: value}; {} where it does not run."""
    command = ['nvidia-smi', f'--query-gpu={",".join(NVIDIA)}', '--format=csv,noheader']
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {}
    return dict(zip(NVIDIA, lines[0].split(', ')))


def sums():
    """Small programs against numpy: {'programs': {name: {'off', 'allowed'}}}."""
    found = self_test.deviations(tuple(jax.local_devices()))
    return {
        'programs': {
            name: dict(off=off, allowed=to) for name, (off, to) in found.items()
        },
        'wrong': [
            f'{name} is off by {off:.2g} of the largest value ({to:.0e} is allowed)'
            for name, (off, to) in found.items()
            if not off <= to
        ],
    }


def kernels(backend):
    """A backend of attention: {'answers': [question, its `result` and what is `off`]}.

    `result` is 'right', or 'cannot: why', or what was wrong.
    """
    answers = [one | _asked(attend.BACKENDS[backend], **one) for one in questions()]
    return {
        'answers': answers,
        'wrong': [
            f'{settings.words(one)}: {one["result"]}'
            for one in answers
            if one['result'] != 'right' and not one['result'].startswith(settings.CANNOT)
        ],
    }


def questions():
    """What a backend is asked; each with packed rows, padding and ids that come again."""
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


def _asked(backend, *, dtype, length, head_width, causal, window):
    rows = jax.ShapeDtypeStruct((3, length, 4, head_width), dtype)
    keys = jax.ShapeDtypeStruct((3, length, 2, head_width), dtype)
    request = attend.request_of(rows, keys, causal=causal, window=window)
    if reason := backend.why_not(request):
        return {'result': f'{settings.CANNOT}{reason}'}
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
    # Whatever a kernel raises is the answer that was asked for.
    except Exception as error:
        return {'result': child.first_line(error)}
    wrong = [name for name, by in off.items() if not by <= trial.TOLERANCE]
    said = ', '.join(f'{name} is off by {off[name]:.1%}' for name in wrong)
    return {'result': said or 'right', 'off': off}


def _reference(q_BLHK, *inputs, **options):
    """All scores at once, in float32."""
    *arrays, ids_BL, order_BL = (q_BLHK, *inputs)
    with jax.default_matmul_precision('highest'):
        wide = [array.astype(jnp.float32) for array in arrays]
        return xla.attend(*wide, ids_BL, order_BL, **options).astype(q_BLHK.dtype)


def training(config, run):
    """Losses, speed, and MFU of a train config, from the first step to the last."""
    train.train(config, run)
    lines = [line for line in metrics.read(run) if 'train/loss' in line]

    def middle(name):
        values = [line[name] for line in lines if name in line]
        return statistics.median(values) if values else None

    return {
        'steps': [line['step'] for line in lines],
        'losses': [line['train/loss'] for line in lines],
        'rows': config['data']['batch_size'],
        'length': config['data']['row_length'],
        'tokens_per_second': middle('throughput/tokens_per_second'),
        'step_time': middle('throughput/step_time'),
        'input_wait': middle('throughput/input_wait'),
        'mfu': middle('throughput/mfu'),
    }


CHECKS = {
    'environment': environment,
    'arithmetic': sums,
    'kernels': kernels,
    'training': training,
}

if __name__ == '__main__':
    main()
