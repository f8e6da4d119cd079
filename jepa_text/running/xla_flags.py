"""Settings of a process before jax starts: XLA flags, and malloc's for steps on a CPU.

The flags avoid wrong results and deadlocks on CPUs.

jaxlib 0.10.2 and later use YNNPACK for sums on a CPU, and some are silently wrong:
`jit(lambda x: ((x @ y) * x).sum((1, 2)))` returns noise (jax issue 39103; 0.10.1 was
right). One flag disables these fusions, and then the results are right.

XLA has one thread per core or per device of a CPU, whichever is larger. If all devices
but one wait in a collective, the last one may find no thread for its matrix product,
which is a deadlock: seen with two cores that act as four devices.
"""

import contextlib
import ctypes
import functools
import importlib.util
import os
import re
from importlib import metadata

FLAG = '--xla_cpu_experimental_ynn_fusion_type'
_WRONG = ('0.10.2', '0.11.0', '0.11.1', '0.11.2', '0.12.0', '0.12.0.1')
# Versions that know the flag, for all packages that contain XLA: each reads the same
# variable, and ends the process if it does not know a flag. Those of jaxlib were seen to
# be wrong without the flag and right with it; later ones are left to self_test.py. A
# plugin for GPUs is built from the XLA of the jaxlib of the same version.
AFFECTED = {
    'jaxlib': _WRONG,
    'jax-cuda12-pjrt': _WRONG,
    'jax-cuda13-pjrt': _WRONG,
    'libtpu': ('0.0.42.1', '0.0.50.1'),
}
# Constants of malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8


def apply(environ=os.environ):
    """Sets XLA_FLAGS and, for several CPU devices, PJRT_NPROC (XLA's number of threads).

    XLA reads them when jax first accesses a device, so call it before that; otherwise
    self_test.py raises before training.
    """
    given = environ.get('XLA_FLAGS', '')
    environ['XLA_FLAGS'] = flags(given, installed(*AFFECTED))
    devices = [int(n) for n in re.findall(r'host_platform_device_count=(\d+)', given)]
    if devices and devices[-1] > 1:
        threads = max(os.cpu_count() or 1, 4 * devices[-1])
        environ.setdefault('PJRT_NPROC', str(threads))


def flags(given, versions):
    """XLA_FLAGS with the flag added if all `versions` {package: version} know it.

    Unchanged if one of them does not, or if the flag is given, with any value.
    """
    known = versions and all(v in AFFECTED[name] for name, v in versions.items())
    if not known or any(word.split('=')[0] == FLAG for word in given.split()):
        return given
    return f'{given} {FLAG}=-reduce'.strip()


@functools.cache
def installed(*packages):
    """{package: version} of those that are installed, without a suffix like +cuda."""
    versions = {}
    for name in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name).partition('+')[0]
    return versions


def computes_on_cpu():
    """Returns whether jax will compute on the CPU, without initializing a backend.

    (Once a backend is initialized, it is too late to configure it.) Unless a platform is
    chosen, it is False if a plugin for an accelerator is installed, so a machine that has
    a plugin but no such device only misses the optimization.
    """
    import jax

    if platforms := jax.config.jax_platforms:
        return platforms.split(',')[0] == 'cpu'
    return not any(map(importlib.util.find_spec, ('jax_plugins', 'libtpu')))


def keep_freed_memory():
    """Tells the C library to keep freed memory; returns False if it cannot be told.

    glibc maps buffers above 32 MiB directly from the kernel and unmaps them when they are
    freed. On a CPU every step then starts with new pages, which the kernel must zero: a
    fifth of the step time (LOG.md). The whole process keeps its peak memory until it
    exits, so this is not for notebooks or hosts of accelerators (`computes_on_cpu`).

    Also makes jax compute on the CPU in the calling thread: with asynchronous dispatch,
    the process occasionally grew by the memory of a whole step (LOG.md). Call it before
    anything is computed.
    """
    import jax

    jax.config.update('jax_cpu_enable_async_dispatch', False)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    # One heap for all threads: the heaps of other threads are small and map large buffers
    # from the kernel regardless of these settings. -1: never trim the end of the heap.
    settings = ((_M_ARENA_MAX, 1), (_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1))
    return all(mallopt(name, value) for name, value in settings)
