"""Adds missing special tokens to tokenizers.

A role without a token gets, in this order,

    a token reserved for such uses   <|reserved_special_token_0|>, <unused0>, [unused1],
                                     <extra_id_0>, ...
    a new token                      with an id after all others

A reserved token is renamed, as roles are found by name. The ids of texts never change: a
reserved token that some text is encoded to is not used.
"""

import copy
import json
import re

import tokenizers as backend_library

from jepa_text.data import tokenizers
from jepa_text.data.tokenizers import declared

RESERVED = re.compile(
    r'[<\[|]+.*(reserved|unused|extra_id|dummy|placeholder|filler).*[>\]|]+|'
    r'madeupword\d+',
    re.IGNORECASE,
)
ROLES = ('pad', 'bos', 'eos', 'mask')


def completed(content, where):
    """Returns (the content of a tokenizer.json with a token for each role, a list of
    lines that say what was done).

    A pad token that is also another role's token counts as missing. Raises ValueError as
    tokenizers.parse does.
    """
    tokenizer = tokenizers.parse(content, where, ROLES)
    # Not the tokenizer's own content, which is guarded by names that are replaced here.
    content = {'added_tokens': [], **copy.deepcopy(content)}
    missing = [role for role in ROLES if _is_missing(tokenizer, role)]
    free, lines = _reserved(tokenizer), []
    for role in missing:
        name = tokenizers.NAMES[role][0]
        content = declared.unmarked(content, role)
        # If a file declares that another role's token pads.
        if (i := tokenizer.backend.token_to_id(name)) is not None:
            content = _made_special(content, i, name)
            lines.append(f'{role}: {name} is in the vocabulary, id {i}')
        elif free:
            old, i = free.pop(0)
            content = renamed(content, old, name)
            content = _made_special(content, i, name)
            lines.append(f'{role}: {name} is the reserved token {old}, id {i}')
        else:
            content, i = with_new(content, name)
            lines.append(f'{role}: {name} is new, id {i}, after all others')
    if not missing:
        lines.append('nothing added: pad, bos, eos and mask are present')
    return content, lines


def with_new(content, name):
    """Returns (the content of a tokenizer.json with a new special token, its id)."""
    backend = backend_library.Tokenizer.from_str(json.dumps(content))
    backend.add_special_tokens([name])
    i = backend.token_to_id(name)
    return _made_special(content, i, name), i


def _is_missing(tokenizer, role):
    number = getattr(tokenizer, f'{role}_id')
    return number is None or (
        role == 'pad' and number in (tokenizer.bos_id, tokenizer.eos_id)
    )


def _reserved(tokenizer):
    """[(name, id)] of reserved tokens without a role that no text is encoded to."""
    vocabulary = tokenizer.backend.get_vocab(with_added_tokens=True)
    names = [name for name in vocabulary if RESERVED.fullmatch(name)]
    names = sorted((vocabulary[name], name) for name in names)
    encoded = tokenizer.encode_many([name for _, name in names])
    added = {i for i, token in tokenizer.backend.get_added_tokens_decoder().items()}
    plain = {i for i in added if i not in tokenizer.special_ids}
    taken = {getattr(tokenizer, f'{role}_id') for role in ROLES}
    return [
        (name, i)
        for (i, name), ids in zip(names, encoded)
        if i not in ids and i not in plain | taken
    ]


def renamed(content, old, new):
    """Renames a token in the content of a tokenizer.json, in place, and returns it."""

    def named(name):
        return new if name == old else name

    for token in content['added_tokens']:
        token['content'] = named(token['content'])
    vocabulary = content['model'].get('vocab')
    if isinstance(vocabulary, dict):
        content['model']['vocab'] = {named(n): i for n, i in vocabulary.items()}
    elif isinstance(vocabulary, list):
        content['model']['vocab'] = [[named(name), s] for name, s in vocabulary]
    return content


def _made_special(content, i, name):
    """Adds an entry of the vocabulary to the special tokens of the content."""
    others = [token for token in content['added_tokens'] if token['id'] != i]
    entries = [*others, declared.special(i, name)]
    content['added_tokens'] = sorted(entries, key=lambda t: t['id'])
    return content
