"""Memory of the host that a step frees stays with the process, for the next step."""

import ctypes

# Numbers of malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def keep_freed_memory():
    """True if the C library was told to keep what is freed; False where it cannot be.

    glibc takes buffers above 32 MiB from the kernel and gives them back at once, so that
    on a CPU every step begins with fresh pages, which the kernel must fill with zeros: a
    sixth of the time of a small model's step. Holds for the whole process, which is then
    as large as its peak until it ends.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    return bool(mallopt(_M_MMAP_MAX, 0) and mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
