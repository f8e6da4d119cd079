"""malloc settings that keep freed host memory in the process for the next step."""

import ctypes
import importlib.util
from importlib import metadata

import jax

# Constants of malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8


def computes_on_cpu(platforms=None, plugins=None):
    """Returns whether jax will compute on the CPU, without initializing a backend.

    (Once a backend is initialized, it is too late to configure it.)

    `platforms` has the format of JAX_PLATFORMS, whose first entry is the default
    backend; None: jax's current setting. If that is empty, jax uses an accelerator if it
    finds one, which requires one of the `plugins` (None: those installed). The result is
    then False if there are any plugins, so a machine that has a plugin but no such device
    only misses the optimization.
    """
    platforms = jax.config.jax_platforms if platforms is None else platforms
    if platforms:
        return platforms.split(',')[0] == 'cpu'
    return not (_plugins() if plugins is None else plugins)


def _plugins():
    """Names of the installed jax plugins for accelerators."""
    names = [point.name for point in metadata.entry_points(group='jax_plugins')]
    modules = ('jax_plugins', 'libtpu')
    return names + [name for name in modules if importlib.util.find_spec(name)]


def keep_freed_memory():
    """Tells the C library to keep freed memory; returns False if it cannot be told.

    glibc maps buffers above 32 MiB directly from the kernel and unmaps them when they are
    freed. On a CPU every step then starts with new pages, which the kernel must zero: a
    fifth of the step time (LOG.md). The setting applies to the whole process, which keeps
    its peak memory until it exits. It is therefore meant for the processes of this
    package that train on a CPU, not for notebooks or hosts of accelerators
    (`computes_on_cpu`).

    Also makes jax compute on the CPU in the calling thread: with asynchronous dispatch,
    the process occasionally grew by the memory of a whole step (LOG.md).

    Call it before anything is computed: it has no effect on jax once it is initialized,
    or on threads that have allocated memory already.
    """
    jax.config.update('jax_cpu_enable_async_dispatch', False)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    # One heap for all threads: the heaps of other threads are small and map large buffers
    # from the kernel regardless of these settings. -1: never trim the end of the heap.
    settings = ((_M_ARENA_MAX, 1), (_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1))
    return all(mallopt(name, value) for name, value in settings)
