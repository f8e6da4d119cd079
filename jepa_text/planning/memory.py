"""How much memory a training step takes on one device, without compiling it.

What the state takes is exact, by sharding.TABLE. What the forward pass keeps for the
backward pass is read off the traced step; the layer that the backward pass is in needs,
beside it, what it would keep without rematerialization, or the LM head its logits.

For scanned layers this is within a tenth of what XLA says for TPUs, mostly above it
(LOG.md). Unrolled layers without rematerialization need less, as XLA makes again what
goes element by element. Over the tensor axis of a mesh go heads and the feed-forward
width, and what layers keep of them; over its context axis all that is kept of a row.
The diagnostics of `telemetry` are left out. They come before the gradients and need about
as much as they do: for TPUs a twelfth more at 1b, on a CPU a fifth more at toy size
(LOG.md).
"""

import bisect
import dataclasses
import math

import jax

from jepa_text.cost.hardware import USABLE
from jepa_text.models.network import Network
from jepa_text.parallel import sharding
from jepa_text.training import memo
from jepa_text.training import recipe as recipes
from jepa_text.training import state as states
from jepa_text.training import step as steps


@dataclasses.dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes on one device. `state`: {part: bytes}. `gradients`: as the parameters, twice
    where parts of a batch add up. For each row: `kept` until the backward pass; `layer`,
    the work space of one layer; `scores`, all logits and their gradient, of which there
    are at most `logits` at a time."""

    state: dict
    gradients: int
    kept: float
    layer: float
    scores: float
    logits: float

    def work(self, rows):
        """What the layer or the head that is at work needs beside what is kept."""
        return max(rows * self.layer, min(rows * self.scores, self.logits))

    def total(self, rows):
        """With so many rows on the device at a time."""
        fixed = sum(self.state.values()) + self.gradients
        return fixed + rows * self.kept + self.work(rows)

    def max_rows(self, memory, limit=2**20):
        """How many rows at a time fit into USABLE of so many bytes; 0: none."""
        over = bisect.bisect_right(range(limit), USABLE * memory, key=self.total)
        return max(0, over - 1)


def estimate(made, phase, *, microbatches, fused):
    """The Memory of a phase of an recipe on each device of its mesh.

    `microbatches` go one after the other. With `fused`, attention keeps no array of
    [L, L].
    """
    state = recipes.shapes(made, phase)
    sizes = {
        name: on_device(tree, made.mesh, name)
        for name, tree in (
            ('params', state.params),
            ('target', state.target),
            ('opt_state', state.opt_state),
        )
    }
    gradients = sizes['params'] * (1 if microbatches == 1 else 2)
    if made.offload:  # to the memory of the host
        sizes[made.offload] = 0
    # As kernels do, `blockwise` keeps queries, keys, values and output alone.
    attention = 'blockwise' if fused else 'xla'
    encoder = _of_device(phase.network.encoder, made.mesh.shape[sharding.TENSOR])
    encoder = encoder.clone(attention=attention)
    kept = bare = _kept_per_row(made, phase, encoder.clone(remat='none'))
    if encoder.remat != 'none':
        kept = _kept_per_row(made, phase, encoder)
    ways = made.mesh.shape[sharding.CONTEXT]
    token = phase.objective.token_objective
    places, mib = (token.capacity, token.logits_mib) if token else (0, 0)
    return Memory(
        state=sizes,
        gradients=gradients,
        kept=kept / ways,
        layer=bare / encoder.depth / ways,
        # Float32, and the gradient.
        scores=8 * min(places, phase.length) * made.tokenizer.vocab_size / ways,
        logits=2 * mib * 2**20,
    )


def on_device(tree, mesh, name):
    """Bytes of a part of the state, such as 'params', on one device of a mesh."""
    total = 0
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        below = jax.tree_util.keystr(path, simple=True, separator='/')
        spec = sharding.spec(f'{name}/{below}', leaf.shape, mesh)
        ways = math.prod(mesh.shape[axis] for axis in jax.tree.leaves(tuple(spec)))
        total += leaf.size * leaf.dtype.itemsize // ways
    return total


def _of_device(encoder, ways):
    """The encoder with the heads and the feed-forward width that one device computes; as
    it is, where they do not divide."""
    names = ('heads', 'kv_heads', 'ffn_width')
    sizes = {name: getattr(encoder, name) for name in names if hasattr(encoder, name)}
    if ways == 1 or any(size % ways for size in sizes.values()):
        return encoder
    head_width = encoder.head_width or encoder.width // encoder.heads
    sizes = {name: size // ways for name, size in sizes.items()}
    return encoder.clone(head_width=head_width, **sizes)


def _kept_per_row(made, phase, encoder):
    """Bytes that one row more keeps between the forward and the backward pass."""
    one, two = (recipes.abstract_batch(made, phase, rows) for rows in (1, 2))
    return _kept(encoder, phase.objective, two) - _kept(encoder, phase.objective, one)


@memo.once
def _kept(encoder, objective, batch):
    """Bytes that a batch keeps between the forward and the backward pass."""
    state = states.abstract(encoder, objective)
    loss = steps.loss(Network(encoder, objective), objective)

    def pull(params, state, batch):
        return jax.vjp(lambda p: loss(p, state, batch)[0], params)[1]

    leaves = jax.tree.leaves(jax.eval_shape(pull, state.params, state, batch))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
