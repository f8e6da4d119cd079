"""BERT and RoBERTa: post-norm, learned positions, biases in all layers.

Devlin et al. 2019 (arXiv 1810.04805), Liu et al. 2019 (arXiv 1907.11692). Called like the
encoder in transformer.py; all tokens have type 0. No dropout.
"""

from jepa_text.models import layers, stack
from jepa_text.parallel import activations

PRESETS = {
    'tiny': dict(width=64, depth=2, heads=4, ffn_width=128, positions=64),
    'base': dict(width=768, depth=12, heads=12, ffn_width=3072, positions=512),
    'large': dict(width=1024, depth=24, heads=16, ffn_width=4096, positions=512),
}


def make(preset: str | None = None, **keywords):
    """Returns a Bert with a preset's sizes, which keywords override.

    Raises ValueError for an unknown preset, a missing size, or sizes that do not fit
    together.
    """
    model = stack.from_preset(Bert, PRESETS, preset, keywords)
    if model.position_offset >= model.positions:
        raise ValueError(
            f'model: position_offset={model.position_offset} leaves none of '
            f'positions={model.positions}. Lower it, or raise positions.'
        )
    return model


class Bert(stack.Encoder, kw_only=True):
    """tokens, segment_ids, positions [B, L] -> hidden_BLD after the last layer.

    `positions` is the number of rows of the position embedding, of which RoBERTa leaves
    the first `position_offset` unused. `head_act` is the activation of the dense layer
    before tokens are scored; if None, it is `act`. RoBERTa's is gelu whatever `act` is.
    """

    positions: int
    position_offset: int = 0
    types: int = 2
    act: str = 'gelu'
    head_act: str | None = None
    norm_eps: float = 1e-12

    is_rotary = False
    rope_theta = window = None

    @property
    def layer(self):
        """The options of block.Layer."""
        biases = dict(qkv_bias=True, o_bias=True, ffn_bias=True)
        return dict(norm='layer', post_norm=True, act=self.act, gated=False, **biases)

    @property
    def head(self):
        """The keywords of heads.DenseHead that score tokens as BERT does."""
        return dict(act=self.head_act or self.act, norm_eps=self.norm_eps)

    def embed(self, tokens_BL, positions_BL):
        """Returns the normed embedding.

        Raises ValueError for rows longer than the position embedding.
        """
        maximum = self.positions - self.position_offset
        if tokens_BL.shape[1] > maximum:
            # A lookup past the end of a table would silently read its last row.
            raise ValueError(
                f'The rows have {tokens_BL.shape[1]} tokens, but this model has learned '
                f'{maximum} positions. Set row_length={maximum} or less.'
            )
        lookup = activations.embedding_lookup
        token_BLD = lookup(self.table('embedding', self.vocab_size), tokens_BL)
        positions_PD = self.table('position_embedding', self.positions)
        position_BLD = lookup(positions_PD, positions_BL + self.position_offset)
        type_BLD = self.table('type_embedding', self.types)[0][None, None]
        summed_BLD = (token_BLD + position_BLD + type_BLD).astype(self.dtype)
        return layers.LayerNorm(self.norm_eps, name='embedding_norm')(summed_BLD)
