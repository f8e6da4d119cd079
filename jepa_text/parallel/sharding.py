"""Device meshes, and a table from parameter paths to PartitionSpecs.

The rows of a batch are sharded over `data` and `fsdp`, the positions of a row over
`context`. Parameters, their EMA copy and the optimizer's moments are sharded over `fsdp`
and `context` (ZeRO) and `tensor`. Models contain none of this.
"""

import dataclasses
import functools
import math
import re

import jax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from jepa_text.parallel import leaves
from jepa_text.settings import schema

AXES = ('data', 'fsdp', 'context', 'tensor')
# The axes over which the rows of a batch, their positions and the vocabulary of a head
# are sharded.
ROWS, CONTEXT, TENSOR = ('data', 'fsdp'), 'context', 'tensor'
# Of attention heads, as attention needs whole rows. In this order, a single exchange over
# `context` gives each device its heads.
HEADS = (TENSOR, CONTEXT)
# Explicit axes, the default, would make the sharding a part of every array's type.
_AUTO = (AxisType.Auto,) * len(AXES)
# Of parameters (ZeRO).
SLICES = ('fsdp', CONTEXT)

# (pattern of the path, of whole names; mesh axes of the last array axes). Scanned layers
# add an axis in front.
TABLE = (
    (r'^memory/', ()),
    (r'(^|/)age/', ()),
    (r'(^|/)(q|k|v|gate|up|enter|dense|output|classifier)/kernel$', (SLICES, 'tensor')),
    (r'(^|/)(o|down|leave)/kernel$', ('tensor', SLICES)),
    (r'(^|/)(position_|type_)?embedding$', ('tensor', SLICES)),
    (r'(^|/)(scale|query|bias)$', (None,)),
    (r'(^|/)(step|skipped|skipped_in_row|logit)$', ()),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The config section `mesh`."""

    data: int = schema.field(-1, 'data parallelism; -1: all remaining devices')
    fsdp: int = schema.field(1, 'fully sharded data parallelism (ZeRO)')
    tensor: int = schema.field(1, 'tensor parallelism')
    context: int = schema.field(1, 'context parallelism: shards the positions of a row')


def make_mesh(data=-1, fsdp=1, tensor=1, context=1, devices=None):
    """Returns a mesh of all devices. One axis may be -1, for all remaining devices.

    Raises ValueError if the product of the sizes is not the number of devices.
    """
    devices = devices or jax.devices()
    sizes = _sizes(len(devices), data, fsdp, context, tensor)
    return jax.make_mesh(sizes, AXES, axis_types=_AUTO, devices=devices)


def completed(mesh):
    """Returns a mesh with the devices of `mesh` and all AXES; those that it lacks have
    one device.

    Raises ValueError for axes with other names.
    """
    if not set(mesh.axis_names) <= set(AXES):
        raise ValueError(
            f'The mesh has the axes {", ".join(mesh.axis_names)}; expected some of '
            f"{', '.join(AXES)}, as in jax.make_mesh((2, 2), ('data', 'fsdp'))."
        )
    order = [mesh.axis_names.index(name) for name in AXES if name in mesh.axis_names]
    sizes = [mesh.shape.get(name, 1) for name in AXES]
    devices = mesh.devices.transpose(order).reshape(sizes)
    return jax.sharding.Mesh(devices, AXES, axis_types=_AUTO)


def abstract_mesh(count, data=-1, fsdp=1, tensor=1, context=1):
    """Returns a mesh of `count` devices that need not exist; sufficient for `shardings`.

    Raises ValueError as `make_mesh` does.
    """
    sizes = _sizes(count, data, fsdp, context, tensor)
    return AbstractMesh(sizes, AXES, axis_types=_AUTO)


def _sizes(count, *given):
    sizes = list(given)
    known = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and known and count % known == 0:
        sizes[sizes.index(-1)] = count // known
    if math.prod(sizes) != count or min(sizes) < 1:
        raise ValueError(
            f'mesh {", ".join(map("{}={}".format, AXES, given))} does not use exactly '
            f'the {count} available devices; set one axis to -1 for the remaining ones.'
        )
    return tuple(sizes)


def spec(path, shape, mesh):
    """Returns the PartitionSpec of the leaf at `path` ('params/encoder/embedding').

    An axis that is not divisible is replicated. Raises ValueError for a path that the
    table does not contain: a new layer must declare how it is sharded.
    """
    for pattern, axes in TABLE:
        if re.search(pattern, path):
            axes = (None,) * (len(shape) - len(axes)) + axes
            pairs = zip(axes, shape, strict=True)
            return PartitionSpec(*(_dividing(axis, size, mesh) for axis, size in pairs))
    raise ValueError(
        f'sharding.TABLE has no entry for {path!r} of shape {shape}; add one with the '
        'mesh axis of each of its last axes, or give the layer a name that has one, such '
        'as dense.'
    )


def _dividing(axis, size, mesh):
    """Returns the part of `axis` (a name, SLICES or None) that divides a size.

    That is all of it, its first name, or None.
    """
    names = as_tuple(axis)
    if mesh.shape.get(CONTEXT, 1) == 1:
        names = names[:1]
    for some in (names, names[:1]):
        if some and size % math.prod(mesh.shape[name] for name in some) == 0:
            return some if len(some) > 1 else some[0]
    return None


def as_tuple(names):
    """Returns the axis names of an entry of a PartitionSpec as a tuple."""
    return () if names is None else (names,) if isinstance(names, str) else names


def shardings(tree, mesh):
    """Returns a NamedSharding for every leaf of a tree of arrays or ShapeDtypeStructs."""
    return leaves.mapped(
        lambda name, leaf: NamedSharding(mesh, spec(name, leaf.shape, mesh)), tree
    )


def sharded(shapes, mesh):
    """Returns a tree of ShapeDtypeStructs with the sharding of each leaf added."""
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=sharding
        ),
        shapes,
        shardings(shapes, mesh),
    )


def batch_sharding(mesh):
    """Returns the sharding of a batch: rows over data and fsdp, all else replicated."""
    return NamedSharding(mesh, PartitionSpec(ROWS))


def replicated(mesh):
    """Returns the sharding with a full copy on every device."""
    return NamedSharding(mesh, PartitionSpec())


def ways(mesh):
    """Returns the number of parts that the rows of a batch are sharded into."""
    return math.prod(mesh.shape[axis] for axis in ROWS)


@functools.lru_cache(maxsize=16)
def part_of_batch(mesh):
    """Returns (index, count): this process reads part `index` of `count` equal parts.

    Processes whose devices have the same rows, as when `tensor` spans machines, read the
    same part. Raises ValueError for a mesh whose processes share only some of their rows.
    """
    rows_of, shape = {}, (ways(mesh),)
    for device, (rows,) in batch_sharding(mesh).devices_indices_map(shape).items():
        rows_of.setdefault(device.process_index, set()).add(rows.start or 0)
    return parts_of_batch(rows_of)[jax.process_index()]


def parts_of_batch(rows_of):
    """Returns {process: (index, count)} from {process: set of the rows it has}."""
    parts = sorted({tuple(sorted(rows)) for rows in rows_of.values()})
    overlap = sum(map(len, parts)) != len(set().union(*parts))
    if overlap or len({len(part) for part in parts}) > 1:
        raise ValueError(
            f'This mesh assigns the rows {rows_of} to the processes: some processes '
            'share only a part of their rows. Choose `tensor` so that it divides the '
            'number of devices of a process, or is a multiple of it.'
        )
    return {
        process: (parts.index(tuple(sorted(rows))), len(parts))
        for process, rows in rows_of.items()
    }


def with_mesh(mesh, function):
    """Wraps `function` so that it runs with the mesh set, which kernels need."""

    @functools.wraps(function)
    def called(*inputs):
        with jax.set_mesh(mesh):
            return function(*inputs)

    return called


def synchronous_on_cpu(mesh, function):
    """Wraps `function` so that on CPUs a call waits until its inputs are computed.

    Otherwise steps would be dispatched ahead of each other, each with memory of its own.
    On accelerators `function` is returned unchanged.
    """
    if mesh.devices.flat[0].platform != 'cpu':
        return function
    return lambda *inputs: function(*jax.block_until_ready(inputs))


def on_rows(function, params):
    """Wraps a function of params and arrays [B, ...] so that B is sharded like a batch.

    Returns (wrapped function, number of devices that B is sharded over). If the params
    are not on a mesh, these are the function itself and 1.
    """
    sharding = getattr(jax.tree.leaves(params)[0], 'sharding', None)
    if not isinstance(sharding, jax.NamedSharding) or sharding.mesh.size == 1:
        return function, 1
    mesh = sharding.mesh

    def called(params, *batch):
        return function(params, *jax.device_put(batch, batch_sharding(mesh)))

    return with_mesh(mesh, called), ways(mesh)


def put_batch(batch, mesh):
    """Returns {key: global array} from this process's part of the rows of a batch."""
    sharding = batch_sharding(mesh)
    count = part_of_batch(mesh)[1]
    return {
        key: jax.make_array_from_process_local_data(
            sharding, rows, (count * len(rows), *rows.shape[1:])
        )
        for key, rows in batch.items()
    }
