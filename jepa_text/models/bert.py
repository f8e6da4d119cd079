"""BERT and RoBERTa: post-norm, learned positions, biases in all layers.

Devlin et al. 2019 (arXiv 1810.04805), Liu et al. 2019 (arXiv 1907.11692). Called like the
encoder in transformer.py; all tokens have type 0 unless types are given. No dropout.
"""

import flax.linen as nn
import jax.numpy as jnp

from jepa_text.models import layers, stack
from jepa_text.models.block import SelfAttention
from jepa_text.parallel import activations

PRESETS = {
    'tiny': dict(width=64, depth=2, heads=4, ffn_width=128, positions=64),
    'base': dict(width=768, depth=12, heads=12, ffn_width=3072, positions=512),
    'large': dict(width=1024, depth=24, heads=16, ffn_width=4096, positions=512),
}


def make(preset=None, **keywords):
    """Returns a Bert with a preset's sizes, which keywords override.

    Raises ValueError for an unknown preset, a missing size, or sizes that do not divide
    each other.
    """
    return stack.from_preset(Bert, PRESETS, preset, keywords)


class Bert(nn.Module):
    """tokens, segment_ids, positions [B, L] -> hidden_BLD after the last layer.

    `positions` is the number of rows of the position embedding, of which RoBERTa leaves
    the first `position_offset` unused. `head_act` is the activation of the dense layer
    before tokens are scored; if None, it is `act`. RoBERTa's is gelu whatever `act` is.
    """

    vocab_size: int
    width: int
    depth: int
    heads: int
    ffn_width: int
    positions: int
    position_offset: int = 0
    types: int = 2
    act: str = 'gelu'
    head_act: str | None = None
    norm_eps: float = 1e-12
    head_width: int | None = None
    scan: bool = True
    remat: str = 'none'
    attention: str = 'auto'
    dtype: str = 'float32'

    @property
    def head(self):
        """The keywords of heads.DenseHead that score tokens as BERT does."""
        return dict(act=self.head_act or self.act, norm_eps=self.norm_eps)

    @nn.compact
    def __call__(
        self,
        tokens_BL,
        segment_ids_BL,
        positions_BL,
        order_BL=None,
        *,
        causal,
        every_layer=False,
        gaps=False,
        types_BL=None,
    ):
        """Returns hidden_BLD; with `every_layer`, also layers_NBLD.

        These are the normed embedding and the output of each layer. `gaps` has no effect,
        because there are no windows. Raises ValueError for rows longer than the position
        embedding.
        """
        embedded_BLD = self._embed(tokens_BL, positions_BL, types_BL)
        block = dict(
            heads=self.heads,
            head_width=self.head_width or self.width // self.heads,
            ffn_width=self.ffn_width,
            act=self.act,
            norm_eps=self.norm_eps,
            attention=self.attention,
            causal=causal,
            keep=every_layer,
        )
        hidden_BLD, outputs = stack.run(
            PostNormBlock,
            block,
            embedded_BLD,
            (segment_ids_BL, order_BL),
            kinds=[0] * self.depth,
            scan=self.scan,
            remat=self.remat,
        )
        if not every_layer:
            return hidden_BLD
        return hidden_BLD, jnp.concatenate([embedded_BLD[None], outputs])

    def _embed(self, tokens_BL, positions_BL, types_BL):
        maximum = self.positions - self.position_offset
        if tokens_BL.shape[1] > maximum:
            # A lookup past the end of a table would silently read its last row.
            raise ValueError(
                f'The rows have {tokens_BL.shape[1]} tokens, but this model has learned '
                f'{maximum} positions. Set row_length={maximum} or less.'
            )

        def table(name, rows):
            shape = (rows, self.width)
            return self.param(name, layers.INIT, shape, jnp.float32)

        tokens_VD = table('embedding', self.vocab_size)
        token_BLD = activations.embedding_lookup(tokens_VD, tokens_BL)
        positions_PD = table('position_embedding', self.positions)
        index_BL = positions_BL + self.position_offset
        position_BLD = activations.embedding_lookup(positions_PD, index_BL)
        types_TD = table('type_embedding', self.types)
        type_BLD = types_TD[0][None, None]
        if types_BL is not None:
            type_BLD = activations.embedding_lookup(types_TD, types_BL)
        summed_BLD = (token_BLD + position_BLD + type_BLD).astype(self.dtype)
        return layers.LayerNorm(self.norm_eps, name='embedding_norm')(summed_BLD)


class PostNormBlock(nn.Module):
    """norm(hidden + attention(hidden)), then norm(hidden + ffn(hidden))."""

    heads: int
    head_width: int
    ffn_width: int
    act: str
    norm_eps: float
    attention: str
    causal: bool
    keep: bool = False

    @nn.compact
    def __call__(self, hidden_BLD, segment_ids_BL, order_BL=None, kind=None):
        hidden_BLD = activations.by_rows(hidden_BLD)
        attended_BLD = SelfAttention(
            self.heads,
            self.heads,
            self.head_width,
            self.attention,
            self.causal,
            qkv_bias=True,
            o_bias=True,
            name='attention',
        )(hidden_BLD, None, (segment_ids_BL, order_BL, None))
        norm = layers.LayerNorm(self.norm_eps, name='attention_norm')
        hidden_BLD = norm(hidden_BLD + attended_BLD)
        ffn_BLD = layers.FFN(self.ffn_width, self.act, name='ffn')(hidden_BLD)
        norm = layers.LayerNorm(self.norm_eps, name='ffn_norm')
        hidden_BLD = activations.by_rows(norm(hidden_BLD + ffn_BLD))
        return hidden_BLD, hidden_BLD if self.keep else None
