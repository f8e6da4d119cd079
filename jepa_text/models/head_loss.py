"""The loss of an LM head, whose logits are never all in memory."""

import math

import jax
import jax.numpy as jnp

from jepa_text import losses
from jepa_text.cost import flops
from jepa_text.losses.linear_cross_entropy import chunks
from jepa_text.parallel import activations, sharding


def lm_head_loss(apply, params, hidden_BMD, labels_BM, weight_BM, z_weight, logits_mib):
    """sum weight (cross-entropy + z_weight z^2), and at every position the cross-entropy
    ('loss') and hit or miss ('correct'), [B, M] each, without gradients.

    Logits take at most `logits_mib` MiB of a device at a time, and as many again in
    their gradients.
    """
    embedding_VD = params['encoder']['embedding']
    split, vocab = _split(len(labels_BM), embedding_VD.shape)
    own = params.get('lm_head', {})
    entered_BMD = apply('lm_head', params, hidden_BMD, method='enter')
    # Positions that are split are filled up, with weights of 0.
    (rows, count), ways = labels_BM.shape, activations.context_ways()
    filled = [_filled(x, -count % ways) for x in (entered_BMD, labels_BM, weight_BM)]
    positions = max(1, int(logits_mib * 2**20 / 4) // vocab)
    _, length, parts, size = chunks((rows, -(-count // ways)), positions)
    with jax.named_scope('lm_head'), flops.counted(length / (parts * size)):
        total, (loss_BM, _, correct_BM) = losses.linear_cross_entropy(
            filled[0],
            own['output']['kernel'] if 'output' in own else embedding_VD,
            *filled[1:],
            chunk_positions=positions,
            z_weight=z_weight,
            bias_V=own.get('bias'),
            vocab_first='output' not in own,
            split=split,
        )
    return total, {'loss': loss_BM[:, :count], 'correct': correct_BM[:, :count]}


def _filled(x_BM, more):
    """`x_BM` [B, M, ...] with so many more positions."""
    if not more:
        return x_BM
    return jnp.pad(x_BM, ((0, 0), (0, more), *((0, 0),) * (x_BM.ndim - 2)))


def _split(rows, shape):
    """How a mesh that is set splits rows and positions, vocabulary, and the gradient of
    the head's kernel, [V, D], and how many tokens are left on a device."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.size == 1:
        return None, shape[0]
    if rows % math.prod(mesh.shape[axis] for axis in sharding.ROWS):
        return None, shape[0]
    # As the kernel itself is split.
    vocab, width = sharding.spec('embedding', shape, mesh)
    ways = mesh.shape[vocab] if vocab else 1
    given = losses.Split(sharding.ROWS, vocab, width, sharding.CONTEXT)
    return given, shape[0] // ways
