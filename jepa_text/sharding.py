"""Where arrays live: a mesh, and one table from path and shape to PartitionSpec.

The batch is split over `data` and `fsdp`; parameters, their EMA copy and the
optimizer's moments over `fsdp` (ZeRO) and `tensor`. Models contain none of this.
"""

import math
import re

import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

AXES = ('data', 'fsdp', 'tensor')
# Over which of them the rows of a batch, and the words of a head, are split.
ROWS, WORDS = ('data', 'fsdp'), 'tensor'

# The last axes of a leaf whose path matches; a scanned stack adds an axis in front.
TABLE = (
    (r'^memory/', ()),
    (r'(q|k|v|gate|up|enter)/kernel$', ('fsdp', 'tensor')),
    (r'(o|down|leave)/kernel$', ('tensor', 'fsdp')),
    (r'output/kernel$', ('fsdp', 'tensor')),
    (r'embedding$', ('tensor', 'fsdp')),
    (r'(scale|query)$', (None,)),
    (r'(^|/)(step|skipped|skipped_in_row|count|logit)$', ()),
)


def make_mesh(data=-1, fsdp=1, tensor=1, devices=None):
    """A mesh of all devices; one axis may be -1, which stands for the rest.

    Raises ValueError when the sizes do not multiply to the number of devices.
    """
    devices = devices or jax.devices()
    sizes = [data, fsdp, tensor]
    known = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and known and len(devices) % known == 0:
        sizes[sizes.index(-1)] = len(devices) // known
    if math.prod(sizes) != len(devices) or min(sizes) < 1:
        raise ValueError(
            f'mesh data={data}, fsdp={fsdp}, tensor={tensor} does not use exactly the '
            f'{len(devices)} devices here; set one axis to -1 for "the rest".'
        )
    # Explicit axes, the default, would make sharding part of every type.
    auto = (AxisType.Auto,) * len(AXES)
    return jax.make_mesh(sizes, AXES, axis_types=auto, devices=devices)


def spec(path, shape, mesh):
    """The PartitionSpec of the leaf `path` ('params/encoder/embedding').

    An axis that does not divide stays whole. Raises ValueError for a path that the
    table does not know: a new layer must say how it is split.
    """
    for pattern, axes in TABLE:
        if re.search(pattern, path):
            axes = (None,) * (len(shape) - len(axes)) + axes
            return PartitionSpec(
                *(
                    axis if axis and size % mesh.shape[axis] == 0 else None
                    for axis, size in zip(axes, shape, strict=True)
                )
            )
    raise ValueError(
        f'sharding.TABLE has no line for {path!r} of shape {shape}; add one that names '
        'the mesh axis of each of its last axes.'
    )


def shardings(tree, mesh):
    """A NamedSharding for every leaf of a tree of arrays or ShapeDtypeStructs."""

    def place(path, leaf):
        name = jax.tree_util.keystr(path, simple=True, separator='/')
        return NamedSharding(mesh, spec(name, leaf.shape, mesh))

    return jax.tree_util.tree_map_with_path(place, tree)


def batch_sharding(mesh):
    """Rows are split over data and fsdp; every other axis is whole."""
    return NamedSharding(mesh, PartitionSpec(ROWS))


def replicated(mesh):
    """One whole copy on every device."""
    return NamedSharding(mesh, PartitionSpec())


def put_batch(batch, mesh):
    """This process's rows as one global array per key."""
    sharding = batch_sharding(mesh)
    return {
        key: jax.make_array_from_process_local_data(sharding, rows)
        for key, rows in batch.items()
    }
