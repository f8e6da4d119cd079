"""Checks of a compiled step: memory, communication, float32 products, copies, attention.

A step must need about the estimated memory, send no more bytes than necessary, compute no
unintended float32 products, copy no full logits, and run attention once per layer.
"""

import math
import re

import jax

from jepa_text.parallel import sharding
from jepa_text.planning import hlo
from jepa_text.training import recipe as recipes

# Tolerances: relative deviation from the memory estimate; bytes sent over the minimum.
MEMORY, SENT = 0.1, 1.2
# Names of float32 products that are intended.
ALLOWED_FLOAT32 = r'diagnostics|balance|covariance|rotary|angles|sigreg|spectrum'
# Bytes of logits that an objective materializes at a time: logits_mib.
COPY = 2**28


def failures(compiled, planned, made, phase):
    """{check: description of the failure} of an aot.Compiled; `planned` is its estimated
    memory in bytes, `made` and `phase` are the recipe and phase that were compiled."""
    kernels = compiled.kernels
    found = {}
    deviation = compiled.peak / planned - 1
    if abs(deviation) > MEMORY:
        found['memory'] = f'{deviation:+.0%} of the plan'
    sent, required = bytes_sent(kernels), required_bytes_sent(made, phase)
    if sent > SENT * required:
        found['sent'] = f'{sent / required if required else math.inf:.2f} x the formula'
    if wide := float32_products(kernels):
        found['float32'] = '; '.join(sorted({kernel.name for kernel in wide})[:3])
    if copies := logit_copies(kernels, phase.network.encoder.vocab_size):
        found['copies'] = '; '.join(sorted({kernel.shape for kernel in copies})[:3])
    forward, expected = attention_passes(kernels), expected_attention_passes(phase)
    if forward > expected:
        found['attention'] = f'{forward} forward passes, expected {expected}'
    return found


def bytes_sent(kernels):
    """Bytes that a device sends per step."""
    return sum(kernel.sent * kernel.times for kernel in kernels)


def float32_products(kernels):
    """Unintended float32 products of more than 1 GFLOP per step."""
    return [
        kernel
        for kernel in kernels
        if kernel.kind == 'product'
        and kernel.dtype == 'f32'
        and kernel.flops * kernel.times > 1e9
        and not re.search(ALLOWED_FLOAT32, kernel.name)
    ]


def logit_copies(kernels, vocab):
    """Copies of arrays with a vocabulary axis that are larger than COPY."""
    return [
        kernel
        for kernel in kernels
        if kernel.kind == 'copy'
        and kernel.bytes > 2 * COPY
        and any(vocab in sizes for _, sizes in hlo.shapes(kernel.shape))
    ]


def attention_passes(kernels):
    """Forward passes of attention kernels per step; 0 for attention by XLA."""
    return sum(kernel.times for kernel in kernels if kernel.forward)


def expected_attention_passes(phase):
    """Required forward passes of attention per step: one per layer and encoder pass, and
    one per layer of a transformer predictor."""
    predictor = getattr(phase.objective, 'predictor', None)
    attends = predictor is not None and predictor.kind == 'transformer'
    layers = phase.network.encoder.depth * sum(encoder_passes(phase))
    return layers + (predictor.depth if attends else 0)


def encoder_passes(phase):
    """(with gradients, without gradients): encoder forward passes per step."""
    objective = phase.objective
    targets = int(objective.has_target)
    return {'ijepa': (2, 1), 'sentence': (1, 1)}.get(phase.name, (1, targets))


def required_bytes_sent(made, phase):
    """Bytes that a device must send per step on the mesh, with ring collectives.

    For each forward and backward pass, parameters are gathered over `fsdp` in two bytes
    each. Gradients are scattered once over `fsdp` and then summed over `data`, in four
    bytes. Embedded rows, and the sums of the layers over `tensor`, use two bytes.
    """
    ways = dict(made.mesh.shape)
    fsdp, data, tensor = ways['fsdp'], ways['data'], ways['tensor']
    encoder = phase.network.encoder
    pulled, read = encoder_passes(phase)
    layers, table, others = _parameters(made, phase)
    gathered = 2 * ((2 * pulled + read) * layers + others)
    scattered = 4 * (layers + others)
    total = (gathered + scattered) * (fsdp - 1) / fsdp
    summed = 4 * (layers + others + table) / fsdp
    total += 2 * summed * (data - 1) / data
    rows = phase.batch_size // (data * fsdp) * phase.length * encoder.width * 2
    # The embedding table is split along its width: embedded rows are exchanged forward,
    # their gradients backward.
    total += 2 * (2 * pulled + read) * rows * (fsdp - 1) / fsdp
    if tensor > 1:
        # Two sums per layer forward, one of them recomputed, and two backward.
        sums = (3 * pulled + 2 * read + 2 * pulled) * encoder.depth + 2
        total += 2 * sums * rows * (tensor - 1) / tensor
    return total


def _parameters(made, phase):
    """(layers, table, others): parameters of the encoder's layers, of its embedding
    table, and all others that a device reads per step."""
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
