"""Conversion of a SentencePiece model to a tokenizer.json with the same ids.

    text --charsmap--> --spaces: stripped, collapsed, ▁ for each, one added--> pieces

Unigram and BPE are supported. For BPE, all ways to merge two pieces into a third are
merges, ordered by the score of the third. If no piece continues after a space, text is
split before spaces, as the `tokenizers` library is slow on long words; otherwise a text
is one word.
"""

import base64
import struct

from jepa_text.data.tokenizers import declared, roles
from jepa_text.data.tokenizers import sentencepiece_rules as rules
from jepa_text.data.tokenizers.sentencepiece_rules import SPACE

UNIGRAM, BPE = 1, 2
MODELS = {UNIGRAM: 'unigram', BPE: 'bpe', 3: 'word', 4: 'char'}
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def read(path):
    """Returns (content of a tokenizer.json, lines) of a SentencePiece .model file.

    Raises ValueError for any other file, and for models whose ids a tokenizer.json cannot
    reproduce.
    """
    proto = _parsed(path)
    pieces, kind = proto['pieces'], MODELS.get(proto['kind'], proto['kind'])
    _check(path, proto, kind)
    make = {UNIGRAM: _unigram, BPE: _bpe}[proto['kind']]
    special = [
        declared.special(i, piece)
        for i, (piece, _, type_) in enumerate(pieces)
        if type_ in (UNKNOWN, CONTROL)
    ]
    plain = [
        declared.special(i, piece) | {'special': False}
        for i, (piece, _, type_) in enumerate(pieces)
        if type_ == USER_DEFINED
    ]
    steps = rules.normalizers(
        *(proto[key] for key in ('charsmap', 'rules', 'strips', 'prefix'))
    )
    content = {
        'version': '1.0',
        'truncation': None,
        'padding': None,
        'added_tokens': sorted([*special, *plain], key=lambda token: token['id']),
        'normalizer': {'type': 'Sequence', 'normalizers': steps},
        'pre_tokenizer': _pre_tokenizer(pieces),
        'post_processor': None,
        'decoder': _decoder(proto),
        'model': make(proto),
    }
    content, lines = roles.guarded(content)
    lines = [f'read from {path}: SentencePiece, {kind}, {len(pieces):,} pieces', *lines]
    if proto['charsmap'] and proto['rules'] not in rules.COMPOSING:
        lines.append(
            f'its custom normalization rules ({proto["rules"]!r}) are applied to single '
            'characters only'
        )
    return content, lines


def _check(path, proto, kind):
    types = [type_ for _, _, type_ in proto['pieces']]
    spaces = proto['prefix'] or proto['strips']
    for is_unsupported, reason in (
        (kind not in ('unigram', 'bpe'), f'is of the kind {kind}, not unigram or bpe'),
        (proto['suffix'], 'has the space after a word (treat_whitespace_as_suffix)'),
        (not proto['escapes'], 'does not escape spaces (escape_whitespaces=false)'),
        (UNUSED in types, 'has disabled pieces (UNUSED)'),
        (
            types.count(UNKNOWN) != 1,
            f'has {types.count(UNKNOWN)} unknown pieces, not one',
        ),
        (
            USER_DEFINED in types and spaces,
            'has user-defined symbols and changes the spaces next to them '
            '(add_dummy_prefix, remove_extra_whitespaces)',
        ),
    ):
        if is_unsupported:
            raise ValueError(
                f'{path} {reason}, so it cannot be converted to a tokenizer.json with '
                'the same ids. Train one with `jepa-text tokenizer`, or use another.'
            )


def _unigram(proto):
    pieces = proto['pieces']
    return {
        'type': 'Unigram',
        'unk_id': _unknown(pieces),
        'vocab': [[piece, score] for piece, score, _ in pieces],
        'byte_fallback': proto['bytes'],
    }


def _bpe(proto):
    pieces = proto['pieces']
    scores = {p: score for p, score, type_ in pieces if type_ == NORMAL}
    merges = [
        (-scores[piece], i, piece[:at], piece[at:])
        for i, piece in enumerate(scores)
        for at in range(1, len(piece))
        if piece[:at] in scores and piece[at:] in scores
    ]
    return {
        'type': 'BPE',
        'dropout': None,
        'unk_token': pieces[_unknown(pieces)][0],
        'continuing_subword_prefix': None,
        'end_of_word_suffix': None,
        'fuse_unk': True,
        'byte_fallback': proto['bytes'],
        'ignore_merges': False,
        'vocab': {piece: i for i, (piece, _, _) in enumerate(pieces)},
        'merges': [[left, right] for *_, left, right in sorted(merges)],
    }


def _unknown(pieces):
    return next(i for i, (_, _, type_) in enumerate(pieces) if type_ == UNKNOWN)


def _pre_tokenizer(pieces):
    """Splits before spaces, unless a piece contains a space after another character."""
    names = {piece for piece, _, type_ in pieces if type_ == NORMAL}
    over = any(a != SPACE and b == SPACE for n in names for a, b in zip(n, n[1:]))
    if over or SPACE not in names:
        return None
    return {
        'type': 'Split',
        'pattern': {'Regex': f'{SPACE}+'},
        'behavior': 'MergedWithNext',
        'invert': False,
    }


def _decoder(proto):
    steps = [
        rules.replace({'String': SPACE}, ' '),
        {'type': 'ByteFallback'},
        {'type': 'Fuse'},
    ]
    if proto['prefix']:
        steps.append({'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0})
    return {'type': 'Sequence', 'decoders': steps}


def _parsed(path):
    """Parses the required fields of a ModelProto (sentencepiece_model.proto)."""
    try:
        model = _fields(path.read_bytes())
        pieces = [_piece(_fields(data)) for data in model.get(1, ())]
        trainer = _fields(_last(model, 2, b''))
        spec = _fields(_last(model, 3, b''))
        found = {
            'kind': _last(trainer, 3, UNIGRAM),
            'suffix': bool(_last(trainer, 24, 0)),
            'bytes': bool(_last(trainer, 35, 0)),
            'rules': _last(spec, 1, b'').decode(),
            'charsmap': base64.b64encode(_last(spec, 2, b'')).decode(),
            'prefix': bool(_last(spec, 3, 1)),
            'strips': bool(_last(spec, 4, 1)),
            'escapes': bool(_last(spec, 5, 1)),
            'pieces': pieces,
        }
    except (ValueError, IndexError, KeyError, TypeError, struct.error) as error:
        raise ValueError(_not_a_model(path)) from error
    if not pieces:
        raise ValueError(_not_a_model(path))
    return found


def _not_a_model(path):
    return (
        f'{path} is not a SentencePiece model, or is truncated: give the complete .model '
        'file that its trainer wrote.'
    )


def _piece(fields):
    return fields[1][-1].decode('utf-8'), fields[2][-1], _last(fields, 3, NORMAL)


def _last(fields, number, default):
    """The value of an optional field: the last one, as in protocol buffers."""
    return fields.get(number, [default])[-1]


def _fields(data):
    """Parses a protocol buffer message to {number: [value, ...]}: integers, floats and
    bytes. Raises ValueError if it is truncated or has other kinds of fields."""
    found, at = {}, 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            value, at = _varint(data, at)
        elif key & 7 == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        elif key & 7 == 5:
            (value,) = struct.unpack_from('<f', data, at)
            at += 4
        else:
            raise ValueError(f'unsupported wire type {key & 7}')
        if at > len(data) or not key >> 3:
            raise ValueError('truncated field')
        found.setdefault(key >> 3, []).append(value)
    return found


def _varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 128:
            return value, at
