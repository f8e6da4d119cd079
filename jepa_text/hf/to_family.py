"""Export: chooses a family for a model, and converts its config and parameters.

A model that was imported is exported to its own family. Other bidirectional models become
EuroBERT, causal ones Llama. If the family cannot express what the model computes, that is
an error: nothing is approximated.
"""

import numpy as np
from flax import traverse_util

from jepa_text.config import resolve
from jepa_text.data.tokenizers.roles import ROLES
from jepa_text.hf import configs, families, task_head, vocabulary

_POSITIONS = 'encoder/position_embedding'


def usual_family(encoder, causal, origin, tokenizer):
    """The default family of an encoder; `origin` is the family it came from, or None."""
    name = _name(encoder)
    if origin in families.KINDS and vocabulary.is_kept(tokenizer, origin):
        kind = families.KINDS[origin]
        if kind.model == name and kind.causal == causal:
            return origin
    if name == 'bert':
        return 'roberta' if encoder.position_offset else 'bert'
    if name == 'modernbert':
        return name
    return 'llama' if causal else 'eurobert'


def tuned_family(model, form):
    """The default family of a fine-tuned, so bidirectional, load.Pretrained.

    It expresses the encoder and has a class for the form of its head, a key of
    task_head.WHAT, or None for a model without head. None if there is no such family.
    """
    first = usual_family(model.network.encoder, False, None, model.tokenizer)
    for family in dict.fromkeys((first, *families.KINDS)):
        classes = task_head.CLASSES.get(family, {})
        if (form is None or form in classes) and _expresses(model, family):
            # transformers finds the last token by the id of padding.
            is_found = model.tokenizer.pad_id not in model.ends()[1]
            if is_found or form != 'sequence' or 'last' not in classes[form].pools:
                return family
    return None


def _expresses(model, family):
    """Whether a family has the layers of a bidirectional model, and its tokenizer."""
    try:
        configs.to_config(section_of(model, family), family, True, causal=False)
    except ValueError:
        return False
    return vocabulary.is_kept(model.tokenizer, family)


def converted(model, causal, family):
    """(canonical section, {path: array}) of a load.Pretrained, as the family needs them.

    If the family has one flag for the biases of q, k, v and o, a missing bias of o
    becomes 0. Positions that a model does not use, and that BERT cannot express, are
    removed. Raises ValueError for a family that would compute something else, and for
    NaN.
    """
    resolve.check_choice('family', family, families.KINDS)
    kind = families.KINDS[family]
    if causal and not kind.causal:
        raise ValueError(
            f'{model.name} is causal, and {family} bidirectional: leave the family '
            'out, or train it with an objective that is bidirectional first.'
        )
    vocabulary.check(model.tokenizer, family)
    section = section_of(model, family)
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
        leaves |= _zero_biases(leaves, 'attention/o/kernel')
    return section, leaves


def section_of(model, family):
    """The canonical section of a load.Pretrained, as `converted` gives it."""
    encoder = model.network.encoder
    section = configs.canonical(_name(encoder), encoder)
    if section['name'] == 'bert':
        return section | _positions(model, section, family)
    if section.get('qkv_bias') and family != 'qwen2':
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


def config_of(model, section, causal, family, origin=None):
    """The config.json of a canonical section.

    Raises ValueError if the family cannot express what the model computes.
    """
    try:
        config = configs.to_config(section, family, tied(model), causal)
    except ValueError as error:
        if family != 'eurobert':
            raise
        raise ValueError(f'{error} {_alternative(origin)}') from error
    has_head = 'lm_head' in model.params
    if family == 'eurobert' and section['ffn_bias'] and has_head:
        raise ValueError(
            'This model has biases in its feed-forward layers. A EuroBERT with these '
            'also has a bias in its LM head, which this model lacks. '
            f'{_alternative(origin)}'
        )
    kind, tokenizer = families.KINDS[family], model.tokenizer
    ids = {f'{role}_token_id': getattr(tokenizer, f'{role}_id') for role in ROLES}
    if family != 'eurobert' or tokenizer.mask_id is None:
        ids.pop('mask_token_id')
    if family == 'modernbert':
        ids |= {'cls_token_id': tokenizer.bos_id, 'sep_token_id': tokenizer.eos_id}
    if not has_head:
        base = kind.architecture.removesuffix('ForMaskedLM').removesuffix('ForCausalLM')
        config['architectures'] = [f'{base}Model']
    elif model.shift != int(causal):
        # Imports assume 1 for decoders and 0 for encoders, which would be wrong here.
        config['jepa_text'] = {'shift': model.shift}
    length = model.length + section.get('position_offset', 0)
    return {'dtype': 'float32', 'max_position_embeddings': length, **ids} | config


def tied(model):
    """Whether the LM head shares the embedding."""
    return 'output' not in model.params.get('lm_head', {})


def _zero_biases(leaves, kernel):
    """Zero biases for the kernels whose path ends with `kernel`."""
    biases = {}
    for path, leaf in leaves.items():
        if path.endswith(kernel):
            shape = (*leaf.shape[:-2], leaf.shape[-1])
            biases[path.replace('kernel', 'bias')] = np.zeros(shape, np.float32)
    return biases


def _alternative(origin):
    family = origin if origin in families.KINDS else 'the decoder that it came from'
    return (
        f'Or use family={family!r}: its config.json then has is_causal=false, with which '
        'AutoModel of transformers attends bidirectionally.'
    )


def _name(encoder):
    """The file of an encoder's class, as a section names it."""
    return type(encoder).__module__.rsplit('.', 1)[-1]
