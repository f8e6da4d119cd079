"""Special tokens for a tokenizer that lacks them, and text that can spell none.

A role without a token takes, in this order,

    a token that was reserved for such a use   <|reserved_special_token_0|>, <unused0>,
                                               [unused1], <extra_id_0>, ...
    a new one                                  an id after all others

and a reserved one is renamed, as the roles are found by name. The ids of no text change:
a reserved token that some text is encoded with is none.
"""

import copy
import json
import re

import tokenizers as backend_library

from jepa_text.data import tokenizers

RESERVED = re.compile(
    r'[<\[|]+.*(reserved|unused|extra_id|dummy|placeholder|filler).*[>\]|]+|'
    r'madeupword\d+',
    re.IGNORECASE,
)
ROLES = ('pad', 'bos', 'eos', 'mask')
# The score of what no text is to be read as.
NEVER = -1000.0


def completed(content, where):
    """(the content of a tokenizer.json with a token of each role, what was done: a line
    each).

    A pad that is another role's token, too, counts as none. Raises ValueError
    as tokenizers.parse does.
    """
    tokenizers.parse(content, where, ROLES)
    content, names = _lowered(content)
    said = _of_guard(names)
    # Names that are to change are not cut in what is written.
    found = _with_cuts(copy.deepcopy(content), names)
    found = tokenizers.parse(found, where, ROLES)
    lacking = [role for role in ROLES if _lacks(found, role)]
    free = _reserved(found)
    for role in lacking:
        name = tokenizers.NAMES[role][0]
        if free:
            old, i = free.pop(0)
            content = renamed(content, old, name)
            content = _made_special(content, i, name)
            names = [*(one for one in names if one != old), name]
            said.append(f'{role}: {name} is the reserved token {old}, id {i}')
        else:
            backend = backend_library.Tokenizer.from_str(json.dumps(content))
            backend.add_special_tokens([name])
            content = json.loads(backend.to_str())
            i = backend.token_to_id(name)
            said.append(f'{role}: {name} is new, id {i}, after all others')
    if not lacking:
        said.append('nothing added: pad, bos, eos and mask are there')
    return _with_cuts(content, names), said


def _lacks(found, role):
    number = getattr(found, f'{role}_id')
    return number is None or (role == 'pad' and number in (found.bos_id, found.eos_id))


def _reserved(found):
    """[(name, id)] of tokens that were reserved and that no text is encoded with."""
    vocabulary = found.backend.get_vocab(with_added_tokens=True)
    names = [name for name in vocabulary if RESERVED.fullmatch(name)]
    names = sorted((vocabulary[name], name) for name in names)
    encoded = found.encode_many([name for _, name in names])
    added = {i for i, token in found.backend.get_added_tokens_decoder().items()}
    plain = {i for i in added if i not in found.special_ids}
    return [
        (name, i)
        for (i, name), ids in zip(names, encoded)
        if i not in ids and i not in plain
    ]


def renamed(content, old, new):
    """The content of a tokenizer.json with one token called otherwise."""
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
    """The content with an entry of the vocabulary among the special tokens."""
    others = [token for token in content['added_tokens'] if token['id'] != i]
    content['added_tokens'] = sorted([*others, special(i, name)], key=lambda t: t['id'])
    return content


def special(i, name):
    """The entry of `added_tokens` of a special token."""
    flags = dict.fromkeys(('single_word', 'lstrip', 'rstrip', 'normalized'), False)
    return {'id': i, 'content': name, **flags, 'special': True}


def guarded(content):
    """(the content of a tokenizer.json whose special tokens no text spells, lines)."""
    content, names = _lowered(content)
    return _with_cuts(content, names), _of_guard(names)


def _of_guard(names):
    shown = ', '.join(names[:3]) + ', ...' * (len(names) > 3)
    return [f'text that spells {shown} stays text'] if names else []


def _lowered(content):
    """(the content of a Unigram with special tokens as the least likely entries, names of
    those that were not).

    Unigram looks for the likeliest pieces of all its entries, its special tokens among
    them: a text that says </s> would end there.
    """
    model = content['model']
    if model.get('type') != 'Unigram':
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
    """The content of a Unigram that cuts text which spells a name, where the vocabulary
    has no character to spell it with otherwise: it would be likelier than unknowns."""
    if content['model'].get('type') != 'Unigram':
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
        content['pre_tokenizer'] = {'type': 'Sequence', 'pretokenizers': [cut, *before]}
    return content


def _cut(name, pieces):
    """A pattern of where a text that spells the name is cut; '' if that is not needed.

    Beside a character that no piece is, no piece reaches over.
    """
    known = [character in pieces for character in name]
    if all(known) or len(name) < 2:
        return ''
    ends = [i for i in range(1, len(name)) if known[i - 1] != known[i]] or [1]
    before, after = re.escape(name[: ends[0]]), re.escape(name[ends[0] :])
    return f'{before}(?={after})'
