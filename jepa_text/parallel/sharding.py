"""Where arrays live: a mesh, and one table from path and shape to PartitionSpec.

The rows of a batch are split over `data` and `fsdp`, the positions of a row over
`context`; parameters, their EMA copy and the optimizer's moments over `fsdp` and
`context` (ZeRO) and `tensor`. Models contain none of this.
"""

import dataclasses
import functools
import math
import re

import jax
from jax.experimental import mesh_utils
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from jepa_text.config import schema

AXES = ('data', 'fsdp', 'context', 'tensor')
# Over which of them the rows of a batch, their positions, and the vocabulary of a head
# are split; the heads of attention, which reads whole rows; and what SLICES stands for.
ROWS, CONTEXT, TENSOR = ('data', 'fsdp'), 'context', 'tensor'
# The order in which one exchange over `context` gives each device heads of its own.
HEADS = (TENSOR, CONTEXT)
SLICES = ('fsdp', CONTEXT)

# The last axes of a leaf whose path matches; a scanned stack adds an axis in front.
TABLE = (
    (r'^memory/', ()),
    (r'(^|/)age/', ()),
    (r'(q|k|v|gate|up|enter|dense)/kernel$', (SLICES, 'tensor')),
    (r'(o|down|leave)/kernel$', ('tensor', SLICES)),
    (r'output/kernel$', (SLICES, 'tensor')),
    (r'embedding$', ('tensor', SLICES)),
    (r'(scale|query|bias)$', (None,)),
    (r'(^|/)(step|skipped|skipped_in_row|logit)$', ()),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The section `mesh`."""

    data: int = schema.field(-1, 'ways to split the batch; -1: all other devices')
    fsdp: int = schema.field(1, 'ways to split batch and parameters')
    tensor: int = schema.field(1, 'ways to split each layer')
    context: int = schema.field(1, 'ways to split the positions of a row')
    dcn_data: int = schema.field(
        1, 'machines or slices among which `data` is split first', minimum=1
    )


def make_mesh(
    data=Config.data,
    fsdp=Config.fsdp,
    tensor=Config.tensor,
    context=Config.context,
    dcn_data=Config.dcn_data,
    devices=None,
):
    """A mesh of all devices; one axis may be -1, which stands for the rest.

    `dcn_data` is the number of slices or machines over which `data` is split first, where
    a slow network joins them and a fast one the devices in each. Raises ValueError when
    the sizes do not multiply to the number of devices.
    """
    devices = devices or jax.devices()
    sizes = _sizes(len(devices), data, fsdp, context, tensor)
    # Explicit axes, the default, would make sharding part of every type.
    auto = (AxisType.Auto,) * len(AXES)
    if dcn_data == 1:
        return jax.make_mesh(sizes, AXES, axis_types=auto, devices=devices)
    return Mesh(_over_slices(sizes, dcn_data, devices), AXES, axis_types=auto)


def abstract_mesh(count, data=-1, fsdp=1, tensor=1, context=1, dcn_data=1):
    """The mesh of `count` devices that are not here: enough for `shardings`.

    Raises ValueError as `make_mesh` does.
    """
    sizes = _sizes(count, data, fsdp, context, tensor)
    return AbstractMesh(sizes, AXES, axis_types=(AxisType.Auto,) * len(AXES))


def _sizes(count, *given):
    sizes = list(given)
    known = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and known and count % known == 0:
        sizes[sizes.index(-1)] = count // known
    if math.prod(sizes) != count or min(sizes) < 1:
        raise ValueError(
            f'mesh {", ".join(map("{}={}".format, AXES, given))} does not use exactly '
            f'the {count} devices there are; set one axis to -1 for "the rest".'
        )
    return tuple(sizes)


def _over_slices(sizes, dcn_data, devices):
    """The devices of a mesh whose `data` axis goes over slices first, then within."""
    # TPUs know their slice; of other devices those of one process are near each other.
    slices = {getattr(device, 'slice_index', None) for device in devices}
    by_process = len(slices) == 1
    found = len({device.process_index for device in devices} if by_process else slices)
    if found != dcn_data or sizes[0] % dcn_data:
        what = 'processes' if by_process else 'slices'
        raise ValueError(
            f'mesh dcn_data={dcn_data} must be the number of {what} here, {found}, and '
            f'divide data={sizes[0]}.'
        )
    return mesh_utils.create_hybrid_device_mesh(
        (sizes[0] // dcn_data, *sizes[1:]),
        (dcn_data, *(1 for _ in sizes[1:])),
        devices,
        process_is_granule=by_process,
    )


def spec(path, shape, mesh):
    """The PartitionSpec of the leaf `path` ('params/encoder/embedding').

    An axis that does not divide stays whole. Raises ValueError for a path that the
    table does not know: a new layer must say how it is split.
    """
    for pattern, axes in TABLE:
        if re.search(pattern, path):
            axes = (None,) * (len(shape) - len(axes)) + axes
            pairs = zip(axes, shape, strict=True)
            return PartitionSpec(*(_dividing(axis, size, mesh) for axis, size in pairs))
    raise ValueError(
        f'sharding.TABLE has no line for {path!r} of shape {shape}; add one that names '
        'the mesh axis of each of its last axes.'
    )


def _dividing(axis, size, mesh):
    """What of `axis` (a name, SLICES or None) divides a size: all, its first, or None."""
    names = several(axis)
    if mesh.shape.get(CONTEXT, 1) == 1:
        names = names[:1]
    for some in (names, names[:1]):
        if some and size % math.prod(mesh.shape[name] for name in some) == 0:
            return some if len(some) > 1 else some[0]
    return None


def several(names):
    """The names of one axis, of several, or of none (None), as a tuple."""
    return () if names is None else (names,) if isinstance(names, str) else names


def shardings(tree, mesh, offload=''):
    """A NamedSharding for every leaf of a tree of arrays or ShapeDtypeStructs.

    Leaves under the name `offload`, such as 'opt_state', lie in the memory of the host.
    """

    def place(path, leaf):
        name = jax.tree_util.keystr(path, simple=True, separator='/')
        kind = 'pinned_host' if offload and name.startswith(f'{offload}/') else None
        return NamedSharding(mesh, spec(name, leaf.shape, mesh), memory_kind=kind)

    return jax.tree_util.tree_map_with_path(place, tree)


def placed(shapes, mesh, offload=''):
    """The ShapeDtypeStructs of a tree with the sharding of each."""
    return jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place),
        shapes,
        shardings(shapes, mesh, offload),
    )


def batch_sharding(mesh):
    """Rows are split over data and fsdp; every other axis is whole."""
    return NamedSharding(mesh, PartitionSpec(ROWS))


def replicated(mesh):
    """One whole copy on every device."""
    return NamedSharding(mesh, PartitionSpec())


@functools.lru_cache(maxsize=16)
def part_of_batch(mesh):
    """(index, count): this process reads the index-th of count equal parts of a batch.

    Processes whose devices hold the same rows, as when `tensor` spans machines, read the
    same part. Raises ValueError for a mesh whose processes share some rows only.
    """
    held, ways = {}, mesh.shape['data'] * mesh.shape['fsdp']
    for device, (rows,) in batch_sharding(mesh).devices_indices_map((ways,)).items():
        held.setdefault(device.process_index, set()).add(rows.start or 0)
    return parts_of_batch(held)[jax.process_index()]


def parts_of_batch(held):
    """{process: (index, count)} from {process: the set of rows on its devices}."""
    parts = sorted({tuple(sorted(rows)) for rows in held.values()})
    shared = sum(map(len, parts)) != len(set().union(*parts))
    if shared or len({len(part) for part in parts}) > 1:
        raise ValueError(
            f'this mesh gives the processes the rows {held}: some share only a part of '
            'them. Let tensor divide the devices of a process, or be a multiple of them.'
        )
    return {
        process: (parts.index(tuple(sorted(rows))), len(parts))
        for process, rows in held.items()
    }


def within(mesh, function):
    """`function`, called with the mesh set: by it kernels know how arrays are split."""

    @functools.wraps(function)
    def called(*inputs):
        with jax.set_mesh(mesh):
            return function(*inputs)

    return called


def one_by_one(mesh, function):
    """`function`; on CPUs a call begins when its inputs are there, so that a step waits
    for the one before it: each that is begun ahead would hold memory of its own.
    Accelerators need not wait for the host."""
    if mesh.devices.flat[0].platform != 'cpu':
        return function
    return lambda *inputs: function(*jax.block_until_ready(inputs))


def on_rows(function, params):
    """(`function` of params and arrays [B, ...], over how many devices it splits B).

    Of parameters that lie on a mesh, the rows are split as `batch_sharding` says; of
    others nothing is.
    """
    held = getattr(jax.tree.leaves(params)[0], 'sharding', None)
    if not isinstance(held, jax.NamedSharding) or held.mesh.size == 1:
        return function, 1
    mesh = held.mesh
    held = batch_sharding(mesh)

    def called(params, *batch):
        return function(params, *jax.device_put(batch, held))

    return within(mesh, called), mesh.shape['data'] * mesh.shape['fsdp']


def put_batch(batch, mesh):
    """This process's part of the rows as one global array per key."""
    sharding = batch_sharding(mesh)
    count = part_of_batch(mesh)[1]
    return {
        key: jax.make_array_from_process_local_data(
            sharding, rows, (count * len(rows), *rows.shape[1:])
        )
        for key, rows in batch.items()
    }
