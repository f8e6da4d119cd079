"""Mapping between tensors in a file and parameters: rows, layers and transposes."""

import dataclasses
import re

import numpy as np


@dataclasses.dataclass(frozen=True)
class Binding:
    """Rows `start:stop` of a tensor in a file.

    They are the parameter `path`: layer `layer` of its stack, or all of it if None.
    """

    path: str
    layer: int | None
    start: int
    stop: int

    @property
    def transposed(self):
        return self.path.endswith('kernel')


def bindings(family, shapes):
    """{tensor name: its Bindings, in the order of its rows}, for a model of ours.

    `shapes` is {path: shape} of its parameters, with layers scanned or unrolled. Raises
    ValueError for parameters that have no name in the family.
    """
    layout = {}
    for ours, theirs in family.lines:
        for layer, paths in _layers(_split(ours), '{i}' in theirs, shapes):
            name = theirs.format(i=(layer or 0) + family.offset)
            layout[name] = tuple(_parts(paths, shapes))
    named = {part.path for parts in layout.values() for part in parts}
    nameless = sorted(set(shapes) - named)
    if nameless:
        raise ValueError(
            f'This family has no names for {", ".join(nameless)}: a model with these '
            'belongs to another family, or its table in hf/names.py lacks lines.'
        )
    return layout


def _split(ours):
    """Splits 'a/q+k/kernel' into ['a/q/kernel', 'a/k/kernel']."""
    before, joined, after = re.fullmatch(r'(.*?)([^/]*\+[^/]*)?(/\w+)?', ours).groups()
    if joined is None:
        return [ours]
    return [f'{before}{one}{after}' for one in joined.split('+')]


def _layers(paths, is_layered, shapes):
    """Yields (layer or None, [(path, index in its stack or None)]) if they exist."""
    if not is_layered:
        if paths[0] in shapes:
            yield None, [(path, None) for path in paths]
        return
    if paths[0] in shapes:
        for layer in range(shapes[paths[0]][0]):
            yield layer, [(path, layer) for path in paths]
    layer = 0
    while _unrolled(paths[0], layer) in shapes:
        yield layer, [(_unrolled(path, layer), None) for path in paths]
        layer += 1


def _unrolled(path, layer):
    return path.replace('/layers/', f'/layer_{layer}/')


def _parts(paths, shapes):
    start = 0
    for path, layer in paths:
        # Their rows are the last axis of a kernel, the only axis of a vector, and the
        # first axis of an embedding.
        axis = 0 if path.endswith('embedding') else -1
        stop = start + shapes[path][axis]
        yield Binding(path, layer, start, stop)
        start = stop


def shape_of(parts, shapes):
    """The shape of the tensor with these Bindings."""
    path = parts[0].path
    inner = shapes[path] if parts[0].layer is None else shapes[path][1:]
    if parts[0].transposed:
        return (parts[-1].stop, inner[0])
    return (parts[-1].stop, *inner[1:])


def join(parts, leaves):
    """The tensor with these Bindings, from our parameters {path: array}."""
    rows = [
        leaves[part.path] if part.layer is None else leaves[part.path][part.layer]
        for part in parts
    ]
    rows = [x.T if part.transposed else x for part, x in zip(parts, rows, strict=True)]
    # safetensors writes the buffer as it is, so it must be contiguous in C order.
    return np.ascontiguousarray(np.concatenate(rows) if len(rows) > 1 else rows[0])


def canonical(family, names):
    """{name in the table: name in the file} for the names in a file.

    Legacy names are updated, and the prefix is added if all names in the file lack it.
    """
    known = {theirs for _, theirs in family.lines}
    # Legacy names last: they take precedence if a file has both.
    pairs = [(_updated(family, name), name) for name in sorted(names)]
    bare = not any(new.startswith(family.prefix) for new, _ in pairs)
    renamed = {}
    for new, name in sorted(pairs, key=lambda pair: pair[0] != pair[1]):
        lacks = bare and re.sub(r'\.\d+\.', '.{i}.', new) not in known
        renamed[family.prefix + new if lacks else new] = name
    return renamed


def _updated(family, name):
    for pattern, replacement in family.legacy:
        name = re.sub(pattern, replacement, name)
    return name
