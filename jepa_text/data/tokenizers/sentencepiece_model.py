"""A SentencePiece model -> the content of a tokenizer.json with the same ids.

    text --charsmap--> --spaces: ends off, runs to one, ▁ for each, one before--> pieces

Unigram and BPE are taken. Of BPE all ways to merge two pieces to a third are merges, by
the score of the third. Where no piece goes on after a space, the text is cut before it,
as the `tokenizers` library reads long words slowly; else it is one word.
"""

import base64
import struct

from jepa_text.data.tokenizers import roles
from jepa_text.data.tokenizers import sentencepiece_rules as rules
from jepa_text.data.tokenizers.sentencepiece_rules import SPACE

UNIGRAM, BPE = 1, 2
MODELS = {UNIGRAM: 'unigram', BPE: 'bpe', 3: 'word', 4: 'char'}
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def read(path):
    """(content of a tokenizer.json, lines) of a SentencePiece .model file.

    Raises ValueError for what is no such file, and for models whose ids a tokenizer.json
    cannot give.
    """
    proto = _parsed(path)
    pieces, kind = proto['pieces'], MODELS.get(proto['kind'], proto['kind'])
    _check(path, proto, kind)
    make = {UNIGRAM: _unigram, BPE: _bpe}[proto['kind']]
    special = [
        roles.special(i, piece)
        for i, (piece, _, type_) in enumerate(pieces)
        if type_ in (UNKNOWN, CONTROL)
    ]
    plain = [
        roles.special(i, piece) | {'special': False}
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
    content, said = roles.guarded(content)
    said = [f'read from {path}: SentencePiece, {kind}, {len(pieces):,} pieces', *said]
    if proto['charsmap'] and proto['rules'] not in rules.COMPOSING:
        said.append(
            f'its own rules of normalization ({proto["rules"]!r}) are applied to one '
            'character at a time'
        )
    return content, said


def _check(path, proto, kind):
    types = [type_ for _, _, type_ in proto['pieces']]
    spaces = proto['prefix'] or proto['strips']
    for is_so, what in (
        (kind not in ('unigram', 'bpe'), f'is of the kind {kind}, not unigram or bpe'),
        (proto['suffix'], 'has the space behind a word (treat_whitespace_as_suffix)'),
        (not proto['escapes'], 'keeps spaces as they are (escape_whitespaces=false)'),
        (UNUSED in types, 'has pieces that are switched off (UNUSED)'),
        (
            types.count(UNKNOWN) != 1,
            f'has {types.count(UNKNOWN)} unknown pieces, not one',
        ),
        (
            USER_DEFINED in types and spaces,
            'has user-defined symbols and changes the spaces beside them '
            '(add_dummy_prefix, remove_extra_whitespaces)',
        ),
    ):
        if is_so:
            raise ValueError(
                f'{path} {what}: a tokenizer.json with the same ids cannot be made of '
                'it. Train one with `jepa-text tokenizer`, or take another.'
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
    """Cuts before spaces, if no piece goes over such a place."""
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
    """What is needed of a ModelProto (sentencepiece_model.proto)."""
    try:
        model = _fields(path.read_bytes())
        pieces = [_piece(_fields(data)) for data in model.get(1, ())]
        trainer = _fields(model.get(2, [b''])[-1])
        spec = _fields(model.get(3, [b''])[-1])
        found = {
            'kind': trainer.get(3, [UNIGRAM])[-1],
            'suffix': bool(trainer.get(24, [0])[-1]),
            'bytes': bool(trainer.get(35, [0])[-1]),
            'rules': spec.get(1, [b''])[-1].decode(),
            'charsmap': base64.b64encode(spec.get(2, [b''])[-1]).decode(),
            'prefix': bool(spec.get(3, [1])[-1]),
            'strips': bool(spec.get(4, [1])[-1]),
            'escapes': bool(spec.get(5, [1])[-1]),
            'pieces': pieces,
        }
    except (ValueError, IndexError, KeyError, TypeError, struct.error) as error:
        raise ValueError(_no_model(path)) from error
    if not pieces:
        raise ValueError(_no_model(path))
    return found


def _no_model(path):
    return (
        f'{path} is not a SentencePiece model, or is cut: give the .model file that its '
        'trainer wrote, whole.'
    )


def _piece(fields):
    return fields[1][-1].decode('utf-8'), fields[2][-1], fields.get(3, [NORMAL])[-1]


def _fields(data):
    """{number: [value, ...]} of a message of protocol buffers: whole numbers, floats and
    bytes. Raises ValueError where it ends too early, or has another kind of field."""
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
            raise ValueError(f'a field of kind {key & 7}')
        if at > len(data) or not key >> 3:
            raise ValueError('it ends within a field')
        found.setdefault(key >> 3, []).append(value)
    return found


def _varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 128:
            return value, at
