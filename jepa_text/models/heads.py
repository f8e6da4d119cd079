"""What sits on top of the trunk: word scores and the latent predictor.

Every head has `example()`: zero inputs of the right rank, from which it is initialised.
"""

import flax.linen as nn
import jax.numpy as jnp

from jepa_text import losses
from jepa_text.models import layers
from jepa_text.models.block import Block


class LMHead(nn.Module):
    """hidden_MD -> logits_MV, with a kernel of its own or the tied embedding."""

    vocab_size: int
    width: int
    tied: bool = False

    def example(self):
        return (
            jnp.zeros((1, self.width)),
            jnp.zeros((self.vocab_size, self.width)),
        )

    @nn.compact
    def __call__(self, hidden_MD, embedding_VD):
        """Logits in the dtype of `hidden_MD`; `embedding_VD` is read only if tied."""
        if self.tied:
            return hidden_MD @ embedding_VD.astype(hidden_MD.dtype).T
        return layers.Linear(self.vocab_size, name='output')(hidden_MD)


class IdentityPredictor(nn.Module):
    """hidden -> hidden: the encoder itself must match the target."""

    width: int

    def example(self):
        return (jnp.zeros((1, 1, self.width)),)

    @nn.compact
    def __call__(self, hidden_BMD):
        return hidden_BMD


class MLPPredictor(nn.Module):
    """Two layers with GELU between, position by position (data2vec's head)."""

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
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5

    def example(self):
        ids_BL = jnp.zeros((1, 1), jnp.int32)
        return jnp.zeros((1, 1, self.width)), ids_BL, ids_BL

    @nn.compact
    def __call__(self, hidden_BLD, segment_ids_BL, positions_BL):
        head_width = self.hidden // self.heads
        angles = layers.rotary_angles(positions_BL, head_width, self.rope_theta)
        narrow = layers.Linear(self.hidden, name='enter')(hidden_BLD)
        for index in range(self.depth):
            narrow, _ = Block(
                heads=self.heads,
                kv_heads=self.heads,
                head_width=head_width,
                ffn_width=4 * self.hidden,
                norm_eps=self.norm_eps,
                attention='auto',
                causal=False,
                name=f'layer_{index}',
            )(narrow, angles, segment_ids_BL)
        narrow = layers.RMSNorm(self.norm_eps, name='norm')(narrow)
        return layers.Linear(self.width, name='leave')(narrow)


def word_scores(apply, params, hidden_BMD, labels_BM, where_BM, chunk):
    """Sums of cross-entropy and of hits over the true positions, chunk by chunk."""
    embedding_VD = params['encoder']['embedding']

    def score(hidden, labels):
        logits = apply('lm_head', params, hidden, embedding_VD)
        return {
            'loss': losses.cross_entropy(logits, labels),
            'correct': losses.correct(logits, labels),
        }

    scores = losses.chunked(score, hidden_BMD, labels_BM, chunk)
    return {name: losses.masked_sum(x, where_BM) for name, x in scores.items()}
