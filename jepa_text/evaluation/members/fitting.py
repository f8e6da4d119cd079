"""Members on devices: how many fit into their memory, and how they are spread over them.

By XLA's memory analysis of a step on the longest row. If not all members fit, two
programs are compiled to estimate the memory per member.
"""

import jax
import numpy as np

from jepa_text.parallel import hardware
from jepa_text.running import compilation


def memory_limit():
    """Returns the usable bytes of each device; None if a device, such as a CPU, reports
    no limit."""
    limits = [
        (device.memory_stats() or {}).get('bytes_limit') for device in jax.devices()
    ]
    return None if None in limits else int(hardware.USABLE * min(limits))


def width(grid, rows, members):
    """Returns how many of `members` members a grid.Grid trains at once on the rows.

    As many as fit, rounded to a multiple of the number of devices, so that each device
    has the same number; 1 for one member. One member per device is always tried, even if
    it does not fit by this estimate: XLA reports what is too large.
    """
    if members == 1:
        return 1
    devices, limit = jax.device_count(), memory_limit()
    maximum = -(-members // devices) * devices
    if limit is None:
        return maximum
    # The initial parameters stay on each device in addition to the members.
    limit -= sum(x.nbytes for x in jax.tree.leaves(grid.encoder_params))

    def peak_bytes(count):
        return compilation.peak(grid.lowered(rows, count).compile())

    if (all_at_once := peak_bytes(maximum)) <= limit:
        return maximum
    if maximum == devices or (one_each := peak_bytes(devices)) >= limit:
        return devices
    per_member = max(1.0, (all_at_once - one_each) / (maximum - devices))
    count = devices + int((limit - one_each) / per_member) // devices * devices
    while count > devices and peak_bytes(count) > limit:
        count -= devices
    return count


def spread(tree, count):
    """Shards a tree of `count` members along the first axis evenly over the devices.

    Leaves are arrays, or shapes for a program that is compiled but not run. Scalars are
    replicated. Returns the tree unchanged if the number of devices does not divide
    `count`.
    """
    devices = jax.devices()
    if len(devices) == 1 or count % len(devices):
        return tree
    mesh = jax.sharding.Mesh(np.array(devices), ('members',))

    def put(x):
        spec = jax.sharding.PartitionSpec(*['members'] * bool(np.ndim(x)))
        sharding = jax.sharding.NamedSharding(mesh, spec)
        if isinstance(x, jax.ShapeDtypeStruct):
            return x.update(sharding=sharding)
        return jax.device_put(x, sharding)

    return jax.tree.map(put, tree)
