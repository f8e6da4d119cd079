"""What is freed is used again: no page of it is asked of the kernel a second time."""

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource
import statistics
from jepa_text.running import allocator

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def usual_faults(call):
    found = []
    for _ in range(15):
        before = faults()
        call()
        found.append(faults() - before)
    return statistics.median(found)
"""

NUMPY = """
import numpy as np

def call():
    np.ones(8 * 2**20, np.float64).sum()

fresh = usual_faults(call)
assert allocator.keep_freed_memory()
kept = usual_faults(call)
assert kept < fresh / 10, (fresh, kept)
"""

# jax takes the buffers of its programs in threads of its own: here 64 MiB, 16,384 pages.
JAX = """
assert allocator.keep_freed_memory()
import jax
import jax.numpy as jnp

x = jnp.ones((4096, 64))
program = jax.jit(lambda x: (x @ x.T) @ x)
kept = usual_faults(lambda: program(x).block_until_ready())
assert kept < 1638, kept
"""


@pytest.mark.skipif(platform.libc_ver()[0] != 'glibc', reason='a matter of glibc')
@pytest.mark.parametrize('code', [NUMPY, JAX], ids=['numpy', 'jax'])
def test_freed_memory_is_used_again(code):
    done = subprocess.run(
        [sys.executable, '-c', FAULTS + code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
