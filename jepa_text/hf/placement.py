"""Reads tensors from files directly onto the mesh, one device's shard at a time.

The host's memory never contains more than one device's shard of one parameter, so a model
can be larger than the host's memory if the devices together can hold it.
"""

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from jepa_text.hf import layout
from jepa_text.parallel import sharding

MAX_LISTED = 12  # names listed per kind of mismatch


def place(shapes, bound, read, mesh=None):
    """{path: float32 array} of the parameters in `bound`.

    `shapes` is {path: shape}, `bound` the result of layout.bindings, and
    `read(name, *slices)` returns a part of a tensor. Without a mesh, all arrays are
    placed on the first device.
    """
    sources = {}
    for name, parts in bound.items():
        for part in parts:
            sources.setdefault(part.path, {})[part.layer] = (name, part)
    return {
        path: jax.make_array_from_callback(
            shapes[path],
            _sharding(path, shapes[path], mesh),
            _reader(shapes[path], by_layer, read),
        )
        for path, by_layer in sources.items()
    }


def _sharding(path, shape, mesh):
    if mesh is None:
        return SingleDeviceSharding(jax.devices()[0])
    return jax.NamedSharding(mesh, sharding.spec(f'params/{path}', shape, mesh))


def _reader(shape, by_layer, read):
    """A function from an index into the parameter to the values there."""

    def read_part(name, part, index):
        first, *rest = (index[1], index[0]) if part.transposed else index
        first = slice(part.start + first.start, part.start + first.stop)
        values = read(name, first, *rest)
        return values.T if part.transposed else values

    def values(index):
        index = [slice(*s.indices(size)[:2]) for s, size in zip(index, shape)]
        if None in by_layer:
            return np.ascontiguousarray(read_part(*by_layer[None], index))
        layers, *inner = index
        stacked = np.empty([s.stop - s.start for s in index], np.float32)
        for row, layer in enumerate(range(layers.start, layers.stop)):
            stacked[row] = read_part(*by_layer[layer], inner)
        return stacked

    return values


def check(bound, shapes, sizes, left_out):
    """Raises one ValueError that lists all missing and unexpected tensors, and those with
    another shape than the model's.

    `sizes` is {name: shape} in the file, `left_out` the names that may be ignored.
    """
    wanted = {name: layout.shape_of(parts, shapes) for name, parts in bound.items()}
    other = [
        f'{name} {sizes[name]} instead of {shape}'
        for name, shape in wanted.items()
        if name in sizes and sizes[name] != shape
    ]
    mismatches = {
        'missing': sorted(set(wanted) - set(sizes)),
        'not in the model': sorted(set(sizes) - set(wanted) - set(left_out)),
        'of another shape': other,
    }
    faults = [f'{kind}: {_listed(names)}' for kind, names in mismatches.items() if names]
    if faults:
        raise ValueError(
            f'The tensors do not fit the config. {"; ".join(faults)}. Use the config '
            'that belongs to these weights, or specify their family.'
        )


def _listed(names):
    more = f' and {len(names) - MAX_LISTED} more' if len(names) > MAX_LISTED else ''
    return ', '.join(names[:MAX_LISTED]) + more
