"""Profiler traces and their summary."""

from types import SimpleNamespace as Made

import jax
import jax.numpy as jnp
import pytest

from jepa_text.planning import traces


def event(name, ms, *stats):
    return Made(name=name, duration_ns=1e6 * ms, stats=[(key, 1) for key in stats])


def profile(**planes):
    return Made(
        planes=[
            Made(
                name=name,
                lines=[Made(name=line, events=events) for line, events in lines.items()],
            )
            for name, lines in planes.items()
        ]
    )


HOST = {'python': [event('call', 900)], 'xla': [event('dot', 5, 'hlo_op'), event('x', 9)]}


def test_device_kernels_are_summed_by_name():
    gpu = {
        'Stream #7(Compute)': [event('gemm', 3), event('softmax', 1)],
        'Stream #8(Memcpy)': [event('gemm', 2)],
        'XLA Modules': [event('jit_step', 6)],
    }
    found = traces.operation_seconds(profile(**{'/device:GPU:0': gpu, '/host:CPU': HOST}))
    assert found == pytest.approx({'gemm': 0.005, 'softmax': 0.001})
    tpu = {'Steps': [event('0', 9)], 'XLA Ops': [event('%while.3', 8), event('dot', 4)]}
    assert traces.operation_seconds(profile(**{'/device:TPU:0': tpu})) == pytest.approx(
        {'dot': 0.004}
    )


def test_cpu_operations_are_summed_without_a_device():
    assert traces.operation_seconds(profile(**{'/host:CPU': HOST})) == pytest.approx(
        {'dot': 0.005}
    )


def test_real_trace_lists_costliest_first(tmp_path):
    x = jnp.ones((256, 256))
    work = jax.jit(lambda x: jnp.sin(x @ x).sum())
    work(x)
    found = traces.record(lambda: work(x).block_until_ready(), tmp_path)
    assert (tmp_path / found['file']).is_file()
    times = [seconds for _, seconds, _ in found['costliest']]
    assert times and times == sorted(times, reverse=True)
    assert 0 < sum(times) <= found['seconds'] * 1.001
