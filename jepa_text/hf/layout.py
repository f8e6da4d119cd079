"""A name table and a model's shapes -> which rows of which tensor are which parameter."""

import dataclasses
import re

import numpy as np


@dataclasses.dataclass(frozen=True)
class Part:
    """Rows `start:stop` of one of their tensors: parameter `path`, in layer `layer` of
    its stack, or whole if that is None."""

    path: str
    layer: int | None
    start: int
    stop: int

    @property
    def transposed(self):
        return self.path.endswith('kernel')


def bindings(family, shapes):
    """{their tensor: its Parts, in the order of its rows}, for a model of ours.

    `shapes` is {path: shape} of its parameters, the layers scanned or unrolled. Raises
    ValueError for parameters that the family has no name for.
    """
    found = {}
    for ours, theirs in family.lines:
        for layer, paths in _layers(_split(ours), '{i}' in theirs, shapes):
            name = theirs.format(i=(layer or 0) + family.offset)
            found[name] = tuple(_parts(paths, shapes))
    named = {part.path for parts in found.values() for part in parts}
    nameless = sorted(set(shapes) - named)
    if nameless:
        raise ValueError(
            f'This family has no names for {", ".join(nameless)}: a model with these '
            'belongs to another family, or its table in hf/names.py lacks lines.'
        )
    return found


def _split(ours):
    """['a/q/kernel', 'a/k/kernel'] of 'a/q+k/kernel'."""
    before, joined, after = re.fullmatch(r'(.*?)([^/]*\+[^/]*)?(/\w+)?', ours).groups()
    if joined is None:
        return [ours]
    return [f'{before}{one}{after}' for one in joined.split('+')]


def _layers(paths, is_layered, shapes):
    """(number of the layer or None, [(path, place in its stack or None)]) wherever the
    parameters exist."""
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
        # Their rows are the last axis of a kernel and the only one of a vector; those
        # of an embedding are its first.
        axis = 0 if path.endswith('embedding') else -1
        stop = start + shapes[path][axis]
        yield Part(path, layer, start, stop)
        start = stop


def shape_of(parts, shapes):
    """The shape of their tensor with these Parts."""
    path = parts[0].path
    inner = shapes[path] if parts[0].layer is None else shapes[path][1:]
    if parts[0].transposed:
        return (parts[-1].stop, inner[0])
    return (parts[-1].stop, *inner[1:])


def joined(parts, leaves):
    """Their tensor of these Parts, out of our parameters {path: array}."""
    rows = [
        leaves[part.path] if part.layer is None else leaves[part.path][part.layer]
        for part in parts
    ]
    rows = [x.T if part.transposed else x for part, x in zip(parts, rows, strict=True)]
    # In the order of C, in which safetensors writes whatever it is given.
    return np.ascontiguousarray(np.concatenate(rows) if len(rows) > 1 else rows[0])


def canonical(family, names):
    """{the table's spelling: the file's} of the names of a file.

    Older spellings are made new, and the prefix is added where the whole file lacks it.
    """
    known = {theirs for _, theirs in family.lines}
    bare = not any(name.startswith(family.prefix) for name in names)
    found = {}
    # Spellings of the past last: they are the ones that count if a file has both.
    spelt = [(_newer(family, name), name) for name in sorted(names)]
    for new, name in sorted(spelt, key=lambda pair: pair[0] != pair[1]):
        lacks = bare and re.sub(r'\.\d+\.', '.{i}.', new) not in known
        found[family.prefix + new if lacks else new] = name
    return found


def _newer(family, name):
    for pattern, replacement in family.older:
        name = re.sub(pattern, replacement, name)
    return name
