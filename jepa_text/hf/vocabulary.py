"""Tokenizer files of an exported folder, from which AutoTokenizer produces the same ids.

    <bos> ids <eos>         one text; two: <bos> ids <eos> ids <eos>

A template in tokenizer.json adds the special tokens. The mask token includes the space
before it, as in training, where the space of a masked token is masked with it.
"""

import importlib.util
import json
import warnings
from pathlib import Path

from jepa_text.data.tokenizers import declared
from jepa_text.data.tokenizers.roles import ROLES
from jepa_text.hf import files, load

# Texts whose ids are compared: contractions, numbers, spaces, scripts, a combining mark.
PROBES = (
    "The whale's white; it'll swim 1234567 miles.",
    ' two  spaces,\n\na tab\there, cafe\u0301 “and” 🐋🐋 ',
    'Кит плывёт на север. الحوت يسبح. व्हेल तैरती है।',
    '鲸鱼在海里游泳，鯨は海を泳ぐ。วาฬว่ายน้ำ',
)


def difference(folder, model):
    """How AutoTokenizer of transformers reads a folder differently from its model.

    Returns None if it gives the same ids, or if transformers is not installed.
    """
    if importlib.util.find_spec('transformers') is None:
        return None
    import transformers

    name = f'AutoTokenizer of transformers {transformers.__version__}'
    try:
        with warnings.catch_warnings(action='ignore'):
            theirs = transformers.AutoTokenizer.from_pretrained(
                folder, local_files_only=True
            )
    except (ValueError, OSError, KeyError) as error:
        return f'{name} cannot read it ({error}): is a newer transformers needed?'
    begin, end = model.ends()
    read = {text: model.tokenizer.encode(text) for text in PROBES}
    if model.tokenizer.mask_id is not None:
        mask = model.tokenizer.backend.id_to_token(model.tokenizer.mask_id)
        masked = model.tokenizer.encode_masked('The white <mask>, a <mask>')
        read[f'The white {mask}, a {mask}'] = masked
    for text, ids in read.items():
        wanted = [*begin, *ids.tolist(), *end]
        # verbose=False: without a warning of texts that are longer than the model reads.
        their_ids = theirs(text, verbose=False)['input_ids']
        if their_ids != wanted:
            return f'{name} encodes {text!r} to {their_ids}, not {wanted}'
    return None


def write(folder, model, family):
    """Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json.

    The tokenizer's template is kept if it adds what the model expects around a text.
    """
    tokenizer, content = model.tokenizer, json.loads(model.tokenizer.content)
    begin, end = model.ends()
    if load.ends(tokenizer) != (begin, end):
        content['post_processor'] = _processor(tokenizer, content, begin, end)
    for token in content.get('added_tokens', ()):
        token.pop(declared.MARK, None)  # tokenizer_config.json has the roles
        if token['id'] == tokenizer.mask_id:
            token['lstrip'] = True
    names = {}
    for role in ROLES:
        if (number := getattr(tokenizer, f'{role}_id')) is not None:
            name = tokenizer.backend.id_to_token(number)
            names |= {f'{theirs}_token': name for theirs in declared.THEIRS[role]}
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
    for file, fields in (
        ('tokenizer.json', content),
        ('tokenizer_config.json', config),
        ('special_tokens_map.json', names),
    ):
        files.write_json(Path(folder, file), fields)


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
