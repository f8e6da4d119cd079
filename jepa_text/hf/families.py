"""Supported Hugging Face model families: names of their config keys, and defaults."""

import dataclasses

from jepa_text.config import resolve

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

_COMMON = {
    'vocab_rows': 'vocab_size',
    'width': 'hidden_size',
    'depth': 'num_hidden_layers',
    'heads': 'num_attention_heads',
}
# {our key: key in config.json} of the sizes of each model of ours.
SIZES = {
    'transformer': {
        **_COMMON,
        'kv_heads': 'num_key_value_heads',
        'ffn_width': 'intermediate_size',
        'head_width': 'head_dim',
        'norm_eps': 'rms_norm_eps',
    },
    'bert': {
        **_COMMON,
        'ffn_width': 'intermediate_size',
        'positions': 'max_position_embeddings',
        'types': 'type_vocab_size',
        'norm_eps': 'layer_norm_eps',
    },
    'modernbert': {
        **_COMMON,
        'ffn_width': 'intermediate_size',
        'norm_eps': 'norm_eps',
        'norm_bias': 'norm_bias',
        'attention_bias': 'attention_bias',
        'ffn_bias': 'mlp_bias',
        'head_bias': 'classifier_bias',
        'lm_head_bias': 'decoder_bias',
    },
}
LAYER_TYPES = ('full_attention', 'sliding_attention')
STRETCH = {
    'factor': 'factor',
    'low': 'low_freq_factor',
    'high': 'high_freq_factor',
    'length': 'original_max_position_embeddings',
}


@dataclasses.dataclass(frozen=True)
class Kind:
    """A `model_type`: our model, the defaults of its config, its default architecture.

    `causal`: it was trained with causal attention. Its class in transformers ignores the
    `unread` keys.
    """

    model: str
    defaults: dict
    causal: bool = False
    architecture: str = ''
    unread: tuple = ()


def _decoder(architecture, causal=True, unread=(), **defaults):
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
    return Kind('transformer', basic | defaults, causal, architecture, unread)


def _bert(architecture, **defaults):
    basic = dict(
        hidden_act='gelu',
        max_position_embeddings=512,
        type_vocab_size=2,
        layer_norm_eps=1e-12,
        tie_word_embeddings=True,
        position_embedding_type='absolute',
        pad_token_id=0,
    )
    return Kind('bert', basic | defaults, architecture=architecture)


_QWEN = dict(
    rms_norm_eps=1e-6,
    max_position_embeddings=32768,
    use_sliding_window=False,
    sliding_window=4096,
    max_window_layers=28,
    layer_types=None,
)

KINDS = {
    'llama': _decoder('LlamaForCausalLM'),
    'mistral': _decoder(
        'MistralForCausalLM',
        unread=('attention_bias', 'mlp_bias'),
        num_key_value_heads=8,
        sliding_window=4096,
        max_position_embeddings=131072,
    ),
    'qwen2': _decoder('Qwen2ForCausalLM', unread=('attention_bias', 'mlp_bias'), **_QWEN),
    'qwen3': _decoder('Qwen3ForCausalLM', unread=('mlp_bias',), **_QWEN, head_dim=128),
    'smollm3': _decoder(
        'SmolLM3ForCausalLM',
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
        'EuroBertForMaskedLM',
        causal=False,
        rms_norm_eps=1e-5,
        max_position_embeddings=8192,
    ),
    'bert': _bert('BertForMaskedLM'),
    'roberta': _bert('RobertaForMaskedLM', pad_token_id=1),
    'xlm-roberta': _bert('XLMRobertaForMaskedLM', pad_token_id=1),
    'modernbert': Kind(
        'modernbert',
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
            local_attention=128,
            global_attn_every_n_layers=3,
            global_rope_theta=160_000.0,
            local_rope_theta=10_000.0,
            rope_parameters=None,
            layer_types=None,
            tie_word_embeddings=True,
        ),
        architecture='ModernBertForMaskedLM',
    ),
}


def shift_of(config, causal):
    """How many positions before a token the LM head predicts it: 0 or 1.

    Given by the `jepa_text` entry of our exports, else 1 if causal. Raises ValueError for
    an invalid entry.
    """
    own = config.get('jepa_text', {})
    shift = own.get('shift', int(causal)) if isinstance(own, dict) else None
    if shift not in (0, 1):
        raise ValueError(
            f'config.json: jepa_text={own!r} must be {{"shift": 0}} or {{"shift": 1}}, '
            'or be left out.'
        )
    return shift


def complete(config, family=None):
    """(family, config with defaults). Raises ValueError for an unknown family."""
    family = family or config.get('model_type')
    if not isinstance(family, str) or family not in KINDS:
        raise ValueError(
            f'model_type={family!r} is not supported.'
            f'{resolve.nearest(str(family), KINDS)}'
        )
    kind = KINDS[family]
    given = {key: value for key, value in config.items() if key not in kind.unread}
    return family, kind.defaults | given
