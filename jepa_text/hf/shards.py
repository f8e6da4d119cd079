"""Writes model.safetensors, or numbered shards and their index."""

import math

import numpy as np
from safetensors.numpy import save_file

from jepa_text.hf import files, layout, names

MAXIMUM = 5 * 10**9  # bytes per file


def write(leaves, own, family, folder, maximum, prefix=None):
    """Writes model.safetensors, or shards of at most `maximum` bytes and their index.

    `leaves` are our parameters {path: array}, `own` further tensors {name: array}.
    `prefix` replaces that of the family's names.
    """
    shapes = {path: leaf.shape for path, leaf in leaves.items()}
    bound = layout.bindings(names.FAMILIES[family], shapes)
    if prefix is not None:
        usual = names.FAMILIES[family].prefix
        bound = {prefix + n.removeprefix(usual): part for n, part in bound.items()}
    if 'lm_head/output/kernel' in leaves:
        bound |= {copy: bound[name] for name, copy in names.FAMILIES[family].duplicates}
    sizes = {n: 4 * math.prod(layout.shape_of(p, shapes)) for n, p in bound.items()}
    sizes |= {name: x.nbytes for name, x in own.items()}
    groups = _groups(sizes, maximum)
    weight_map = {}
    for number, group in enumerate(groups, 1):
        part = f'-{number:05d}-of-{len(groups):05d}' if len(groups) > 1 else ''
        tensors = {
            name: own[name] if name in own else _tensor(bound[name], leaves)
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


def _tensor(parts, leaves):
    needed = {part.path: np.asarray(leaves[part.path]) for part in parts}
    return layout.join(parts, needed)
