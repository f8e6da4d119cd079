"""What a compiled step must be: as large as planned, sending no more than it must, with
no product in float32 that was not meant, no copy of all logits, and attention once."""

import math
import re

import jax

from jepa_text.parallel import sharding
from jepa_text.planning import hlo
from jepa_text.training import recipe as recipes

# Of the estimate of memory; of the bytes that must be sent.
MEMORY, SENT = 0.1, 1.2
# Float32 products that are meant: by what they compute.
MEANT = r'diagnostics|balance|covariance|rotary|angles|sigreg|spectrum'
# Logits of at most so many positions at a time: objectives' logits_mib.
COPY = 2**28


def failures(compiled, planned, made, phase):
    """{check: what is wrong, in words} of an ahead.Compiled; `planned` is the estimate of
    its memory in bytes, `made` and `phase` what was compiled."""
    kernels = compiled.kernels
    found = {}
    off = compiled.peak / planned - 1
    if abs(off) > MEMORY:
        found['memory'] = f'{off:+.0%} of the plan'
    sent, must = sending(kernels), must_send(made, phase)
    if sent > SENT * must:
        found['sent'] = f'{sent / must if must else math.inf:.2f} x the formula'
    if wide := float32(kernels):
        found['float32'] = '; '.join(sorted({kernel.name for kernel in wide})[:3])
    if copies := copied(kernels, phase.network.encoder.vocab_size):
        found['copies'] = '; '.join(sorted({kernel.shape for kernel in copies})[:3])
    forward, layers = attended(kernels), must_attend(phase)
    if forward > layers:
        found['attention'] = f'{forward} forward passes of {layers}'
    return found


def sending(kernels):
    """Bytes that a device sends in a step."""
    return sum(kernel.sent * kernel.times for kernel in kernels)


def float32(kernels):
    """Products of float32 that nobody meant, if they are of any size."""
    return [
        kernel
        for kernel in kernels
        if kernel.kind == 'product'
        and kernel.dtype == 'f32'
        and kernel.flops * kernel.times > 1e9
        and not re.search(MEANT, kernel.name)
    ]


def copied(kernels, vocab):
    """Copies of arrays as long as the vocabulary and larger than COPY."""
    return [
        kernel
        for kernel in kernels
        if kernel.kind == 'copy'
        and kernel.bytes > 2 * COPY
        and any(vocab in sizes for _, sizes in hlo.shapes(kernel.shape))
    ]


def attended(kernels):
    """How often attention's kernels run forward in a step; 0 where XLA attends."""
    return sum(kernel.times for kernel in kernels if kernel.forward)


def must_attend(phase):
    """How often they must: each layer, each time the encoder is read, and each layer of a
    predictor that attends."""
    predictor = getattr(phase.objective, 'predictor', None)
    attends = predictor is not None and predictor.kind == 'transformer'
    layers = phase.network.encoder.depth * sum(reads(phase))
    return layers + (predictor.depth if attends else 0)


def reads(phase):
    """(with gradients, without): how often the encoder is read in a step."""
    objective = phase.objective
    targets = int(objective.has_target)
    return {'ijepa': (2, 1), 'sentence': (1, 1)}.get(phase.name, (1, targets))


def must_send(made, phase):
    """Bytes that a device must send in a step on the mesh, by rings.

    Every time they are read, forward and backward, parameters are gathered over `fsdp` in
    two bytes each; gradients are scattered once over it, and then summed over `data`, in
    four. Rows that look words up, and over `tensor` what layers add up, are in two.
    """
    ways = dict(made.mesh.shape)
    fsdp, data, tensor = ways['fsdp'], ways['data'], ways['tensor']
    encoder = phase.network.encoder
    pulled, read = reads(phase)
    layers, table, others = _parameters(made, phase)
    gathered = 2 * ((2 * pulled + read) * layers + others)
    scattered = 4 * (layers + others)
    total = (gathered + scattered) * (fsdp - 1) / fsdp
    summed = 4 * (layers + others + table) / fsdp
    total += 2 * summed * (data - 1) / data
    rows = phase.batch_size // (data * fsdp) * phase.length * encoder.width * 2
    # Words are looked up where the table's width lies, and their gradients go back.
    total += 2 * (2 * pulled + read) * rows * (fsdp - 1) / fsdp
    if tensor > 1:
        # Two sums a layer forward, one of them again, and two backward.
        sums = (3 * pulled + 2 * read + 2 * pulled) * encoder.depth + 2
        total += 2 * sums * rows * (tensor - 1) / tensor
    return total


def _parameters(made, phase):
    """How many parameters of the encoder's layers, its table, and all else a device reads
    in a step."""
    state, mesh = recipes.shapes(made, phase), made.mesh
    counts = dict(layers=0, table=0, others=0)
    for path, leaf in jax.tree_util.tree_leaves_with_path(state.params):
        name = jax.tree_util.keystr(path, simple=True, separator='/')
        part = 'layers' if name.startswith('encoder/') else 'others'
        part = 'table' if name.endswith('embedding') else part
        spec = sharding.spec(name, leaf.shape, mesh)
        split = mesh.shape['tensor'] if 'tensor' in jax.tree.leaves(tuple(spec)) else 1
        counts[part] += leaf.size // split
    return counts['layers'], counts['table'], counts['others']
