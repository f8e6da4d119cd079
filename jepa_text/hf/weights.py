"""Tensors of files <-> our parameters: rows, layers and transposes.

    encoder/layers/attention/q/kernel [N, D, HK]  <->  N of
    model.layers.{i}.self_attn.q_proj.weight [HK, D]

Parameters are read onto the mesh one device's shard at a time: the host's memory never
contains more than one shard of one parameter, so a model can be larger than the host's
memory if the devices together can hold it.
"""

import math
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding
from safetensors.numpy import save_file

from jepa_text.hf import files
from jepa_text.parallel import sharding

MAX_LISTED = 12  # names listed per kind of mismatch
MAXIMUM = 5 * 10**9  # bytes per file
# Their leaf for each of ours, and for a parameter that is a row of the table itself.
LEAVES = {'/kernel': '.weight', '/scale': '.weight', '/bias': '.bias', '': '.weight'}


class Part(NamedTuple):
    """Rows `start:stop` of a tensor: layer `layer` of the parameter `path`, or all of it
    if None."""

    path: str
    layer: int | None
    start: int
    stop: int

    @property
    def transposed(self):
        return self.path.endswith('kernel')


def bindings(family, shapes, prefix=None):
    """{tensor name: its Parts, in the order of its rows}, for a model of ours.

    `shapes` is {path: shape} of its parameters, with layers scanned or unrolled. `prefix`
    replaces that of the family. Raises ValueError for parameters that have no name in the
    families.Family.
    """
    prefix = family.prefix if prefix is None else prefix
    bound = {}
    for ours, theirs in family.names.items():
        name = prefix + theirs if ours.startswith('encoder/') else theirs
        for leaf, their_leaf in LEAVES.items():
            for path, layer, number in _layers(ours + leaf, shapes):
                # Their rows are the last axis of a kernel, the only axis of a vector, and
                # the first axis of an embedding.
                rows = shapes[path][0 if path.endswith('embedding') else -1]
                parts = bound.setdefault(name.format(i=number) + their_leaf, [])
                start = parts[-1].stop if parts else 0
                parts.append(Part(path, layer, start, start + rows))
    named = {part.path for parts in bound.values() for part in parts}
    if nameless := sorted(set(shapes) - named):
        raise ValueError(
            f'This family has no names for {", ".join(nameless)}: a model with these '
            'belongs to another family, or its row in hf/families.py lacks names.'
        )
    return bound


def _layers(path, shapes):
    """Yields (path, index in its stack or None, number of the layer) if they exist."""
    if '/layers/' not in path:
        if path in shapes:
            yield path, None, 0
        return
    first = path.replace('/layers/', '/first/')
    if first in shapes:
        yield first, None, 0
    # Not of all parameters: the first layer of ModernBERT lacks a norm.
    offset = int(any('/first/' in other for other in shapes))
    if path in shapes:
        for layer in range(shapes[path][0]):
            yield path, layer, layer + offset
    layer = 0
    while (unrolled := path.replace('/layers/', f'/layer_{layer}/')) in shapes:
        yield unrolled, None, layer + offset
        layer += 1


def canonical(family, names):
    """{name in the family's table: name in the file} for the names in a file.

    Older names are updated, and the prefix is added if all names in the file lack it.
    """
    # Older names last: they take precedence if a file has both.
    pairs = []
    for name in sorted(names):
        new = name
        for older, replacement in family.older:
            new = new.replace(older, replacement)
        pairs.append((new, name))
    pairs.sort(key=lambda pair: pair[0] != pair[1])
    is_bare = not any(new.startswith(family.prefix) for new, _ in pairs)
    return {
        family.prefix + new if is_bare and not family.is_of_head(new) else new: name
        for new, name in pairs
    }


def shape_of(parts, shapes):
    """The shape of the tensor with these Parts."""
    path = parts[0].path
    inner = shapes[path] if parts[0].layer is None else shapes[path][1:]
    if parts[0].transposed:
        return (parts[-1].stop, inner[0])
    return (parts[-1].stop, *inner[1:])


def check(bound, shapes, sizes, left_out):
    """Raises one ValueError that lists all missing and unexpected tensors, and those with
    another shape than the model's.

    `sizes` is {name: shape} in the file, `left_out` the names that may be ignored.
    """
    wanted = {name: shape_of(parts, shapes) for name, parts in bound.items()}
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


def place(shapes, bound, read, mesh=None):
    """{path: float32 array} of the parameters in `bound`.

    `shapes` is {path: shape}, `bound` the result of `bindings`, and `read(name, *slices)`
    returns a part of a tensor. Without a mesh, all arrays are placed on the first device.
    """
    sources = {}
    for name, parts in bound.items():
        for part in parts:
            sources.setdefault(part.path, {})[part.layer] = (name, part)
    return {
        path: jax.make_array_from_callback(
            shapes[path],
            sharding_of(path, shapes[path], mesh),
            _reader(shapes[path], by_layer, read),
        )
        for path, by_layer in sources.items()
    }


def sharding_of(path, shape, mesh):
    """Where a parameter is placed: on the mesh, or without one on the first device."""
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


def join(parts, leaves):
    """The tensor with these Parts, from our parameters {path: array}."""
    rows = []
    for part in parts:
        leaf = np.asarray(leaves[part.path])
        leaf = leaf if part.layer is None else leaf[part.layer]
        rows.append(leaf.T if part.transposed else leaf)
    # safetensors writes the buffer as it is, so it must be contiguous in C order.
    return np.ascontiguousarray(np.concatenate(rows))


def write(leaves, own, family, folder, maximum, prefix=None, dtype='float32'):
    """Writes model.safetensors, or shards of at most `maximum` bytes and their index.

    `leaves` are our parameters {path: array}, `own` further tensors {name: array}.
    `prefix` replaces that of the Family's names, `dtype` is that of the tensors.
    """
    own = {name: x.astype(dtype) for name, x in own.items()}
    shapes = {path: leaf.shape for path, leaf in leaves.items()}
    bound = bindings(family, shapes, prefix)
    if {'lm_head/output/kernel', 'lm_head/bias'} <= set(leaves):
        # Files with an untied head have the bias twice, in BERT under two names.
        copy = family.output.replace('.weight', '.bias')
        bound[copy] = bound[f'{family.names["lm_head"]}.bias']
    bytes_each = np.dtype(dtype).itemsize
    sizes = {n: bytes_each * math.prod(shape_of(p, shapes)) for n, p in bound.items()}
    sizes |= {name: x.nbytes for name, x in own.items()}
    groups = _groups(sizes, maximum)
    weight_map = {}
    for number, group in enumerate(groups, 1):
        part = f'-{number:05d}-of-{len(groups):05d}' if len(groups) > 1 else ''
        tensors = {
            name: own[name] if name in own else join(bound[name], leaves).astype(dtype)
            for name in group
        }
        path = folder / f'model{part}.safetensors'
        save_file(tensors, path, metadata={'format': 'pt'})
        # safetensors creates files readable by their owner only; models are shared.
        path.chmod((folder / 'config.json').stat().st_mode)
        weight_map |= dict.fromkeys(group, path.name)
    if len(groups) > 1:
        index = {
            'metadata': {'total_size': sum(sizes.values())},
            'weight_map': weight_map,
        }
        files.write_json(folder / files.INDEX, index)


def _groups(sizes, maximum):
    """Groups names by at most `maximum` bytes, or one larger tensor, per group."""
    groups, used = [[]], 0
    for name, size in sizes.items():
        if groups[-1] and used + size > maximum:
            groups.append([])
            used = 0
        groups[-1].append(name)
        used += size
    return groups
