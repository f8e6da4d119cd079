"""Modules on top of the encoder: LM heads with their loss, and latent predictors.

Each has `example()`: zero inputs of the right rank, used for initialization.
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from jepa_text import losses
from jepa_text.losses.linear_cross_entropy import chunks
from jepa_text.models import flops, layers, memo, stack
from jepa_text.models.block import Layer
from jepa_text.parallel import activations, sharding
from jepa_text.settings import ranges


class LMHead(nn.Module):
    """hidden_MD -> logits_MV, with its own kernel or the tied embedding."""

    vocab_size: int
    width: int
    tied: bool = False

    def example(self):
        return (jnp.zeros((1, self.width)), jnp.zeros((self.vocab_size, self.width)))

    def setup(self):
        if not self.tied:
            self.output = layers.Linear(self.vocab_size)

    def transform(self, hidden_MD):
        """Returns what the kernel is multiplied with: the hidden states unchanged."""
        return hidden_MD

    def __call__(self, hidden_MD, embedding_VD):
        """Returns logits in the dtype of `hidden_MD`.

        `embedding_VD` is used only if `tied`.
        """
        hidden_MD = self.transform(hidden_MD)
        if self.tied:
            return hidden_MD @ embedding_VD.astype(hidden_MD.dtype).T
        return self.output(hidden_MD)


class DenseHead(LMHead):
    """hidden_MD -> norm(act(dense(hidden))) -> logits_MV + bias, the LM head of BERT."""

    act: str = 'gelu'
    norm_eps: float = 1e-12
    dense_bias: bool = True
    norm_bias: bool = True
    lm_head_bias: bool = True

    def setup(self):
        super().setup()
        self.dense = layers.Linear(self.width, self.dense_bias)
        self.norm = layers.LayerNorm(self.norm_eps, self.norm_bias)
        if self.lm_head_bias:
            zeros = nn.initializers.zeros
            self.bias = self.param('bias', zeros, (self.vocab_size,), jnp.float32)

    def transform(self, hidden_MD):
        """Returns what the kernel is multiplied with: norm(act(dense(hidden)))."""
        return self.norm(layers.ACTIVATIONS[self.act](self.dense(hidden_MD)))

    def __call__(self, hidden_MD, embedding_VD):
        logits_MV = super().__call__(hidden_MD, embedding_VD)
        if not self.lm_head_bias:
            return logits_MV
        axes = (1,) * (logits_MV.ndim - 1) + (-1,)
        return logits_MV + self.bias.astype(logits_MV.dtype).reshape(axes)


def lm_head(encoder, tied=False):
    """Returns the LM head for this encoder, as its `head` property specifies."""
    if encoder.head is None:
        return LMHead(encoder.vocab_size, encoder.width, tied)
    return DenseHead(encoder.vocab_size, encoder.width, tied, **encoder.head)


@memo.memoize
def compiled_logits(encoder, head, causal):
    """Returns a compiled function (params, *batch) -> logits_BLV.

    Without an LM head in `params`, it returns hidden_BLD.
    """

    def logits(params, *batch):
        variables = {'params': params['encoder']}
        hidden_BLD = encoder.apply(variables, *batch, causal=causal)
        if 'lm_head' not in params:
            return hidden_BLD
        embedding_VD = params['encoder']['embedding']
        return head.apply({'params': params['lm_head']}, hidden_BLD, embedding_VD)

    return jax.jit(logits)


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


@dataclasses.dataclass(frozen=True)
class PredictorSizes:
    """The kind of predictor, 'mlp', 'transformer' or 'block', and its sizes."""

    kind: str
    hidden: int
    depth: int
    heads: int

    def __post_init__(self):
        for name in ('hidden', 'depth', 'heads'):
            what = 'predictor_' + name.replace('hidden', 'width')
            ranges.number(what, getattr(self, name), whole=True, minimum=1)
        if self.kind != 'mlp' and self.hidden % (2 * self.heads):
            raise ValueError(
                f'predictor_width={self.hidden} is not a multiple of twice '
                f'predictor_heads={self.heads}: rotary positions need even heads.'
            )

    def build(self, width, attention):
        """Returns the module, which maps vectors of `width` to vectors of `width`.

        `attention` is the backend of a predictor with attention.
        """
        if self.kind == 'mlp':
            return MLPPredictor(width, self.hidden)
        module = TransformerPredictor if self.kind == 'transformer' else BlockPredictor
        return module(width, self.hidden, self.depth, self.heads, attention)


class MLPPredictor(nn.Module):
    """Two linear layers with GELU in between, position by position (data2vec's head)."""

    width: int
    hidden: int

    def example(self):
        return (jnp.zeros((1, 1, self.width)),)

    @nn.compact
    def __call__(self, hidden_BMD):
        wide = nn.gelu(layers.Linear(self.hidden, name='up')(hidden_BMD))
        return layers.Linear(self.width, name='down')(wide)


class TransformerPredictor(nn.Module):
    """A narrow bidirectional transformer over the row: D -> `hidden` -> D (I-JEPA)."""

    width: int
    hidden: int
    depth: int
    heads: int
    attention: str = 'auto'

    def example(self):
        ids_BL = jnp.zeros((1, 1), jnp.int32)
        return jnp.zeros((1, 1, self.width)), ids_BL, ids_BL

    @nn.compact
    def __call__(self, hidden_BLD, segment_ids_BL, positions_BL):
        narrow = layers.Linear(self.hidden, name='enter')(hidden_BLD)
        narrow = _blocks(self, narrow, segment_ids_BL, positions_BL)
        return layers.Linear(self.width, name='leave')(narrow)


class BlockPredictor(TransformerPredictor):
    """Predicts vectors at target positions from those of a context (I-JEPA's predictor).

    Reads [context ; queries] bidirectionally, within documents. All queries are one
    learned vector, distinguished only by rotary position. Inputs are sorted by document
    first, because attention requires runs of equal ids and here each id would occur in
    two runs.
    """

    def example(self):
        ids_BK = jnp.zeros((1, 1), jnp.int32)
        return jnp.zeros((1, 1, self.width)), *(ids_BK,) * 4

    @nn.compact
    def __call__(
        self, context_BKD, context_segments, context_positions, segments_BM, positions_BM
    ):
        """Returns prediction_BMD; segment id 0 marks padding."""
        context_BKP = layers.Linear(self.hidden, name='enter')(context_BKD)
        query_P = self.param('query', layers.INIT, (self.hidden,), jnp.float32)
        shape = (*segments_BM.shape, self.hidden)
        query_BMP = jnp.broadcast_to(query_P, shape).astype(context_BKP.dtype)
        both = jnp.concatenate([context_BKP, query_BMP], axis=1)
        segments = jnp.concatenate([context_segments, segments_BM], axis=1)
        positions = jnp.concatenate([context_positions, positions_BM], axis=1)
        # Padding (0) is sorted last, as in whole rows; the sort is stable.
        last = jnp.iinfo(segments.dtype).max
        order = jnp.argsort(jnp.where(segments == 0, last, segments), axis=1, stable=True)
        back = jnp.argsort(order, axis=1)[:, context_BKD.shape[1] :]
        segments, positions = (
            jnp.take_along_axis(x, order, axis=1) for x in (segments, positions)
        )
        both = _blocks(self, losses.take(both, order), segments, positions)
        return layers.Linear(self.width, name='leave')(losses.take(both, back))


def _blocks(predictor, x, segment_ids, positions):
    """Applies the layers of a predictor and their last norm; called in its `__call__`."""
    head_width = predictor.hidden // predictor.heads
    angles = layers.rotary_angles(positions, head_width, theta=10_000.0)
    layer = Layer(
        heads=predictor.heads,
        head_width=head_width,
        ffn_width=4 * predictor.hidden,
        norm_eps=1e-5,
        attention=predictor.attention,
        causal=False,
    )
    inputs = (angles, segment_ids, None, None)
    kinds = (0,) * predictor.depth
    x, _ = stack.run(layer, x, inputs, kinds, scan=False, remat='none')
    return activations.by_rows(layers.RMSNorm(1e-5, name='norm')(x))


class Logit(nn.Module):
    """A learned float32 scalar: the logit of a number between 0 and 1."""

    initial: float

    def example(self):
        return ()

    @nn.compact
    def __call__(self):
        odds = self.initial / (1 - self.initial)
        return self.param('logit', lambda key: jnp.log(jnp.float32(odds)))
