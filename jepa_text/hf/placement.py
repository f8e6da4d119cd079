"""Tensors of a file -> parameters on the mesh, each device's part read straight there.

Never more than one device's part of one parameter is in the host's memory, so a model
larger than that memory can be read onto devices that hold it together.
"""

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from jepa_text.hf import layout
from jepa_text.parallel import sharding

MAX_LISTED = 12  # names listed of each kind of trouble


def place(shapes, bound, read, mesh=None):
    """{path: array}, float32, of the parameters that `bound` names.

    `shapes` is {path: shape}, `bound` what layout.bindings gave, `read(name, *slices)` a
    part of one of their tensors. Without a mesh all lies on the first device.
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
    """A function from the index of a part of the parameter to its values."""

    def one(name, part, index):
        first, *rest = (index[1], index[0]) if part.transposed else index
        first = slice(part.start + first.start, part.start + first.stop)
        values = read(name, first, *rest)
        return values.T if part.transposed else values

    def values(index):
        index = [slice(*s.indices(size)[:2]) for s, size in zip(index, shape)]
        if None in by_layer:
            return np.ascontiguousarray(one(*by_layer[None], index))
        layers, *inner = index
        found = np.empty([s.stop - s.start for s in index], np.float32)
        for row, layer in enumerate(range(layers.start, layers.stop)):
            found[row] = one(*by_layer[layer], inner)
        return found

    return values


def check(bound, shapes, sizes, left_out):
    """Raises one ValueError that lists all tensors that are missing, too many, or of
    another shape than the model's.

    `sizes` is {name: shape} of the file; `left_out` the names that nobody needs.
    """
    wanted = {name: layout.shape_of(parts, shapes) for name, parts in bound.items()}
    other = [
        f'{name} {sizes[name]} instead of {shape}'
        for name, shape in wanted.items()
        if name in sizes and sizes[name] != shape
    ]
    troubles = {
        'missing': sorted(set(wanted) - set(sizes)),
        'not in the model': sorted(set(sizes) - set(wanted) - set(left_out)),
        'of another shape': other,
    }
    found = [f'{what}: {_listed(names)}' for what, names in troubles.items() if names]
    if found:
        raise ValueError(
            f'The tensors do not fit the config. {"; ".join(found)}. Give the config '
            'that belongs to these weights, or name their family.'
        )


def _listed(names):
    more = f' and {len(names) - MAX_LISTED} more' if len(names) > MAX_LISTED else ''
    return ', '.join(names[:MAX_LISTED]) + more
