"""Conversion between a Hugging Face config.json and a model section, in both directions.

Sections here are canonical: every size is given, and `vocab_rows` is the number of rows
of the embedding. Keys missing from config.json have the default of its `transformers`
class.
"""

import dataclasses

from jepa_text.hf import config_values, families

# Options of an encoder that determine how it is computed, but not what.
_HOW = ('scan', 'remat', 'attention', 'dtype', 'name', 'parent')


def to_section(config, family=None):
    """The model section of a config.json (a dict).

    Raises ValueError for an unknown family, a missing size, an invalid value, and for
    anything that the models here compute differently, such as other activations or
    other scaling of positions.
    """
    family, config = families.complete(config, family)
    config_values.check(config, family)
    model = families.KINDS[family].model
    read = {
        'transformer': _read_transformer,
        'bert': _read_bert,
        'modernbert': _read_modern,
    }
    try:
        sizes = {ours: config[key] for ours, key in families.SIZES[model].items()}
        return {'name': model, **sizes, **read[model](family, config, sizes)}
    except KeyError as error:
        raise ValueError(f'The config of this {family} lacks {error}.') from error


def to_config(section, family, tied, causal):
    """The config.json of a canonical section, as a dict that `to_section` can read.

    A decoder that is not `causal` gets is_causal=false, which makes it bidirectional in
    transformers. Raises ValueError if the family cannot express an option of the section.
    """
    kind = families.KINDS[family]
    if section['name'] != kind.model:
        matching = [f for f, k in families.KINDS.items() if k.model == section['name']]
        raise ValueError(
            f'A {section["name"]} is no {family}; use one of: {", ".join(matching)}.'
        )
    write = {
        'transformer': _write_transformer,
        'bert': _write_bert,
        'modernbert': _write_modern,
    }
    config = {
        'model_type': family,
        'architectures': [kind.architecture],
        'tie_word_embeddings': tied,
        **{key: section[ours] for ours, key in families.SIZES[kind.model].items()},
        **write[kind.model](family, section),
    }
    if kind.model == 'transformer':
        config |= _write_window(family, section, causal)
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


def canonical(name, encoder):
    """The canonical section of an encoder module; `name` is the model's file."""
    fields = {f.name: getattr(encoder, f.name) for f in dataclasses.fields(encoder)}
    section = {k: v for k, v in fields.items() if k not in _HOW}
    section['vocab_rows'] = section.pop('vocab_size')
    section['head_width'] = encoder.head_width or encoder.width // encoder.heads
    if 'head_act' in section:
        section['head_act'] = encoder.head['act']
    scaling = section.get('rope_scaling')
    if scaling is not None:
        section['rope_scaling'] = dict(scaling)
    return {'name': name, **section}


def _read_transformer(family, config, sizes):
    _require(config, 'hidden_act', 'silu', 'swish')
    theta, scaling = _read_rope(config, config)
    depth, bias = sizes['depth'], config['attention_bias']
    if family == 'smollm3':
        theta = _merged(theta if rotary else None for rotary in _rotary(config, depth))
    return {
        'kv_heads': sizes['kv_heads'] or sizes['heads'],
        'head_width': sizes['head_width'] or sizes['width'] // sizes['heads'],
        'rope_theta': theta,
        'rope_scaling': scaling,
        'window': _read_window(family, config, depth),
        'qkv_bias': bias or family == 'qwen2',
        'o_bias': bias,
        'qk_norm': family == 'qwen3',
        'ffn_bias': config['mlp_bias'],
    }


def _write_transformer(family, section):
    thetas = section['rope_theta']
    thetas = thetas if isinstance(thetas, tuple) else (thetas,) * section['depth']
    theta = next((t for t in thetas if t is not None), 10_000.0)
    config = {
        'hidden_act': 'silu',
        'rope_parameters': _write_rope(theta, section['rope_scaling']),
        'attention_bias': section['o_bias'],
        'mlp_bias': section['ffn_bias'],
    }
    if family == 'smollm3':
        config['no_rope_layers'] = [int(t is not None) for t in thetas]
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
    own = int(bool(config.get('is_causal', families.KINDS[family].causal)))
    # Llama has no windows, whatever its config says.
    has_windows = 'sliding_window' in families.KINDS[family].defaults
    size = config['sliding_window'] if has_windows else None
    if size is None or not config.get('use_sliding_window', True):
        return None
    slides = [True] * depth
    if family.startswith('qwen'):
        slides = [i >= config['max_window_layers'] for i in range(depth)]
    elif family == 'smollm3':
        slides = [not rotary for rotary in _rotary(config, depth)]
    if config.get('layer_types'):
        slides = [kind == 'sliding_attention' for kind in config['layer_types']]
    return _merged(size - own if sliding else None for sliding in slides)


def _write_window(family, section, causal):
    windows = section['window']
    if not isinstance(windows, tuple):
        windows = (windows,) * section['depth']
    size = next((w + int(causal) for w in windows if w is not None), None)
    if family == 'mistral':
        return {'sliding_window': size}
    if 'use_sliding_window' not in families.KINDS[family].defaults:
        return {}
    slides = ['full_attention' if w is None else 'sliding_attention' for w in windows]
    return {
        'use_sliding_window': size is not None,
        'sliding_window': size,
        'layer_types': slides,
    }


def _read_rope(config, whole):
    """(theta, scaling) from `rope_scaling`, which takes precedence as in transformers,
    `rope_parameters`, or the keys that preceded both."""
    rope = config.get('rope_scaling') or config.get('rope_parameters') or {}
    if nested := [key for key in families.LAYER_TYPES if key in rope]:
        raise ValueError(
            f'config.json: rope_parameters has values for {" and ".join(nested)}, but '
            'the layers of this family share their positions: give one set of values, '
            'without types of layers.'
        )
    kind = rope.get('rope_type', rope.get('type', 'default'))
    part = rope.get('partial_rotary_factor') or whole.get('partial_rotary_factor') or 1
    if kind not in ('default', 'llama3') or part != 1:
        raise ValueError(
            f'config.json: rope_type={kind!r} with partial_rotary_factor={part}: only '
            "'default' and 'llama3' are supported, rotating the whole head."
        )
    theta = rope.get('rope_theta', config.get('rope_theta'))
    if theta is None:
        raise ValueError('config.json: rope_theta=None must be a number above 0.')
    if kind == 'default':
        return float(theta), None
    rope = {families.STRETCH['length']: whole['max_position_embeddings']} | rope
    return float(theta), {ours: rope[theirs] for ours, theirs in families.STRETCH.items()}


def _write_rope(theta, scaling=None):
    if scaling is None:
        return {'rope_type': 'default', 'rope_theta': theta}
    stretch = {theirs: scaling[ours] for ours, theirs in families.STRETCH.items()}
    return {'rope_type': 'llama3', 'rope_theta': theta, **stretch}


def _read_bert(family, config, sizes):
    _require(config, 'position_embedding_type', 'absolute')
    return {
        'position_offset': 0 if family == 'bert' else config['pad_token_id'] + 1,
        'act': _activation(config, 'hidden_act'),
        # RobertaLMHead and the classes derived from it use gelu in any case.
        'head_act': _activation(config, 'hidden_act') if family == 'bert' else 'gelu',
        'head_width': sizes['width'] // sizes['heads'],
    }


def _write_bert(family, section):
    config = {'hidden_act': families.THEIR_ACTIVATIONS[section['act']]}
    if family != 'bert':
        config['pad_token_id'] = section['position_offset'] - 1
    return config


def _read_modern(family, config, sizes):
    return {
        'head_width': sizes['width'] // sizes['heads'],
        'global_every': _read_every(config),
        'rope_theta': _read_theta(config, 'full_attention', 'global_rope_theta'),
        'local_theta': _read_theta(config, 'sliding_attention', 'local_rope_theta'),
        'local_window': config['local_attention'] // 2,
        'act': _activation(config, 'hidden_activation'),
        'head_act': _activation(config, 'classifier_activation'),
    }


def _read_theta(config, layers, before):
    """The theta of a kind of layers, or of the key `before` that preceded it."""
    nested = config['rope_parameters'] or {}
    if flat := sorted(set(nested) - set(families.LAYER_TYPES)):
        raise ValueError(
            f'config.json: rope_parameters has {", ".join(flat)}, but the layers of this '
            f'family differ: give values for {" and ".join(families.LAYER_TYPES)}.'
        )
    merged = (nested.get(layers) or {}) | (config.get('rope_scaling') or {})
    rope = {'rope_theta': config[before], 'rope_parameters': merged}
    theta, scaling = _read_rope(rope, config)
    if scaling is not None:
        raise ValueError(
            f"config.json: rope_type='llama3' of {layers} is not supported, only "
            "'default' is."
        )
    return theta


def _write_modern(family, section):
    return {
        'hidden_activation': families.THEIR_ACTIVATIONS[section['act']],
        'classifier_activation': families.THEIR_ACTIVATIONS[section['head_act']],
        'local_attention': 2 * section['local_window'],
        'layer_types': _modern_layers(section['global_every'], section['depth']),
        'rope_parameters': {
            'full_attention': _write_rope(section['rope_theta']),
            'sliding_attention': _write_rope(section['local_theta']),
        },
    }


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
    return ['sliding_attention' if i % every else 'full_attention' for i in range(depth)]


def _merged(values):
    """The values as a tuple, or a single value if all are equal."""
    values = tuple(values)
    return values[0] if len(set(values)) == 1 else values


def _require(config, key, *wanted):
    if config[key] not in wanted:
        raise ValueError(
            f'config.json: {key}={config[key]!r} is not supported, only {wanted[0]!r} is.'
        )


def _activation(config, key):
    if config[key] not in families.ACTIVATIONS:
        known = ', '.join(families.ACTIVATIONS)
        raise ValueError(
            f'config.json: {key}={config[key]!r} is not supported; use one of: {known}.'
        )
    return families.ACTIVATIONS[config[key]]
