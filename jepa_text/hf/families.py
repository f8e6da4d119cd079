"""Families of Hugging Face models: a row each, read and written by the same functions.

    config.json            KEYS and the defaults of a family           configs.py
    model.safetensors      its names of our modules                    weights.py
    classes for tasks      its names of the parts of a head            task_head.py

A kernel is the transpose of their weight. If several of our modules have the same name,
they are the rows of one of their tensors, in the order of the table. Rows whose
parameters a model lacks are ignored, so that a table need not distinguish models with and
without biases or norms.
"""

import dataclasses
import re
from typing import NamedTuple

ACTIVATIONS = {
    'silu': 'silu',
    'swish': 'silu',
    'gelu': 'gelu',
    'gelu_new': 'gelu_tanh',
    'gelu_pytorch_tanh': 'gelu_tanh',
    'relu': 'relu',
}
# The inverse, with the first name for each.
THEIR_ACTIVATIONS = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}

_SIZES = {
    'vocab_rows': 'vocab_size',
    'width': 'hidden_size',
    'depth': 'num_hidden_layers',
    'heads': 'num_attention_heads',
    'ffn_width': 'intermediate_size',
}
# {our key: key in config.json} of each model of ours, where both have the same value, or
# the two names of an activation.
KEYS = {
    'transformer': {
        **_SIZES,
        'kv_heads': 'num_key_value_heads',
        'head_width': 'head_dim',
        'norm_eps': 'rms_norm_eps',
        'o_bias': 'attention_bias',
        'ffn_bias': 'mlp_bias',
    },
    'bert': {
        **_SIZES,
        'positions': 'max_position_embeddings',
        'types': 'type_vocab_size',
        'norm_eps': 'layer_norm_eps',
        'act': 'hidden_act',
    },
    'modernbert': {
        **_SIZES,
        'norm_eps': 'norm_eps',
        'norm_bias': 'norm_bias',
        'attention_bias': 'attention_bias',
        'ffn_bias': 'mlp_bias',
        'head_bias': 'classifier_bias',
        'lm_head_bias': 'decoder_bias',
        'act': 'hidden_activation',
        'head_act': 'classifier_activation',
    },
}
LAYER_TYPES = ('full_attention', 'sliding_attention')
STRETCH = {
    'factor': 'factor',
    'low': 'low_freq_factor',
    'high': 'high_freq_factor',
    'length': 'original_max_position_embeddings',
}
# Tensors that neither encoder nor LM head has: poolers, heads of tasks, and tables that
# can be computed.
_LEFT_OUT = re.compile(
    r'^(classifier|score|dense|qa_outputs)\.|pooler\.|^cls\.seq_relationship\.|'
    r'rotary_emb\.inv_freq$|embeddings\.position_ids$'
)


class TaskClass(NamedTuple):
    """A class of transformers with the head of a task.

    names   {our part: their name of it}
    pools   {ours: theirs}, none for tokens; the usual one first
    act     of the layer before the last; '': no such layer; 'unbiased': nor a bias
    prefix  of the encoder's names if it is not that of the family
    """

    names: dict
    pools: dict = {}
    act: str = ''
    prefix: str | None = None


@dataclasses.dataclass(frozen=True)
class Family:
    """A `model_type`.

    model     our model
    stem      how the names of its classes in transformers begin
    prefix    of the encoder's names; files without a head may lack it
    names     {our module, or parameter: theirs}, where `{i}` is the number of the layer
    defaults  of its config
    tasks     {form of a head: TaskClass}
    causal    it was trained with causal attention
    unread    keys that its class in transformers ignores
    older     (name, replacement) of parts of names in older files
    """

    model: str
    stem: str
    prefix: str
    names: dict
    defaults: dict
    tasks: dict
    causal: bool = False
    unread: tuple = ()
    older: tuple = ()

    @property
    def architecture(self):
        """Its class with an LM head."""
        return f'{self.stem}For{"Causal" if self.causal else "Masked"}LM'

    @property
    def embedding(self):
        """Their name of the embedding."""
        return f'{self.prefix}{self.names["encoder/embedding"]}.weight'

    @property
    def output(self):
        """Their name of the kernel of the LM head."""
        return f'{self.names["lm_head/output"]}.weight'

    def is_of_head(self, name):
        """Whether a tensor belongs to the LM head."""
        theirs = (x for ours, x in self.names.items() if ours.startswith('lm_head'))
        return name.rpartition('.')[0] in theirs

    def is_left_out(self, name):
        """Whether a tensor has no counterpart in our models."""
        bare = name.removeprefix(self.prefix)
        return any(_LEFT_OUT.search(x) is not None for x in (name, bare))


def _in_layers(theirs, names):
    return {f'encoder/layers/{ours}': f'{theirs}.{{i}}.{x}' for ours, x in names.items()}


_CLASSIFIER = {'classifier': 'classifier'}
_DECODER_NAMES = {
    'encoder/embedding': 'embed_tokens',
    **_in_layers(
        'layers',
        {
            'attention_norm': 'input_layernorm',
            'attention/q': 'self_attn.q_proj',
            'attention/k': 'self_attn.k_proj',
            'attention/v': 'self_attn.v_proj',
            'attention/o': 'self_attn.o_proj',
            'attention/q_norm': 'self_attn.q_norm',
            'attention/k_norm': 'self_attn.k_norm',
            'ffn_norm': 'post_attention_layernorm',
            'ffn/gate': 'mlp.gate_proj',
            'ffn/up': 'mlp.up_proj',
            'ffn/down': 'mlp.down_proj',
        },
    ),
    'encoder/norm': 'norm',
    'lm_head/output': 'lm_head',
}


def _decoder(stem, tasks=None, causal=True, unread=(), question=None, **defaults):
    """A family like Llama; `question` is the prefix of its class for answers."""
    score = {'classifier': 'score'}
    basic = dict(
        num_key_value_heads=None,
        head_dim=None,
        hidden_act='silu',
        rms_norm_eps=1e-6,
        tie_word_embeddings=False,
        rope_theta=10_000.0,
        attention_bias=False,
        mlp_bias=False,
        max_position_embeddings=2048,
    )
    return Family(
        'transformer',
        stem,
        'model.',
        _DECODER_NAMES,
        basic | defaults,
        tasks
        or {
            'sequence': TaskClass(score, {'last': None}, 'unbiased'),
            'token': TaskClass(score),
            'question': TaskClass({'classifier': 'qa_outputs'}, prefix=question),
        },
        causal,
        unread,
        # Of the classes for question answering.
        older=(('transformer.', 'model.'),),
    )


_BERT_NAMES = {
    'encoder/embedding': 'embeddings.word_embeddings',
    'encoder/position_embedding': 'embeddings.position_embeddings',
    'encoder/type_embedding': 'embeddings.token_type_embeddings',
    'encoder/embedding_norm': 'embeddings.LayerNorm',
    **_in_layers(
        'encoder.layer',
        {
            'attention/q': 'attention.self.query',
            'attention/k': 'attention.self.key',
            'attention/v': 'attention.self.value',
            'attention/o': 'attention.output.dense',
            'attention_norm': 'attention.output.LayerNorm',
            'ffn/up': 'intermediate.dense',
            'ffn/down': 'output.dense',
            'ffn_norm': 'output.LayerNorm',
        },
    ),
}


def _bert(stem, prefix, head, sequence, pad=1):
    """BERT or RoBERTa, which differ in the names of the heads; `pad` is the usual id."""
    bias, decoder = head['lm_head'], head['lm_head/output']
    return Family(
        'bert',
        stem,
        prefix,
        _BERT_NAMES | head,
        dict(
            hidden_act='gelu',
            max_position_embeddings=512,
            type_vocab_size=2,
            layer_norm_eps=1e-12,
            tie_word_embeddings=True,
            position_embedding_type='absolute',
            pad_token_id=pad,
        ),
        {
            # Its dense layer reads the first token.
            'sequence': TaskClass(sequence, {'cls': None}, 'tanh'),
            'token': TaskClass(_CLASSIFIER),
            'question': TaskClass({'classifier': 'qa_outputs'}),
        },
        older=(
            ('LayerNorm.gamma', 'LayerNorm.weight'),
            ('LayerNorm.beta', 'LayerNorm.bias'),
            (f'{decoder}.bias', f'{bias}.bias'),
        ),
    )


_ROBERTA = dict(
    prefix='roberta.',
    head={
        'lm_head/dense': 'lm_head.dense',
        'lm_head/norm': 'lm_head.layer_norm',
        'lm_head/output': 'lm_head.decoder',
        'lm_head': 'lm_head',
    },
    sequence={'dense': 'classifier.dense', 'classifier': 'classifier.out_proj'},
)

_MODERNBERT_HEAD = {'dense': 'head.dense', 'norm': 'head.norm', **_CLASSIFIER}
_MODERNBERT = Family(
    'modernbert',
    'ModernBert',
    'model.',
    {
        'encoder/embedding': 'embeddings.tok_embeddings',
        'encoder/embedding_norm': 'embeddings.norm',
        **_in_layers(
            'layers',
            {
                'attention_norm': 'attn_norm',
                **{f'attention/{part}': 'attn.Wqkv' for part in 'qkv'},
                'attention/o': 'attn.Wo',
                'ffn_norm': 'mlp_norm',
                **dict.fromkeys(('ffn/gate', 'ffn/up'), 'mlp.Wi'),
                'ffn/down': 'mlp.Wo',
            },
        ),
        'encoder/norm': 'final_norm',
        'lm_head/dense': 'head.dense',
        'lm_head/norm': 'head.norm',
        'lm_head/output': 'decoder',
        'lm_head': 'decoder',
    },
    dict(
        hidden_activation='gelu',
        max_position_embeddings=8192,
        norm_eps=1e-5,
        norm_bias=False,
        attention_bias=False,
        mlp_bias=False,
        decoder_bias=True,
        classifier_bias=False,
        classifier_activation='gelu',
        classifier_pooling='cls',
        local_attention=128,
        global_attn_every_n_layers=3,
        global_rope_theta=160_000.0,
        local_rope_theta=10_000.0,
        rope_parameters=None,
        layer_types=None,
        tie_word_embeddings=True,
    ),
    {
        'sequence': TaskClass(
            _MODERNBERT_HEAD, {'mean': 'mean', 'cls': 'cls'}, 'gelu_norm'
        ),
        **dict.fromkeys(
            ('token', 'question'), TaskClass(_MODERNBERT_HEAD, act='gelu_norm')
        ),
    },
    unread=('is_decoder',),
)

_QWEN = dict(
    question='transformer.',
    max_position_embeddings=32768,
    use_sliding_window=False,
    sliding_window=4096,
    max_window_layers=28,
    layer_types=None,
)
FAMILIES = {
    'llama': _decoder('Llama', question='transformer.'),
    'mistral': _decoder(
        'Mistral',
        unread=('attention_bias', 'mlp_bias', 'use_sliding_window'),
        num_key_value_heads=8,
        sliding_window=4096,
        max_position_embeddings=131072,
    ),
    'qwen2': _decoder('Qwen2', unread=('attention_bias', 'mlp_bias'), **_QWEN),
    'qwen3': _decoder('Qwen3', unread=('mlp_bias',), **_QWEN, head_dim=128),
    'smollm3': _decoder(
        'SmolLM3',
        question='transformer.',
        num_key_value_heads=4,
        rope_theta=2_000_000.0,
        max_position_embeddings=32768,
        tie_word_embeddings=True,
        use_sliding_window=False,
        sliding_window=None,
        no_rope_layers=None,
        no_rope_layer_interval=4,
        layer_types=None,
    ),
    'eurobert': _decoder(
        'EuroBert',
        {
            'sequence': TaskClass(
                {'dense': 'dense', **_CLASSIFIER}, {'mean': 'mean', 'cls': 'bos'}, 'gelu'
            ),
            'token': TaskClass(_CLASSIFIER),
        },
        causal=False,
        unread=('is_decoder',),
        rms_norm_eps=1e-5,
        max_position_embeddings=8192,
        classifier_pooling='late',
    ),
    'bert': _bert(
        'Bert',
        'bert.',
        {
            'lm_head/dense': 'cls.predictions.transform.dense',
            'lm_head/norm': 'cls.predictions.transform.LayerNorm',
            'lm_head/output': 'cls.predictions.decoder',
            'lm_head': 'cls.predictions',
        },
        {'dense': 'bert.pooler.dense', **_CLASSIFIER},
        pad=0,
    ),
    'roberta': _bert('Roberta', **_ROBERTA),
    'xlm-roberta': _bert('XLMRoberta', **_ROBERTA),
    'modernbert': _MODERNBERT,
}
# transformers (5.24) replaces the tokenizer of a Qwen2 by one of its own, whatever
# tokenizer_class says. It is read, but exported as a Llama with the same biases.
WRITTEN = tuple(family for family in FAMILIES if family != 'qwen2')
