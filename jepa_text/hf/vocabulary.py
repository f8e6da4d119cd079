"""Tokenizer files of an exported folder, from which AutoTokenizer produces the same ids.

    <bos> ids <eos>         one text; two: <bos> ids <eos> ids <eos>

A template in tokenizer.json adds the special tokens. The mask token includes the space
before it, as in training, where the space of a masked token is masked with it.
"""

import json
from pathlib import Path

from jepa_text.hf import files, to_family

# Their names of the roles; an encoder's begin and end are its class and separator tokens.
THEIR_ROLES = {
    'pad': ('pad',),
    'bos': ('bos', 'cls'),
    'eos': ('eos', 'sep'),
    'mask': ('mask',),
}


def write(folder, model, family, template):
    """Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json.

    `template` are the ids that the tokenizer adds before and after a text; it is kept if
    the model expects the same.
    """
    tokenizer, content = model.tokenizer, json.loads(model.tokenizer.content)
    begin, end = model.ends()
    if template != (begin, end):
        content['post_processor'] = _processor(tokenizer, content, begin, end)
    for token in content['added_tokens']:
        if token['id'] == tokenizer.mask_id:
            token['lstrip'] = True
    names = special_tokens(tokenizer)
    inputs = ['input_ids', 'attention_mask']
    config = {
        'tokenizer_class': 'PreTrainedTokenizerFast',
        'model_max_length': model.length,
        'model_input_names': inputs + ['token_type_ids'] * (family == 'bert'),
        'clean_up_tokenization_spaces': False,
        **names,
    }
    if content['model'].get('unk_token'):
        config['unk_token'] = content['model']['unk_token']
    for file, found in (
        ('tokenizer.json', content),
        ('tokenizer_config.json', config),
        ('special_tokens_map.json', names),
    ):
        files.write_json(Path(folder, file), found)


def special_tokens(tokenizer):
    """{'pad_token': '<pad>', ...} for the roles that the tokenizer has."""
    found = {}
    for role in to_family.ROLES:
        number = getattr(tokenizer, f'{role}_id')
        if number is not None:
            name = tokenizer.backend.id_to_token(number)
            found |= {f'{theirs}_token': name for theirs in THEIR_ROLES[role]}
    return found


def _processor(tokenizer, content, begin, end):
    """The post_processor that adds special tokens; offsets are trimmed as before."""

    def special(ids):
        names = map(tokenizer.backend.id_to_token, ids)
        return [{'SpecialToken': {'id': name, 'type_id': 0}} for name in names]

    def text(which):
        return {'Sequence': {'id': which, 'type_id': 0}}

    single = [*special(begin), text('A'), *special(end)]
    used = {tokenizer.backend.id_to_token(i): i for i in (*begin, *end)}
    template = {
        'type': 'TemplateProcessing',
        'single': single,
        'pair': [*single, text('B'), *special(end)],
        'special_tokens': {
            name: {'id': name, 'ids': [i], 'tokens': [name]} for name, i in used.items()
        },
    }
    old = content.get('post_processor') or {}
    kept = [p for p in old.get('processors', [old]) if p.get('type') == 'ByteLevel']
    return {'type': 'Sequence', 'processors': [*kept, template]}
