"""What XLA must be told before jax starts, for the CPU to compute what was asked.

jaxlib 0.10.2 and later hand sums to YNNPACK on a CPU, and some are silently wrong: of
`jit(lambda x: ((x @ y) * x).sum((1, 2)))` they make noise (jax issue 39103; 0.10.1 was
right). Without these fusions, which is one flag, the results are right.

XLA has a thread for each core or device of a CPU, whichever are more. Where all devices
but one wait in a collective, the last one may find no thread for its product, and they
wait for ever: seen with two cores that act as four devices.
"""

import os
import re
from importlib import metadata

FLAG = '--xla_cpu_experimental_ynn_fusion_type'
_WRONG = ('0.10.2', '0.11.0', '0.11.1', '0.11.2', '0.12.0', '0.12.0.1')
# Versions that know the flag, of all packages that bring an XLA: each reads the same
# variable, and ends the process at a flag that it does not know. Those of jaxlib were
# seen to be wrong without the flag and right with it; later ones are left to
# self_test.py. A plugin for GPUs is built from the XLA of the jaxlib of its version.
MENDED = {
    'jaxlib': _WRONG,
    'jax-cuda12-pjrt': _WRONG,
    'jax-cuda13-pjrt': _WRONG,
    'libtpu': ('0.0.42.1', '0.0.50.1'),
}


def mend(environ=os.environ):
    """Adds to XLA_FLAGS what the CPU needs, and PJRT_NPROC, XLA's number of threads,
    where it acts as several devices; a second call changes nothing.

    XLA reads them when jax first asks for a device: call it before. Where that is too
    late, or where the flag is not known, self_test.py refuses to train.
    """
    given = environ.get('XLA_FLAGS', '')
    environ['XLA_FLAGS'] = flags(given, _installed())
    devices = [int(n) for n in re.findall(r'host_platform_device_count=(\d+)', given)]
    if devices and devices[-1] > 1:
        threads = max(os.cpu_count() or 1, 4 * devices[-1])
        environ.setdefault('PJRT_NPROC', str(threads))


def flags(given, versions):
    """XLA_FLAGS with what `versions` {package that brings an XLA: version} need.

    Unchanged where one of them is none that knows the flag, and where the flag is given,
    whatever its value.
    """
    known = versions and all(v in MENDED[name] for name, v in versions.items())
    if not known or any(word.split('=')[0] == FLAG for word in given.split()):
        return given
    return f'{given} {FLAG}=-reduce'.strip()


def _installed():
    """{package: version} of those that bring an XLA; a local part, as +cuda, is cut."""
    found = {}
    for name in MENDED:
        try:
            found[name] = metadata.version(name).partition('+')[0]
        except metadata.PackageNotFoundError:
            continue
    return found
