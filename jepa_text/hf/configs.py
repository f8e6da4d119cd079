"""Conversion between a Hugging Face config.json and a model section, in both directions.

Sections here are canonical: every size is given, and `vocab_rows` is the number of rows
of the embedding. Keys missing from config.json have the default of its `transformers`
class. Values are checked before anything is built from them: null, strings and lists are
never accepted as numbers. Keys that the family does not read may have any value.
"""

import dataclasses
import re
import reprlib

from jepa_text.hf import families
from jepa_text.hf.families import FAMILIES, LAYER_TYPES, STRETCH
from jepa_text.models import stack
from jepa_text.settings import ranges, resolve

# Options of an encoder that determine how it is computed, but not what.
_HOW = ('scan', 'remat', 'attention', 'dtype', 'name', 'parent')

_NUMBER = dict(above=0)
_WHOLE = dict(whole=True, minimum=1, maximum=ranges.MAX_INT)
# What a value must be: a type, the bounds of a number, or the items of a list. The others
# are checked when the encoder is built.
RULES = {
    key: rule
    for keys, rule in (
        ('num_hidden_layers', _WHOLE | stack.BOUNDS['depth']),
        ('vocab_size max_position_embeddings sliding_window', _WHOLE),
        ('original_max_position_embeddings global_attn_every_n_layers', _WHOLE),
        ('no_rope_layer_interval', _WHOLE),
        ('local_attention', _WHOLE | dict(minimum=2)),
        ('max_window_layers pad_token_id', _WHOLE | dict(minimum=0)),
        ('rope_theta global_rope_theta local_rope_theta', _NUMBER),
        ('partial_rotary_factor factor low_freq_factor high_freq_factor', _NUMBER),
        ('rms_norm_eps layer_norm_eps norm_eps', _NUMBER | dict(below=1)),
        ('tie_word_embeddings use_sliding_window is_causal is_decoder', bool),
        ('rope_type type', str),
        ('rope_parameters rope_scaling full_attention sliding_attention', dict),
        ('architectures', ()),
        ('layer_types', LAYER_TYPES),
        ('no_rope_layers', (0, 1)),
    )
    for key in keys.split()
}
NULLABLE = (
    *('sliding_window', 'rope_theta', 'partial_rotary_factor', 'architectures'),
    *('rope_parameters', 'rope_scaling', 'layer_types', 'no_rope_layers', *LAYER_TYPES),
)
# Keys of rotary positions, in the object `rope_parameters`.
_ROPE = ('rope_type', 'type', 'rope_theta', 'partial_rotary_factor', *STRETCH.values())
# Keys that are read although no family has a default for them.
_ALWAYS = (
    *('rope_parameters', 'rope_scaling', 'partial_rotary_factor', 'layer_types'),
    *('is_causal', 'is_decoder', 'architectures'),
)


def complete(config, family=None):
    """(family, config with defaults). Raises ValueError for an unknown family and for
    invalid values."""
    family = family or config.get('model_type')
    resolve.check_choice('model_type', family, FAMILIES)
    kind = FAMILIES[family]
    # Classes of encoders are bidirectional, whatever a config says.
    unread = kind.unread if kind.causal else (*kind.unread, 'is_causal')
    given = {key: value for key, value in config.items() if key not in unread}
    config = kind.defaults | given
    read = {*kind.defaults, *families.KEYS[kind.model].values(), *_ALWAYS} & set(RULES)
    if family == 'bert':
        read.remove('pad_token_id')
    for key in sorted(read):
        if key in config or key not in _ALWAYS:
            _check_value(key, config.get(key), RULES[key])
    for key in ('rope_parameters', 'rope_scaling'):
        _check_rope(key, config.get(key) or {})
    for key in ('layer_types', 'no_rope_layers'):
        listed, depth = config.get(key), config['num_hidden_layers']
        if listed is not None and len(listed) != depth:
            raise _error(key, listed, f'a list of num_hidden_layers={depth} values')
    return family, config


def _check_value(where, value, rule):
    key = where.rpartition('.')[2]
    if value is None and key in NULLABLE:
        return
    if isinstance(rule, dict):
        if 'whole' in rule and type(value) is not int:
            raise _error(where, value, ranges.describe(**rule))
        ranges.number(f'config.json: {where}', value, **rule)
    elif isinstance(rule, type):
        if not isinstance(value, rule):
            words = {bool: 'true or false', str: 'a string', dict: 'an object'}
            raise _error(where, value, words[rule])
    elif not isinstance(value, list) or any(
        item not in rule if rule else not isinstance(item, str) for item in value
    ):
        words = ', '.join(map(repr, rule))
        raise _error(where, value, f'a list of {words or "strings"}')


def _check_rope(where, rope):
    known = (*_ROPE, *LAYER_TYPES)
    if rope and not set(rope) & set(known):
        raise _error(where, rope, f'null or an object with some of {", ".join(known)}')
    for key in sorted(set(rope) & set(known)):
        _check_value(f'{where}.{key}', rope[key], RULES[key])
        if key in LAYER_TYPES:
            _check_rope(f'{where}.{key}', rope[key] or {})
    low, high = rope.get('low_freq_factor'), rope.get('high_freq_factor')
    if None not in (low, high) and low >= high:
        raise _error(f'{where}.high_freq_factor', high, f'above low_freq_factor, {low}')


def _error(key, value, words):
    return ValueError(f'config.json: {key}={reprlib.repr(value)} must be {words}.')


def to_section(config, family=None):
    """The model section of a config.json (a dict).

    Raises ValueError for an unknown family, a missing size, an invalid value, and for
    anything that the models here compute differently, such as other activations or
    other scaling of positions.
    """
    family, config = complete(config, family)
    model = FAMILIES[family].model
    read = {
        'transformer': _read_transformer,
        'bert': _read_bert,
        'modernbert': _read_modern,
    }
    names = families.KEYS[model]
    section = {ours: config.get(key) for ours, key in names.items()}
    for ours in section.keys() & {'act', 'head_act'}:
        _require(config, names[ours], *families.ACTIVATIONS)
        section[ours] = families.ACTIVATIONS[section[ours]]
    section |= read[model](family, config, section)
    try:
        return canonical(encoder_of({'name': model, **section}))
    except ValueError as error:
        text = re.sub(r'\w+(?==)', lambda x: names.get(x[0], x[0]), str(error))
        raise ValueError(f'config.json: {text}') from error


def encoder_of(section):
    """The encoder module of a canonical section."""
    section = {'vocab_size': section['vocab_rows'], **section}
    return resolve.build('models', section)


def to_config(section, family, tied, causal):
    """The config.json of a canonical section, as a dict that `to_section` can read.

    A decoder that is not `causal` gets is_causal=false, which makes it bidirectional in
    transformers. Raises ValueError if the family cannot express an option of the section.
    """
    kind = FAMILIES[family]
    if section['name'] != kind.model:
        matching = [f for f in families.WRITTEN if FAMILIES[f].model == section['name']]
        raise ValueError(
            f'A {section["name"]} is no {family}; use one of: {", ".join(matching)}.'
        )
    config = {
        'model_type': family,
        'architectures': [kind.architecture],
        'tie_word_embeddings': tied,
    }
    for ours, key in families.KEYS[kind.model].items():
        is_act = ours in ('act', 'head_act')
        value = section[ours]
        config[key] = families.THEIR_ACTIVATIONS[value] if is_act else value
    if kind.model == 'transformer':
        config |= _write_transformer(family, section, causal)
    elif kind.model == 'modernbert':
        config |= _write_modern(section)
    elif family != 'bert':
        config['pad_token_id'] = section['position_offset'] - 1
    if kind.causal and not causal:
        config['is_causal'] = False
    again = to_section(config)
    if again != section:
        lost = sorted(k for k in section if section[k] != again.get(k))
        raise ValueError(
            f'{family} cannot express '
            + ', '.join(f'{k}={section[k]!r}' for k in lost)
            + ': choose a family that can, or leave it out.'
        )
    return config


def name_of(encoder):
    """The file of an encoder's class, as a section names it."""
    return type(encoder).__module__.rsplit('.', 1)[-1]


def canonical(encoder):
    """The canonical section of an encoder module."""
    fields = {f.name: getattr(encoder, f.name) for f in dataclasses.fields(encoder)}
    section = {k: v for k, v in fields.items() if k not in _HOW}
    section['vocab_rows'] = section.pop('vocab_size')
    section['head_width'] = encoder.head_width or encoder.width // encoder.heads
    if 'head_act' in section:
        section['head_act'] = encoder.head['act']
    scaling = section.get('rope_scaling')
    if scaling is not None:
        section['rope_scaling'] = dict(scaling)
    return {'name': name_of(encoder), **section}


def _read_transformer(family, config, section):
    _require(config, 'hidden_act', 'silu', 'swish')
    theta, scaling = _read_rope(config)
    depth = section['depth']
    if family == 'smollm3':
        theta = _merged(theta if rotary else None for rotary in _rotary(config, depth))
    return {
        'kv_heads': section['heads' if section['kv_heads'] is None else 'kv_heads'],
        'rope_theta': theta,
        'rope_scaling': scaling,
        'window': _read_window(family, config, depth),
        'qkv_bias': bool(section['o_bias']) or family == 'qwen2',
        'qk_norm': family == 'qwen3',
    }


def _write_transformer(family, section, causal):
    thetas, windows = (
        value if isinstance(value, tuple) else (value,) * section['depth']
        for value in (section['rope_theta'], section['window'])
    )
    theta = next((t for t in thetas if t is not None), 10_000.0)
    size = next((w + int(causal) for w in windows if w is not None), None)
    rope = _write_rope(theta, section['rope_scaling'])
    # The last two are for transformers 4, which would take its defaults instead.
    config = {'hidden_act': 'silu', 'rope_parameters': rope, 'rope_theta': theta}
    if section['rope_scaling'] is not None:
        config['rope_scaling'] = rope
    if family == 'smollm3':
        config['no_rope_layers'] = [int(t is not None) for t in thetas]
    if family == 'mistral':
        config['sliding_window'] = size
    elif 'use_sliding_window' in FAMILIES[family].defaults:
        config |= {
            'use_sliding_window': size is not None,
            'sliding_window': size,
            'layer_types': [LAYER_TYPES[w is not None] for w in windows],
        }
    return config


def _rotary(config, depth):
    """For each layer of a SmolLM3, whether it has rotary positions."""
    every = config['no_rope_layer_interval']
    return config['no_rope_layers'] or [(i + 1) % every != 0 for i in range(depth)]


def _read_window(family, config, depth):
    """Window per layer, as the largest distance.

    In transformers, causal windows count the position itself, i - j < sliding_window;
    bidirectional windows do not, |i - j| <= sliding_window.
    """
    own = int(bool(config.get('is_causal', FAMILIES[family].causal)))
    # Llama has no windows, whatever its config says.
    has_windows = 'sliding_window' in FAMILIES[family].defaults
    size = config['sliding_window'] if has_windows else None
    if size is None or not config.get('use_sliding_window', True):
        return None
    if config.get('layer_types'):
        slides = [kind == 'sliding_attention' for kind in config['layer_types']]
    elif family == 'smollm3':
        slides = [not rotary for rotary in _rotary(config, depth)]
    else:
        first = config['max_window_layers'] if family.startswith('qwen') else 0
        slides = [i >= first for i in range(depth)]
    return _merged(size - own if sliding else None for sliding in slides)


def _read_rope(config):
    """(theta, scaling) from `rope_scaling`, which takes precedence as in transformers,
    `rope_parameters`, or the keys that preceded both."""
    rope = config.get('rope_scaling') or config.get('rope_parameters') or {}
    if nested := [key for key in LAYER_TYPES if key in rope]:
        raise ValueError(
            f'config.json: rope_parameters has values for {" and ".join(nested)}, but '
            'the layers of this family share their positions: give one set of values, '
            'without types of layers.'
        )
    kind = rope.get('rope_type', rope.get('type', 'default'))
    part = rope.get('partial_rotary_factor') or config.get('partial_rotary_factor') or 1
    if kind not in ('default', 'llama3') or part != 1:
        raise ValueError(
            f'config.json: rope_type={kind!r} with partial_rotary_factor={part}: only '
            "'default' and 'llama3' are supported, rotating the whole head."
        )
    theta = rope.get('rope_theta', config.get('rope_theta'))
    if theta is None:
        raise _error('rope_theta', None, 'a number above 0')
    if kind == 'default':
        return float(theta), None
    rope = {STRETCH['length']: config['max_position_embeddings']} | rope
    if lacking := set(STRETCH.values()) - set(rope):
        raise ValueError(f"config.json: rope_type='llama3' lacks {', '.join(lacking)}.")
    scaling = {ours: float(rope[theirs]) for ours, theirs in STRETCH.items()}
    return float(theta), scaling | {'length': rope[STRETCH['length']]}


def _write_rope(theta, scaling=None):
    if scaling is None:
        return {'rope_type': 'default', 'rope_theta': theta}
    stretch = {theirs: scaling[ours] for ours, theirs in STRETCH.items()}
    return {'rope_type': 'llama3', 'rope_theta': theta, **stretch}


def _read_bert(family, config, section):
    _require(config, 'position_embedding_type', 'absolute')
    if family == 'bert':
        return {'position_offset': 0}
    offset, maximum = config['pad_token_id'] + 1, config['max_position_embeddings']
    if offset >= maximum:
        raise _error(
            'max_position_embeddings', maximum, f'above pad_token_id + 1, {offset}'
        )
    # RobertaLMHead and the classes derived from it use gelu in any case.
    return {'position_offset': offset, 'head_act': 'gelu'}


def _read_modern(family, config, section):
    return {
        'global_every': _read_every(config),
        'rope_theta': _read_theta(config, 'full_attention', 'global_rope_theta'),
        'local_theta': _read_theta(config, 'sliding_attention', 'local_rope_theta'),
        'local_window': config['local_attention'] // 2,
    }


def _write_modern(section):
    return {
        'local_attention': 2 * section['local_window'],
        'layer_types': _modern_layers(section['global_every'], section['depth']),
        'rope_parameters': {
            'full_attention': _write_rope(section['rope_theta']),
            'sliding_attention': _write_rope(section['local_theta']),
        },
        # The same for transformers 4, which would take its defaults instead.
        'global_attn_every_n_layers': section['global_every'],
        'global_rope_theta': section['rope_theta'],
        'local_rope_theta': section['local_theta'],
    }


def _read_theta(config, layers, before):
    """The theta of a kind of layers, or of the key `before` that preceded it."""
    nested = config['rope_parameters'] or {}
    flat = sorted(set(nested) - set(LAYER_TYPES))
    if flat or config.get('rope_scaling'):
        raise ValueError(
            f'config.json: rope_parameters has {", ".join(flat) or "rope_scaling"}, but '
            'the layers of this family differ: give values for '
            f'{" and ".join(LAYER_TYPES)} in rope_parameters.'
        )
    own = {'rope_theta': config[before], 'rope_parameters': nested.get(layers)}
    theta, scaling = _read_rope(config | own)
    if scaling is not None:
        raise ValueError(
            f"config.json: rope_type='llama3' of {layers} is not supported, only "
            "'default' is."
        )
    return theta


def _read_every(config):
    """The period of layers with global attention, the first of which is layer 0."""
    depth, listed = config['num_hidden_layers'], config['layer_types']
    if not listed:
        return config['global_attn_every_n_layers']
    for every in (config['global_attn_every_n_layers'], *range(1, depth + 1)):
        if _modern_layers(every, depth) == list(listed):
            return every
    raise ValueError(
        f'layer_types {listed} is not periodic: the first layer and every n-th after '
        'it must have full attention.'
    )


def _modern_layers(every, depth):
    return [LAYER_TYPES[i % every != 0] for i in range(depth)]


def _merged(values):
    """The values as a tuple, or a single value if all are equal."""
    values = tuple(values)
    return values[0] if len(set(values)) == 1 else values


def _require(config, key, *wanted):
    resolve.check_choice(f'config.json: {key}', config[key], wanted)
