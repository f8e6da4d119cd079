"""Adds missing special tokens to tokenizers, and prevents text from encoding to them.

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
# The score of pieces that no text should be encoded to.
NEVER = -1000.0


def completed(content, where):
    """Returns (the content of a tokenizer.json with a token for each role, a list of
    lines that say what was done).

    A pad token that is also another role's token counts as missing. Raises ValueError as
    tokenizers.parse does.
    """
    tokenizer = tokenizers.parse(content, where, ROLES)
    content = {'added_tokens': [], **json.loads(tokenizer.content)}
    content, lines = _with_unused_pad(content, tokenizer)
    content, names = _lowered(content)
    lines += _guard_lines(names)
    # A copy, as the cuts that are written must have the names after renaming.
    whole = _with_cuts(copy.deepcopy(content), names)
    whole = tokenizers.parse(whole, where, ROLES)
    missing = [role for role in ROLES if _is_missing(whole, role)]
    free = _reserved(whole)
    for role in missing:
        name = tokenizers.NAMES[role][0]
        content = declared.unmarked(content, role)
        if free:
            old, i = free.pop(0)
            content = renamed(content, old, name)
            content = _made_special(content, i, name)
            names = [*(one for one in names if one != old), name]
            lines.append(f'{role}: {name} is the reserved token {old}, id {i}')
        else:
            content, i = with_new(content, name)
            lines.append(f'{role}: {name} is new, id {i}, after all others')
    if not missing:
        lines.append('nothing added: pad, bos, eos and mask are present')
    return _with_cuts(content, names), lines


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


def _with_unused_pad(content, tokenizer):
    """Makes an entry `<pad>` the pad token if a file declares that another role's token
    pads, as no second entry can have the name; returns (content, lines)."""
    name = tokenizers.NAMES['pad'][0]
    i = tokenizer.backend.token_to_id(name)
    roles = {getattr(tokenizer, f'{role}_id') for role in ROLES}
    if i is None or i in roles or not _is_missing(tokenizer, 'pad'):
        return content, []
    content = _made_special(declared.unmarked(content, 'pad'), i, name)
    return content, [f'pad: {name} is in the vocabulary, id {i}']


def _reserved(tokenizer):
    """[(name, id)] of reserved tokens without a role that no text is encoded to."""
    vocabulary = tokenizer.backend.get_vocab(with_added_tokens=True)
    names = [name for name in vocabulary if RESERVED.fullmatch(name)]
    names = sorted((vocabulary[name], name) for name in names)
    encoded = tokenizer.encode_many([name for _, name in names])
    added = {i for i, token in tokenizer.backend.get_added_tokens_decoder().items()}
    plain = {i for i in added if i not in tokenizer.special_ids}
    taken = {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id}
    return [
        (name, i)
        for (i, name), ids in zip(names, encoded)
        if i not in ids and i not in plain | taken
    ]


def renamed(content, old, new):
    """Renames a token in the content of a tokenizer.json, in place, and returns it."""
    for token in content['added_tokens']:
        if token['content'] == old:
            token['content'] = new
    vocabulary = content['model'].get('vocab')
    if isinstance(vocabulary, dict) and old in vocabulary:
        names = {name: new if name == old else name for name in vocabulary}
        content['model']['vocab'] = {names[n]: i for n, i in vocabulary.items()}
    elif isinstance(vocabulary, list):
        content['model']['vocab'] = [
            [new, s] if name == old else [name, s] for name, s in vocabulary
        ]
    return content


def _made_special(content, i, name):
    """Adds an entry of the vocabulary to the special tokens of the content."""
    others = [token for token in content['added_tokens'] if token['id'] != i]
    entries = [*others, declared.special(i, name)]
    content['added_tokens'] = sorted(entries, key=lambda t: t['id'])
    return content


def guarded(content):
    """Returns (the content of a tokenizer.json changed so that no text is encoded to
    special tokens, lines that say so)."""
    content, names = _lowered(content)
    return _with_cuts(content, names), _guard_lines(names)


def _guard_lines(names):
    shown = ', '.join(names[:3]) + ', ...' * (len(names) > 3)
    return [f'text that contains {shown} stays text'] if names else []


def _lowered(content):
    """Makes the special tokens of a Unigram model its least likely pieces; returns
    (content, names of those that were likelier).

    Unigram searches for the likeliest pieces among all entries including special tokens,
    so that </s> in a text would be encoded as the end.
    """
    model = content['model']
    if tokenizers.model_type(content) != 'Unigram':
        return content, []
    special_names = {t['content'] for t in content['added_tokens'] if t['special']}
    if model.get('byte_fallback'):
        special_names |= {f'<0x{byte:02X}>' for byte in range(256)}
    names = [n for n, score in model['vocab'] if n in special_names and score > NEVER]
    model['vocab'] = [
        [name, NEVER if name in special_names else score]
        for name, score in model['vocab']
    ]
    return content, names


def _with_cuts(content, names):
    """Makes a Unigram model split text inside a special name if the vocabulary lacks a
    character of the name, as the name would be likelier than unknown pieces."""
    if tokenizers.model_type(content) != 'Unigram':
        return content
    pieces = {name for name, _ in content['model']['vocab']}
    pattern = '|'.join(filter(None, (_cut(name, pieces) for name in names)))
    if pattern:
        cut = {
            'type': 'Split',
            'pattern': {'Regex': pattern},
            'behavior': 'MergedWithPrevious',
            'invert': False,
        }
        before = [content['pre_tokenizer']] if content.get('pre_tokenizer') else []
        # Last, as Metaspace may put a space before each part.
        content['pre_tokenizer'] = {'type': 'Sequence', 'pretokenizers': [*before, cut]}
    return content


def _cut(name, pieces):
    """Returns a pattern for where to split text that contains the name, '' if it need not
    be split.

    No piece extends across the boundary of a character that is not a piece.
    """
    known = [character in pieces for character in name]
    if all(known) or len(name) < 2:
        return ''
    ends = [i for i in range(1, len(name)) if known[i - 1] != known[i]] or [1]
    before, after = re.escape(name[: ends[0]]), re.escape(name[ends[0] :])
    return f'{before}(?={after})'
