"""Sharding of members over the available devices."""

import jax
import numpy as np

AXIS = 'members'  # mesh axis


def arrays(tree, count):
    """Shards a tree of `count` members along the first axis evenly over the devices.

    Scalars are replicated. Returns the tree unchanged if the number of devices does not
    divide `count`.
    """
    return _placed(tree, count, jax.device_put)


def shapes(tree, count):
    """Does the same for shapes, for a program that is compiled but not run."""

    def put(x, sharding):
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)

    return _placed(tree, count, put)


def _placed(tree, count, place):
    devices = jax.devices()
    if len(devices) == 1 or count % len(devices):
        return tree
    mesh = jax.sharding.Mesh(np.array(devices), (AXIS,))
    spec = jax.sharding.PartitionSpec

    def put(x):
        axes = spec(AXIS) if np.ndim(x) else spec()
        return place(x, jax.sharding.NamedSharding(mesh, axes))

    return jax.tree.map(put, tree)
