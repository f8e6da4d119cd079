"""Validation of the values in a config.json, before anything is built from it.

Errors name the key, its value and the allowed values. null, strings and lists are never
accepted as numbers. Keys that the family does not read may have any value.
"""

import math
import reprlib

from jepa_text.config import ranges
from jepa_text.hf import families
from jepa_text.models.stack import MAX_INT


def _whole(minimum=1, maximum=ranges.MAX_INT):
    def is_valid(value):
        return type(value) is int and minimum <= value <= maximum

    return is_valid, f'a whole number of at least {minimum:,} and at most {maximum:,}'


def _number(below=math.inf):
    def is_valid(value):
        return type(value) in (int, float) and 0 < value < below

    words = 'a finite number above 0'
    return is_valid, words if below == math.inf else f'a number above 0 and below {below}'


def _list(known):
    def is_valid(value):
        return isinstance(value, list) and all(
            type(item) is type(known[0]) and item in known for item in value
        )

    return is_valid, f'a list of {", ".join(map(repr, known))}, one per layer'


def _or_null(rule):
    is_valid, words = rule
    return lambda value: value is None or is_valid(value), f'{words}, or null'


_FLAG = (lambda value: isinstance(value, bool), 'true or false')
_NAME = (lambda value: isinstance(value, str), 'a string')
_OBJECT = (lambda value: isinstance(value, dict), 'an object')
_NAMES = (
    lambda value: isinstance(value, list) and all(isinstance(x, str) for x in value),
    'a list of strings',
)

# Keys of rotary positions, in the object `rope_parameters`.
_ROPE = {
    'rope_type': _NAME,
    'type': _NAME,
    'rope_theta': _number(),
    'partial_rotary_factor': _or_null(_number()),
    'factor': _number(),
    'low_freq_factor': _number(),
    'high_freq_factor': _number(),
    'original_max_position_embeddings': _whole(),
    **dict.fromkeys(families.LAYER_TYPES, _or_null(_OBJECT)),
}
RULES = {
    **dict.fromkeys(
        (
            *('vocab_size', 'max_position_embeddings', 'type_vocab_size'),
            *('global_attn_every_n_layers', 'no_rope_layer_interval'),
        ),
        _whole(),
    ),
    'hidden_size': _whole(maximum=MAX_INT['width']),
    'intermediate_size': _whole(maximum=MAX_INT['ffn_width']),
    'num_attention_heads': _whole(maximum=MAX_INT['heads']),
    'num_key_value_heads': _or_null(_whole(maximum=MAX_INT['kv_heads'])),
    'num_hidden_layers': _whole(maximum=MAX_INT['depth']),
    'local_attention': _whole(minimum=2),
    'max_window_layers': _whole(minimum=0),
    'pad_token_id': _whole(minimum=0),
    **dict.fromkeys(('head_dim', 'sliding_window'), _or_null(_whole())),
    **dict.fromkeys(('rms_norm_eps', 'layer_norm_eps', 'norm_eps'), _number(below=1)),
    **dict.fromkeys(('global_rope_theta', 'local_rope_theta'), _number()),
    **dict.fromkeys(('rope_theta', 'partial_rotary_factor'), _or_null(_number())),
    **dict.fromkeys(
        (
            *('attention_bias', 'mlp_bias', 'norm_bias', 'decoder_bias'),
            *('classifier_bias', 'tie_word_embeddings', 'use_sliding_window'),
            *('is_causal', 'is_decoder'),
        ),
        _FLAG,
    ),
    **dict.fromkeys(
        (
            *('hidden_act', 'hidden_activation', 'classifier_activation'),
            'position_embedding_type',
        ),
        _NAME,
    ),
    **dict.fromkeys(('rope_parameters', 'rope_scaling'), _or_null(_OBJECT)),
    'architectures': _or_null(_NAMES),
    'layer_types': _or_null(_list(families.LAYER_TYPES)),
    'no_rope_layers': _or_null(_list((0, 1))),
}
# Keys that are read although no family has a default for them.
_ALWAYS = (
    *('rope_parameters', 'rope_scaling', 'partial_rotary_factor', 'layer_types'),
    *('is_causal', 'is_decoder', 'architectures'),
)


def check(config, family):
    """Raises ValueError for an invalid value or combination of sizes in a config.json.

    `config` has the family's defaults; missing keys are not checked.
    """
    kind = families.KINDS[family]
    read = {*kind.defaults, *families.SIZES[kind.model].values(), *_ALWAYS}
    if family == 'bert':
        read.remove('pad_token_id')
    for key in sorted(read & set(config) & set(RULES)):
        _check_value(key, config[key], RULES[key])
    for key in ('rope_parameters', 'rope_scaling'):
        _check_rope(key, config.get(key) or {})
    _check_sizes(config, kind.model)
    if family in ('roberta', 'xlm-roberta'):
        offset, maximum = config['pad_token_id'] + 1, config['max_position_embeddings']
        if offset >= maximum:
            raise _error(
                'max_position_embeddings', maximum, f'above pad_token_id + 1, {offset}'
            )


def _check_rope(where, rope):
    if rope and not set(rope) & set(_ROPE):
        raise _error(where, rope, f'null or an object with some of {", ".join(_ROPE)}')
    for key in sorted(set(rope) & set(_ROPE)):
        _check_value(f'{where}.{key}', rope[key], _ROPE[key])
        if key in families.LAYER_TYPES:
            _check_rope(f'{where}.{key}', rope[key] or {})
    low, high = rope.get('low_freq_factor'), rope.get('high_freq_factor')
    if None not in (low, high) and low >= high:
        raise _error(f'{where}.high_freq_factor', high, f'above low_freq_factor, {low}')


def _check_sizes(config, model):
    depth, width = config.get('num_hidden_layers'), config.get('hidden_size')
    heads, kv_heads = (
        config.get(f'num_{name}_heads') for name in ('attention', 'key_value')
    )
    for key in ('layer_types', 'no_rope_layers'):
        listed = config.get(key)
        if listed is not None and depth is not None and len(listed) != depth:
            raise _error(key, listed, f'a list of num_hidden_layers={depth} values')
    if None in (width, heads):
        return
    head_width = config.get('head_dim') if model == 'transformer' else None
    if head_width is None and width % heads:
        raise _error('hidden_size', width, f'a multiple of num_attention_heads={heads}')
    if model == 'transformer' and kv_heads is not None and heads % kv_heads:
        words = f'a multiple of num_key_value_heads={kv_heads}'
        raise _error('num_attention_heads', heads, words)
    if model != 'bert' and (head_width or width // heads) % 2:
        key = 'hidden_size' if head_width is None else 'head_dim'
        words = 'such that a head has an even width, for rotary positions'
        raise _error(key, config[key], words)


def _check_value(key, value, rule):
    is_valid, words = rule
    if not is_valid(value):
        raise _error(key, value, words)


def _error(key, value, words):
    return ValueError(f'config.json: {key}={reprlib.repr(value)} must be {words}.')
