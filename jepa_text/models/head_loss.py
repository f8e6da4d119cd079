"""The loss of an LM head, computed without materializing all logits."""

import jax
import jax.numpy as jnp

from jepa_text import losses
from jepa_text.losses.linear_cross_entropy import chunks
from jepa_text.models import flops
from jepa_text.parallel import activations, sharding


def lm_head_loss(apply, params, hidden_BMD, labels_BM, weight_BM, z_weight, logits_mib):
    """Returns sum weight (cross-entropy + z_weight z^2), and values per position.

    The values are the cross-entropy ('loss') and 1 or 0 ('correct'), [B, M] each, without
    gradients. Logits take at most `logits_mib` MiB of a device at a time, and their
    gradients as much again.
    """
    embedding_VD = params['encoder']['embedding']
    split, vocab = _split(len(labels_BM), embedding_VD.shape)
    own = params.get('lm_head', {})
    features_BMD = apply('lm_head', params, hidden_BMD, method='transform')
    # Positions that are split over devices are padded, with weights of 0.
    (rows, count), ways = labels_BM.shape, activations.ways(sharding.CONTEXT)
    padded = [_padded(x, -count % ways) for x in (features_BMD, labels_BM, weight_BM)]
    positions = max(1, int(logits_mib * 2**20 / 4) // vocab)
    _, length, parts, size = chunks((rows, -(-count // ways)), positions)
    with jax.named_scope('lm_head'), flops.masked(length / (parts * size)):
        total, (loss_BM, _, correct_BM) = losses.linear_cross_entropy(
            padded[0],
            own['output']['kernel'] if 'output' in own else embedding_VD,
            *padded[1:],
            chunk_positions=positions,
            z_weight=z_weight,
            bias_V=own.get('bias'),
            vocab_first='output' not in own,
            split=split,
        )
    return total, {'loss': loss_BM[:, :count], 'correct': correct_BM[:, :count]}


def _padded(x_BM, more):
    """Returns `x_BM` [B, M, ...] with `more` positions appended."""
    if not more:
        return x_BM
    return jnp.pad(x_BM, ((0, 0), (0, more), *((0, 0),) * (x_BM.ndim - 2)))


def _split(rows, shape):
    """Returns the Split of the current mesh or None, and the number of tokens per device.

    The Split tells how rows and positions, the vocabulary, and the gradient of the head's
    kernel [V, D] are divided.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.size == 1 or rows % activations.ways(sharding.ROWS):
        return None, shape[0]
    # The gradient is split like the kernel itself.
    vocab, width = sharding.spec('embedding', shape, mesh)
    ways = mesh.shape[vocab] if vocab else 1
    split = losses.Split(sharding.ROWS, vocab, width, sharding.CONTEXT)
    return split, shape[0] // ways
