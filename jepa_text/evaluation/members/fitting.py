"""How many members the memory of the devices holds at once, by XLA's own plan.

    parameters, moments, gradients, activations of a step on the longest row <= room

Two programs are compiled where all do not fit, and from them told how much a member is.
"""

import jax

from jepa_text.cost import hardware
from jepa_text.running import compilation


def room():
    """Bytes of each device that may be filled; None where it does not say how many it
    has, as a CPU, which has those of the host."""
    limits = [(one.memory_stats() or {}).get('bytes_limit') for one in jax.devices()]
    return None if None in limits else int(hardware.USABLE * min(limits))


def width(made, rows, members):
    """How many of so many members a grid.Grid trains at once on the rows: as many as fit,
    filled up to a multiple of the devices, so that each has as many; 1 of one.

    One on each device is tried whatever it takes: XLA says what is too large.
    """
    if members == 1:
        return 1
    devices, limit = jax.device_count(), room()
    maximum = -(-members // devices) * devices
    if limit is None:
        return maximum
    # Each device has these beside the members.
    limit -= sum(x.nbytes for x in jax.tree.leaves(made.trained))

    def takes(count):
        return compilation.peak(made.lowered(rows, count).compile())

    if (all_of_them := takes(maximum)) <= limit:
        return maximum
    if maximum == devices or (first := takes(devices)) >= limit:
        return devices
    each = max(1.0, (all_of_them - first) / (maximum - devices))
    found = devices + int((limit - first) / each) // devices * devices
    while found > devices and takes(found) > limit:
        found -= devices
    return found
