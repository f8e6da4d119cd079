"""Freed memory is reused, measured in page faults."""

import importlib.util
import platform

import children
import pytest

from jepa_text import main
from jepa_text.running import xla_flags

# jax takes the buffers of its programs in threads of its own: here 64 MiB.
JAX = """
import jax
import jax.numpy as jnp

def call():
    program(jnp.ones((4096, 64))).block_until_ready()

program = jax.jit(lambda x: (x @ x.T) @ x)
"""

KEEP = """
from jepa_text.running import xla_flags

kept = xla_flags.keep_freed_memory()
"""

COUNT = """
import resource
import statistics

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

found = []
for _ in range(30):
    before = faults()
    call()
    found.append(faults() - before)
# Threads first take memory of their own.
print(int(statistics.median(found[15:])))
"""


def output_of(*parts):
    return children.run('-c', ''.join(parts)).stdout


@pytest.mark.long
@pytest.mark.skipif(platform.libc_ver()[0] != 'glibc', reason='a matter of glibc')
def test_freed_memory_is_reused():
    fresh = int(output_of(JAX, COUNT))
    assert int(output_of(JAX, KEEP, 'assert kept', COUNT)) < fresh / 10


@pytest.mark.parametrize(
    'platforms, plugins, is_cpu',
    [
        ('cpu', ['jax_plugins'], True),
        ('cpu,cuda', [], True),
        ('cuda', [], False),
        ('cuda,cpu', [], False),
        ('', [], True),
        ('', ['jax_plugins'], False),
        ('', ['libtpu'], False),
    ],
)
def test_platform_is_determined_before_jax_starts(
    monkeypatch, platforms, plugins, is_cpu
):
    import jax

    monkeypatch.setattr(importlib.util, 'find_spec', plugins.__contains__)
    before = jax.config.jax_platforms
    jax.config.update('jax_platforms', platforms)
    try:
        assert xla_flags.computes_on_cpu() is is_cpu
    finally:
        jax.config.update('jax_platforms', before)


@pytest.mark.parametrize(
    'command, is_cpu, kept',
    [('train', True, 1), ('study', True, 1), ('train', False, 0), ('plan', True, 0)],
)
def test_memory_is_kept_only_by_the_train_command_on_a_cpu(
    monkeypatch, command, is_cpu, kept
):
    called = []
    monkeypatch.setattr(xla_flags, 'keep_freed_memory', lambda: called.append(1))
    monkeypatch.setattr(xla_flags, 'computes_on_cpu', lambda: is_cpu)
    monkeypatch.setattr(main, 'main', lambda argv: 0)
    with pytest.raises(SystemExit):
        main.run(['jepa-text', command])
    assert len(called) == kept


@pytest.mark.slow
def test_programs_run_synchronously():
    slow = 'print(program(jnp.ones((2048, 2048))).is_ready())'
    assert output_of(JAX, slow) == 'False\n'
    assert output_of(KEEP, JAX, slow) == 'True\n'
