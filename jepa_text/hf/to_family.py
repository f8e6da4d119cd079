"""Export: chooses a family for a model, and converts its config and parameters.

A model that was imported is exported to its own family. Other bidirectional models become
EuroBERT, causal ones Llama, and those with norms of queries and keys Qwen3. If the family
cannot express what the model computes, that is an error: nothing is approximated.
"""

import numpy as np
from flax import traverse_util

from jepa_text.data.tokenizers.roles import ROLES
from jepa_text.hf import configs
from jepa_text.hf.families import FAMILIES, WRITTEN
from jepa_text.settings import resolve

_POSITIONS = 'encoder/position_embedding'


def check(model):
    """Raises ValueError for a load.Pretrained whose encoder is of a class of the user."""
    kind = type(model.network.encoder)
    if not _is_ours(model.network.encoder):
        raise ValueError(
            f'{model.name} is a {kind.__module__}.{kind.__qualname__}, an architecture '
            'of your own, which transformers cannot read: use it in jepa_text, whose '
            'method `save` writes it to a folder.'
        )


def _is_ours(encoder):
    return type(encoder).__module__.startswith('jepa_text.models.')


def usual_family(encoder, causal, origin):
    """The default family of an encoder; `origin` is the family it came from, or None."""
    name = configs.name_of(encoder)
    if origin in WRITTEN:
        kind = FAMILIES[origin]
        if kind.model == name and kind.causal == causal:
            return origin
    if name == 'bert':
        return 'roberta' if encoder.position_offset else 'bert'
    if name == 'modernbert':
        return name
    if encoder.qk_norm:
        return 'qwen3'
    return 'llama' if causal else 'eurobert'


def tuned_family(model, form):
    """The default family of a fine-tuned, so bidirectional, load.Pretrained.

    It expresses the encoder and has a class for the form of its head, a key of
    task_head.WHAT, or None for a model without head. None if there is no such family.
    """
    encoder = model.network.encoder
    if not _is_ours(encoder):
        return None
    first = usual_family(encoder, False, None)
    for family in dict.fromkeys((first, *WRITTEN)):
        classes = FAMILIES[family].tasks
        if (form is None or form in classes) and _expresses(model, family):
            # transformers finds the last token by the id of padding.
            is_found = model.tokenizer.pad_id not in model.ends()[1]
            if is_found or form != 'sequence' or 'last' not in classes[form].pools:
                return family
    return None


def _expresses(model, family):
    """Whether a family has the layers of a bidirectional model."""
    try:
        configs.to_config(_section_of(model, family), family, True, causal=False)
    except ValueError:
        return False
    return True


def converted(model, family, origin=None):
    """(config.json, {path: array}) of a load.Pretrained, as the family needs them.

    If the family has one flag for the biases of q, k, v and o, a missing bias of o
    becomes 0. Positions that a model does not use, and that BERT cannot express, are
    removed. Raises ValueError for a family that would compute something else, and for
    NaN. `origin` is the family that the model came from, or None.
    """
    resolve.check_choice('family', family, WRITTEN)
    if model.causal and not FAMILIES[family].causal:
        raise ValueError(
            f'{model.name} is causal, and {family} bidirectional: leave the family '
            'out, or train it with an objective that is bidirectional first.'
        )
    section = _section_of(model, family)
    params = {name: model.params.get(name, {}) for name in ('encoder', 'lm_head')}
    leaves = traverse_util.flatten_dict(params, sep='/')
    for path, leaf in leaves.items():
        if not np.isfinite(leaf).all():
            raise ValueError(
                f'{path} of {model.name} contains NaN or infinity: did training diverge? '
                'Export an earlier step with --step.'
            )
    encoder = model.network.encoder
    if section['name'] == 'bert':
        unused = encoder.position_offset - section['position_offset']
        leaves[_POSITIONS] = leaves[_POSITIONS][unused:]
    if section.get('o_bias') and not encoder.o_bias:
        for path in [path for path in leaves if path.endswith('attention/o/kernel')]:
            *layers, _, width = leaves[path].shape
            bias = np.zeros((*layers, width), np.float32)
            leaves[path.replace('kernel', 'bias')] = bias
    return _config_of(model, section, family, origin), leaves


def _section_of(model, family):
    """The canonical section of a load.Pretrained, as `converted` gives it."""
    encoder = model.network.encoder
    section = configs.canonical(encoder)
    if section['name'] == 'bert':
        return section | _positions(model, section, family)
    if section.get('qkv_bias'):
        section['o_bias'] = True
    return section


def _positions(model, section, family):
    """The number and offset of positions that the family expects."""
    unused, pad = section['position_offset'], model.tokenizer.pad_id
    if family == 'bert':
        return dict(positions=section['positions'] - unused, position_offset=0)
    if unused != pad + 1:
        raise ValueError(
            f'{model.name} has position_offset={unused}, but {family} counts positions '
            f'from the id of its padding token, {unused - 1}; the id is {pad} in this '
            "tokenizer. Use family='bert', which leaves out unused positions."
        )
    return {}


def _config_of(model, section, family, origin):
    """The config.json of a canonical section."""
    has_head = 'lm_head' in model.params
    try:
        config = configs.to_config(section, family, tied(model), model.causal)
        if family == 'eurobert' and section['ffn_bias'] and has_head:
            raise ValueError(
                'This model has biases in its feed-forward layers. A EuroBERT with these '
                'also has a bias in its LM head, which this model lacks.'
            )
    except ValueError as error:
        if family != 'eurobert':
            raise
        other = origin if origin in WRITTEN else 'llama'
        raise ValueError(
            f'{error} Or use family={other!r}: its config.json then has is_causal=false, '
            'with which AutoModel of transformers attends bidirectionally.'
        ) from error
    kind, tokenizer = FAMILIES[family], model.tokenizer
    ids = {f'{role}_token_id': getattr(tokenizer, f'{role}_id') for role in ROLES}
    if family != 'eurobert' or tokenizer.mask_id is None:
        ids.pop('mask_token_id')
    if family == 'modernbert':
        ids |= {'cls_token_id': tokenizer.bos_id, 'sep_token_id': tokenizer.eos_id}
    if not has_head:
        config['architectures'] = [f'{kind.stem}Model']
    elif model.shift != int(model.causal):
        # Imports assume 1 for decoders and 0 for encoders, which would be wrong here.
        config['jepa_text'] = {'shift': model.shift}
    length = model.length + section.get('position_offset', 0)
    return {'dtype': 'float32', 'max_position_embeddings': length, **ids} | config


def tied(model):
    """Whether the LM head shares the embedding."""
    return 'output' not in model.params.get('lm_head', {})
