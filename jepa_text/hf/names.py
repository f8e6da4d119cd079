"""Tables of parameter names per Hugging Face family, used for both import and export.

    encoder/layers/attention/q/kernel [N, D, HK]  <->  N of
    model.layers.{i}.self_attn.q_proj.weight [HK, D]

A kernel is the transpose of their weight. If several of our parameters are rows of one of
their tensors, the line names all of them: `q+k+v`. Lines whose parameters the model lacks
are ignored (hf/layout.py), so the tables need not distinguish models with and without
biases or norms.
"""

import dataclasses
import re

# Parameters with one row or column per token.
BY_TOKEN = ('encoder/embedding', 'lm_head/output/kernel', 'lm_head/bias')


@dataclasses.dataclass(frozen=True)
class Family:
    """The names of one family.

    lines       (ours, theirs), where `{i}` is the number of the layer
    prefix      of the encoder's names; files without a head may lack it
    offset      their number of the layer that is the first of our stack
    duplicates  (name, second name) of a tensor that files with an untied head have twice
    legacy      (pattern, replacement) for names of older files
    left_out    pattern of tensors that neither encoder nor LM head has: poolers, heads
                of tasks, tables that can be computed
    """

    lines: tuple
    prefix: str
    offset: int = 0
    duplicates: tuple = ()
    legacy: tuple = ()
    left_out: str = r'$^'

    def theirs(self, ours):
        """Their name of a parameter outside the layers; None if it has none."""
        return dict(self.lines).get(ours)

    def of_head(self):
        """Their names of the parameters of the LM head."""
        return {theirs for ours, theirs in self.lines if ours.startswith('lm_head/')}

    def is_left_out(self, name):
        """Whether a tensor has no counterpart in our models."""
        bare = name.removeprefix(self.prefix)
        return any(re.search(self.left_out, x) is not None for x in (name, bare))


def _linear(ours, theirs):
    return (f'{ours}/kernel', f'{theirs}.weight'), (f'{ours}/bias', f'{theirs}.bias')


def _norm(ours, theirs):
    return (f'{ours}/scale', f'{theirs}.weight'), (f'{ours}/bias', f'{theirs}.bias')


def _layer(*lines, prefix):
    """Prepends the layers' prefixes to the names on both sides."""
    return tuple(
        (f'encoder/layers/{ours}', f'{prefix}.{{i}}.{theirs}') for ours, theirs in lines
    )


_TASKS = r'^(classifier|score|dense|qa_outputs|pooler)\.|rotary_emb\.inv_freq$'

LLAMA = Family(
    lines=(
        ('encoder/embedding', 'model.embed_tokens.weight'),
        *_layer(
            *_norm('attention_norm', 'input_layernorm'),
            *_linear('attention/q', 'self_attn.q_proj'),
            *_linear('attention/k', 'self_attn.k_proj'),
            *_linear('attention/v', 'self_attn.v_proj'),
            *_linear('attention/o', 'self_attn.o_proj'),
            *_norm('attention/q_norm', 'self_attn.q_norm'),
            *_norm('attention/k_norm', 'self_attn.k_norm'),
            *_norm('ffn_norm', 'post_attention_layernorm'),
            *_linear('ffn/gate', 'mlp.gate_proj'),
            *_linear('ffn/up', 'mlp.up_proj'),
            *_linear('ffn/down', 'mlp.down_proj'),
            prefix='model.layers',
        ),
        *_norm('encoder/norm', 'model.norm'),
        *_linear('lm_head/output', 'lm_head'),
    ),
    prefix='model.',
    # Of the classes for question answering.
    legacy=((r'^transformer\.', 'model.'),),
    left_out=_TASKS,
)


def _bert(prefix, dense, norm, decoder, bias):
    """BERT or RoBERTa, which differ in the names of the head."""
    return Family(
        lines=(
            ('encoder/embedding', f'{prefix}embeddings.word_embeddings.weight'),
            (
                'encoder/position_embedding',
                f'{prefix}embeddings.position_embeddings.weight',
            ),
            (
                'encoder/type_embedding',
                f'{prefix}embeddings.token_type_embeddings.weight',
            ),
            *_norm('encoder/embedding_norm', f'{prefix}embeddings.LayerNorm'),
            *_layer(
                *_linear('attention/q', 'attention.self.query'),
                *_linear('attention/k', 'attention.self.key'),
                *_linear('attention/v', 'attention.self.value'),
                *_linear('attention/o', 'attention.output.dense'),
                *_norm('attention_norm', 'attention.output.LayerNorm'),
                *_linear('ffn/up', 'intermediate.dense'),
                *_linear('ffn/down', 'output.dense'),
                *_norm('ffn_norm', 'output.LayerNorm'),
                prefix=f'{prefix}encoder.layer',
            ),
            *_linear('lm_head/dense', dense),
            *_norm('lm_head/norm', norm),
            ('lm_head/output/kernel', f'{decoder}.weight'),
            ('lm_head/bias', bias),
        ),
        prefix=prefix,
        duplicates=((bias, f'{decoder}.bias'),),
        legacy=(
            (r'LayerNorm\.gamma$', 'LayerNorm.weight'),
            (r'LayerNorm\.beta$', 'LayerNorm.bias'),
            (rf'^{re.escape(decoder)}\.bias$', bias),
        ),
        left_out=rf'pooler\.|embeddings\.position_ids$|^cls\.seq_relationship\.|{_TASKS}',
    )


BERT = _bert(
    'bert.',
    dense='cls.predictions.transform.dense',
    norm='cls.predictions.transform.LayerNorm',
    decoder='cls.predictions.decoder',
    bias='cls.predictions.bias',
)
ROBERTA = _bert(
    'roberta.',
    dense='lm_head.dense',
    norm='lm_head.layer_norm',
    decoder='lm_head.decoder',
    bias='lm_head.bias',
)


def _modernbert():
    layer = _layer(
        *_norm('attention_norm', 'attn_norm'),
        *_linear('attention/q+k+v', 'attn.Wqkv'),
        *_linear('attention/o', 'attn.Wo'),
        *_norm('ffn_norm', 'mlp_norm'),
        *_linear('ffn/gate+up', 'mlp.Wi'),
        *_linear('ffn/down', 'mlp.Wo'),
        prefix='model.layers',
    )
    first = tuple(
        (ours.replace('/layers/', '/first/'), theirs.format(i=0))
        for ours, theirs in layer
    )
    return Family(
        lines=(
            ('encoder/embedding', 'model.embeddings.tok_embeddings.weight'),
            *_norm('encoder/embedding_norm', 'model.embeddings.norm'),
            *first,
            *layer,
            *_norm('encoder/norm', 'model.final_norm'),
            *_linear('lm_head/dense', 'head.dense'),
            *_norm('lm_head/norm', 'head.norm'),
            ('lm_head/output/kernel', 'decoder.weight'),
            ('lm_head/bias', 'decoder.bias'),
        ),
        prefix='model.',
        offset=1,
        left_out=_TASKS,
    )


MODERNBERT = _modernbert()


FAMILIES = {
    'llama': LLAMA,
    'mistral': LLAMA,
    'qwen2': LLAMA,
    'qwen3': LLAMA,
    'smollm3': LLAMA,
    'eurobert': LLAMA,
    'bert': BERT,
    'roberta': ROBERTA,
    'xlm-roberta': ROBERTA,
    'modernbert': MODERNBERT,
}
