"""XLA flags that avoid wrong results and deadlocks on CPUs; set before jax starts.

jaxlib 0.10.2 and later use YNNPACK for sums on a CPU, and some are silently wrong:
`jit(lambda x: ((x @ y) * x).sum((1, 2)))` returns noise (jax issue 39103; 0.10.1 was
right). One flag disables these fusions, and then the results are right.

XLA has one thread per core or per device of a CPU, whichever is larger. If all devices
but one wait in a collective, the last one may find no thread for its matrix product,
which is a deadlock: seen with two cores that act as four devices.
"""

import contextlib
import functools
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


def apply(environ=os.environ):
    """Sets XLA_FLAGS and, for several CPU devices, PJRT_NPROC (XLA's number of threads).

    Can be called repeatedly. XLA reads them when jax first accesses a device, so call it
    before that. If it is called too late, or the flag is not known, self_test.py raises
    before training.
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
    found = {}
    for name in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name).partition('+')[0]
    return found
