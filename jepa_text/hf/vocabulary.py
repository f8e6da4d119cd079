"""Our tokenizer -> the files from which AutoTokenizer makes the ids that we train on.

    <bos> ids <eos>         one text; two: <bos> ids <eos> ids <eos>

A template in tokenizer.json adds the specials. Its mask token takes the space before it,
as ours does where a word is masked.
"""

import json
from pathlib import Path

from jepa_text.hf import files, to_family

# What others call the roles; an encoder's begin and end are its class and separator.
THEIR_ROLES = {
    'pad': ('pad',),
    'bos': ('bos', 'cls'),
    'eos': ('eos', 'sep'),
    'mask': ('mask',),
}


def write(folder, model, family, template):
    """Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json.

    `template` is what the tokenizer adds by itself, ids before and after a text: it stays
    as it is if that is what the model reads.
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
    """{'pad_token': '<pad>', ...} of the roles that it has."""
    found = {}
    for role in to_family.ROLES:
        number = getattr(tokenizer, f'{role}_id')
        if number is not None:
            name = tokenizer.backend.id_to_token(number)
            found |= {f'{theirs}_token': name for theirs in THEIR_ROLES[role]}
    return found


def _processor(tokenizer, content, begin, end):
    """The post_processor that adds the specials; byte offsets are trimmed as before."""

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
