"""Estimates the memory of a training step on one device, without compiling it.

The size of the state is exact, from sharding.TABLE. The activations that the forward pass
stores for the backward pass are read from the traced step. While the backward pass
processes a layer, it also needs the activations that this layer would store without
rematerialization, or the LM head needs its logits.

For scanned layers the estimate is within a tenth of XLA's figure for TPUs, usually above
it (LOG.md). Unrolled layers without rematerialization need less, as XLA recomputes
elementwise operations. The tensor axis of a mesh splits heads and the feed-forward width,
and the activations that layers store of them; the context axis splits all activations of
a row. The diagnostics of `telemetry` are omitted: they need up to a fifth more (LOG.md).
"""

import bisect
import dataclasses
import math

import jax

from jepa_text.models import memo
from jepa_text.models.network import Network
from jepa_text.parallel import sharding
from jepa_text.parallel.hardware import USABLE
from jepa_text.training import preflight
from jepa_text.training import state as states


@dataclasses.dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes on one device.

    state         {part of the training state: bytes}
    gradients     bytes of the parameters; twice that if microbatches are accumulated
    activations   stored for the backward pass, per row
    layer         workspace of one layer, per row
    scores        all logits and their gradient, per row
    logits        maximum size of the logits and gradient that exist at a time
    """

    state: dict
    gradients: int
    activations: float
    layer: float
    scores: float
    logits: float

    def workspace(self, rows):
        """Bytes that the layer or head being processed needs besides the activations."""
        return max(rows * self.layer, min(rows * self.scores, self.logits))

    def total(self, rows):
        """Bytes for this many rows per device in one microbatch."""
        fixed = sum(self.state.values()) + self.gradients
        return fixed + rows * self.activations + self.workspace(rows)

    def max_rows(self, memory):
        """The most rows per microbatch that fit in USABLE x `memory` bytes; 0 if none."""
        over = bisect.bisect_right(range(2**20), USABLE * memory, key=self.total)
        return max(0, over - 1)


def estimate(made, phase, *, microbatches, fused):
    """The Memory of a phase of a recipe on each device of its mesh, for a batch in
    `microbatches` parts. With `fused`, attention stores no array of shape [L, L]."""
    state = made.abstract_state(phase)
    sizes = {
        name: sum(map(_on_device, jax.tree.leaves(getattr(state, name))))
        for name in ('params', 'target', 'opt_state')
    }
    gradients = sizes['params'] * (1 if microbatches == 1 else 2)
    # Like fused kernels, `blockwise` stores only queries, keys, values and output.
    attention = 'blockwise' if fused else 'xla'
    encoder = _of_device(phase.network.encoder, made.mesh.shape[sharding.TENSOR])
    encoder = encoder.clone(attention=attention)
    stored = bare = _activations_per_row(made, phase, encoder.clone(remat='none'))
    if encoder.remat != 'none':
        stored = _activations_per_row(made, phase, encoder)
    ways = made.mesh.shape[sharding.CONTEXT]
    token = phase.objective.token_objective
    positions, mib = (token.capacity, token.logits_mib) if token else (0, 0)
    return Memory(
        state=sizes,
        gradients=gradients,
        activations=stored / ways,
        layer=bare / encoder.depth / ways,
        # Four bytes for each logit, and four for its gradient.
        scores=8 * min(positions, phase.length) * made.tokenizer.vocab_size / ways,
        logits=2 * mib * 2**20,
    )


def _on_device(leaf):
    """Bytes of an array of the state on one device."""
    return math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize


def _of_device(encoder, ways):
    """The encoder with the heads and the feed-forward width of one device; unchanged if
    these are not divisible by `ways`, or it has no such fields."""
    names = ('heads', 'kv_heads', 'ffn_width')
    sizes = {name: getattr(encoder, name) for name in names if hasattr(encoder, name)}
    is_split = ways > 1 and hasattr(encoder, 'head_width')
    if not is_split or any(size % ways for size in sizes.values()):
        return encoder
    head_width = encoder.head_width or encoder.width // encoder.heads
    sizes = {name: size // ways for name, size in sizes.items()}
    return encoder.clone(head_width=head_width, **sizes)


def _activations_per_row(made, phase, encoder):
    """Bytes that each further row stores between the forward and the backward pass."""
    one, two = (made.abstract_batch(phase, rows) for rows in (1, 2))
    objective = phase.objective
    return _activations(encoder, objective, two) - _activations(encoder, objective, one)


@memo.memoize
def _activations(encoder, objective, batch):
    state = states.abstract(encoder, objective)
    loss = preflight.loss(Network(encoder, objective), objective)

    def pull(params, state, batch):
        return jax.vjp(lambda p: loss(p, state, batch)[0], params)[1]

    leaves = jax.tree.leaves(jax.eval_shape(pull, state.params, state, batch))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
