"""Memory of the host that a step frees stays with the process, for the next step."""

import ctypes
import importlib.util
from importlib import metadata

import jax

# Numbers of malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8


def computes_on_cpu(platforms=None, plugins=None):
    """Will jax compute on the CPU? Asked without starting it, after which it is too late
    to tell it how.

    `platforms` as in JAX_PLATFORMS, the first of which computes; None: what jax was told.
    Where that is nothing, jax takes an accelerator if it finds one, which takes one of
    the `plugins` (None: those installed); where there are any this is False, so that a
    machine that lacks the device merely goes without.
    """
    platforms = jax.config.jax_platforms if platforms is None else platforms
    if platforms:
        return platforms.split(',')[0] == 'cpu'
    return not (_plugins() if plugins is None else plugins)


def _plugins():
    """Names of what brings jax an accelerator."""
    names = [point.name for point in metadata.entry_points(group='jax_plugins')]
    modules = ('jax_plugins', 'libtpu')
    return names + [name for name in modules if importlib.util.find_spec(name)]


def keep_freed_memory():
    """True if the C library was told to keep what is freed; False where it cannot be.

    glibc takes buffers above 32 MiB from the kernel and gives them back at once, so that
    on a CPU every step begins with fresh pages, which the kernel must fill with zeros: a
    fifth of a step's time (LOG.md). Holds for the whole process, which is then as large
    as its peak until it ends: so it is for a process of ours that trains on a CPU, not
    for a notebook, nor for the host of an accelerator (`computes_on_cpu`). And jax
    computes on a CPU in the thread that calls: where another one did, the process now
    and then grew by all that a step holds (LOG.md).

    Threads that have allocated before keep their own ways, and so does jax, so call it
    before anything is computed.
    """
    jax.config.update('jax_cpu_enable_async_dispatch', False)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    # One heap for all threads: others are small, and take large buffers from the kernel
    # whatever is said here. -1: nothing is given back at its end.
    settings = ((_M_ARENA_MAX, 1), (_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1))
    return all(mallopt(name, value) for name, value in settings)
