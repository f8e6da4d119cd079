"""A model of ours in the words of a family: which one, its config.json, its parameters.

What came from a family goes back to it. Of our own, what is bidirectional is EuroBERT,
what is causal Llama. Where the family cannot say what a model computes, that is
an error: nothing is approximated.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jepa_text.hf import configs, families

# transformers has no class for these; they are EuroBERT's layers.
READ_ONLY = ('optimus', 'sl_model')
ROLES = ('pad', 'bos', 'eos', 'mask')


def usual_family(encoder, causal, origin=None):
    """The family of an encoder that came from the family `origin`, or from none."""
    name = _name(encoder)
    if origin in families.KINDS and origin not in READ_ONLY:
        kind = families.KINDS[origin]
        if kind.model == name and kind.causal == causal:
            return origin
    if name == 'bert':
        return 'roberta' if encoder.position_offset else 'bert'
    if name == 'modernbert':
        return name
    return 'llama' if causal else 'eurobert'


def fitted(model, causal, family):
    """(canonical section, {path: array}) of a load.Pretrained, as the family says them.

    Where it has one word for the biases of q, k, v and o, one of o that lacks becomes 0;
    positions that a model leaves unused, and BERT has no word for, are left out.
    Raises ValueError for a family that would compute something else, and for NaN.
    """
    kind = families.KINDS.get(family)
    if kind is None or family in READ_ONLY:
        known = ', '.join(name for name in families.KINDS if name not in READ_ONLY)
        raise ValueError(f'family={family!r}; there are: {known}.')
    if causal and not kind.causal:
        raise ValueError(
            f'{model.name} is causal, and {family} bidirectional: leave the family '
            'out, or train it with an objective that is bidirectional first.'
        )
    encoder = model.network.encoder
    section = configs.canonical(_name(encoder), encoder)
    params = {name: model.params.get(name, {}) for name in ('encoder', 'lm_head')}
    leaves = {
        jax.tree_util.keystr(path, simple=True, separator='/'): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
    }
    for path, leaf in leaves.items():
        if not jnp.isfinite(leaf).all():
            raise ValueError(
                f'{path} of {model.name} holds NaN or infinity: did training diverge? '
                'Export an earlier step, by --step.'
            )
    if section['name'] == 'bert':
        section, leaves = _with_positions(model, section, leaves, family)
    if section.get('qkv_bias') and not section['o_bias'] and family != 'qwen2':
        section = section | {'o_bias': True}
        leaves |= _zero_biases(leaves, 'attention/o/kernel')
    return section, leaves


def _with_positions(model, section, leaves, family):
    """Section and parameters with the positions that the family counts."""
    unused, pad = section['position_offset'], model.tokenizer.pad_id
    if family == 'bert' and unused:
        table = 'encoder/position_embedding'
        sizes = dict(positions=section['positions'] - unused, position_offset=0)
        return section | sizes, leaves | {table: leaves[table][unused:]}
    if family != 'bert' and unused != pad + 1:
        raise ValueError(
            f'{model.name} has position_offset={unused}, and {family} counts positions '
            f'from the id of its padding on, {unused - 1}: the id is {pad} in this '
            "tokenizer. Take family='bert', which leaves out positions that nobody uses."
        )
    return section, leaves


def config_of(model, section, causal, family, origin=None):
    """The config.json of a canonical section. Raises ValueError where the family has no
    word for what the model does."""
    try:
        found = configs.to_config(section, family, tied(model), causal)
    except ValueError as error:
        if family != 'eurobert':
            raise
        raise ValueError(f'{error} {_instead(origin)}') from error
    has_head = 'lm_head' in model.params
    if family == 'eurobert' and section['ffn_bias'] and has_head:
        raise ValueError(
            'This model has biases in its feed-forward, and a EuroBERT that has them has '
            f'one in its LM head too, which is not here. {_instead(origin)}'
        )
    kind, tokenizer = families.KINDS[family], model.tokenizer
    ids = {f'{role}_token_id': getattr(tokenizer, f'{role}_id') for role in ROLES}
    if family != 'eurobert' or tokenizer.mask_id is None:
        ids.pop('mask_token_id')
    if family == 'modernbert':
        ids |= {'cls_token_id': tokenizer.bos_id, 'sep_token_id': tokenizer.eos_id}
    if not has_head:
        base = kind.architecture.removesuffix('ForMaskedLM').removesuffix('ForCausalLM')
        found['architectures'] = [f'{base}Model']
    elif model.shift != int(causal):
        # What our import takes for granted, a decoder's 1 and an encoder's 0, is not so.
        found['jepa_text'] = {'shift': model.shift}
    length = model.length + section.get('position_offset', 0)
    return {'dtype': 'float32', 'max_position_embeddings': length, **ids} | found


def tied(model):
    """Are tokens scored with the embedding?"""
    return 'output' not in model.params.get('lm_head', {})


def _zero_biases(leaves, kernel):
    """Biases of 0 for the kernels whose path ends so."""
    found = {}
    for path, leaf in leaves.items():
        if path.endswith(kernel):
            shape = (*leaf.shape[:-2], leaf.shape[-1])
            found[path.replace('kernel', 'bias')] = np.zeros(shape, np.float32)
    return found


def _instead(origin):
    able = origin if origin in families.KINDS else 'the decoder that it came from'
    return (
        f'Or say family={able!r}: its config.json then has is_causal=false, by which '
        'AutoModel of transformers attends bidirectionally.'
    )


def _name(encoder):
    """The file of an encoder's class, as a section names it."""
    return type(encoder).__module__.rsplit('.', 1)[-1]
