"""Members over the devices that are here."""

import jax
import numpy as np

AXIS = 'members'  # of the mesh


def arrays(tree, count):
    """A tree of `count` members along the first axis, each device with as many as the
    others; scalars on all. As it is where the members do not divide."""
    return _placed(tree, count, jax.device_put)


def shapes(tree, count):
    """The same of shapes, for a program that is compiled and not run."""

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
