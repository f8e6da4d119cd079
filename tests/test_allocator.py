"""What is freed is used again: no page of it is asked of the kernel a second time."""

import platform
import subprocess
import sys

import pytest

CODE = """
import resource
import threading
import numpy as np
from jepa_text.running import allocator

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        np.ones(8 * 2**20, np.float64).sum()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

fresh = faults()
assert allocator.keep_freed_memory()
faults()
kept = faults()
assert kept < fresh / 10, (fresh, kept)

def elsewhere():
    faults()
    found.append(faults())

found = []
thread = threading.Thread(target=elsewhere)
thread.start()
thread.join()
assert found[0] < fresh / 10, (fresh, found)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != 'glibc', reason='a matter of glibc')
def test_freed_memory_is_used_again():
    done = subprocess.run(
        [sys.executable, '-c', CODE], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
