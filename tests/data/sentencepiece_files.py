"""SentencePiece model files, written field by field without the package."""

import struct


def model(pieces, kind=1, byte_fallback=False, charsmap=b'', rules='identity', **spec):
    """Returns the bytes of a .model. `pieces` is [(text, score, type)]; `spec` may have
    prefix, strips, escapes and suffix."""
    trainer = number(3, kind) + number(35, byte_fallback)
    trainer += number(24, spec.pop('suffix', False))
    normalizer = data(1, rules.encode()) + data(2, charsmap)
    for key, field in (('prefix', 3), ('strips', 4), ('escapes', 5)):
        normalizer += number(field, spec.pop(key, True))
    assert not spec
    found = b''.join(
        data(1, data(1, text.encode()) + single(2, score) + number(3, type_))
        for text, score, type_ in pieces
    )
    return found + data(2, trainer) + data(3, normalizer)


def varint(value):
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def number(field, value):
    return varint(field << 3) + varint(int(value))


def data(field, value):
    return varint(field << 3 | 2) + varint(len(value)) + value


def single(field, value):
    return varint(field << 3 | 5) + struct.pack('<f', value)
