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


def width(made, rows, maximum):
    """The largest number of members, up to `maximum`, that a grid.Grid trains at once on
    the rows; a multiple of the devices where `maximum` is one.

    One is tried whatever it takes: XLA says what is too large.
    """
    limit = room()
    if limit is None or maximum == 1:
        return maximum
    # Each device has these beside the members.
    limit -= sum(x.nbytes for x in jax.tree.leaves(made.trained))

    def takes(count):
        return compilation.peak(made.lowered(rows, count).compile())

    if (all_of_them := takes(maximum)) <= limit:
        return maximum
    devices = jax.device_count()
    minimum = 1 if maximum % devices else devices
    if maximum == minimum or (first := takes(minimum)) >= limit:
        return minimum
    each = max(1.0, (all_of_them - first) / (maximum - minimum))
    found = minimum + int((limit - first) / each) // minimum * minimum
    while found > minimum and takes(found) > limit:
        found -= minimum
    return found
