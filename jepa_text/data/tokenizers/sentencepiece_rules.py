r"""SentencePiece's normalization -> normalizers of the `tokenizers` library.

SentencePiece replaces, from left to right, the longest sequence of characters that its
rules (`precompiled_charsmap`) have. The library's `Precompiled` looks at a cluster, a
letter with its marks, and drops what follows the first character that has a rule. So here

    each character is replaced by itself          apart, Precompiled
    letters and marks are composed                apart where no rule composes them, NFC

as the rules of more than one character are those of NFKC: they compose a letter and the
marks of one precomposed character. NFC does more, and is kept from it: it would put marks
into an order, and compose what is composed with another mark. What still differs: two
marks on a letter that NFC composes with the second alone (a, cedilla, acute), and control
characters between the parts of a Korean syllable.
"""

import functools
import sys
import unicodedata

# Rules that compose as NFKC does.
COMPOSING = ('nmt_nfkc', 'nfkc', 'nmt_nfkc_cf', 'nfkc_cf')
SPACE = '▁'
# They end a cluster, and are no characters of any text: not assigned, to be ignored.
APART, KEPT_APART = '\ufff8', '\ufff7'
# Within a cluster; what is not assigned yet may be a mark by a newer Unicode. The library
# cannot insert where a text begins: its next step would fail.
CLUSTERED = r'\Y|(?!\A)(?=\p{Cn})'
SYLLABLES, LAST_JAMO = range(0xAC00, 0xD7A4), r'\u11a8-\u11c2'


def normalizers(charsmap, name, strips, prefix):
    """The normalizers, as tokenizer.json has them.

    charsmap   the rules in base64, '' if there are none; `name` is theirs
    strips     are spaces at the ends left out, and runs of them made one?
    prefix     does a text begin with a space?
    """
    found = []
    if charsmap:
        rules = {'type': 'Precompiled', 'precompiled_charsmap': charsmap}
        alone = [
            replace({'Regex': CLUSTERED}, APART),
            rules,
            replace({'String': APART}, ''),
        ]
        if name in COMPOSING:
            several, composed = _uncomposed()
            found = [
                replace({'Regex': several}, KEPT_APART),
                *alone,
                replace({'Regex': composed}, KEPT_APART),
                {'type': 'NFC'},
                replace({'String': KEPT_APART}, ''),
            ]
        else:
            found = alone
    if strips:
        found += [replace({'Regex': r'\A +'}, ''), replace({'Regex': ' {2,}'}, ' ')]
    if prefix:
        found.append({'type': 'Prepend', 'prepend': SPACE})
    found.append(replace({'String': ' '}, SPACE))
    if strips:
        found.append(replace({'Regex': rf'{SPACE}+\z'}, ''))
    return found


def replace(pattern, content):
    """The step `Replace`, of normalizers and decoders."""
    return {'type': 'Replace', 'pattern': pattern, 'content': content}


@functools.cache
def _uncomposed():
    """Patterns of the places before a mark that no rule composes with what is before:
    with one character that stands for several or for none; and with others."""
    several, composed, inner, later = set(), set(), set(), set()
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        is_control = unicodedata.category(character) == 'Cc'
        if is_control or len(unicodedata.normalize('NFKC', character)) > 1:
            several.add(code)
        parts = unicodedata.normalize('NFD', character)
        is_one = unicodedata.normalize('NFC', parts) == character
        if code in SYLLABLES or len(parts) == 1 or not is_one:
            continue
        composed.add(code)
        inner.update(map(ord, parts[1:-1]))
        later.update(map(ord, parts[2:]))
    composed |= set(SYLLABLES)
    mark = r'[\p{M}' + LAST_JAMO + ']'
    return f'(?={mark})(?<=[{_ranges(several)}])', (
        f'(?={mark})(?<=[{_ranges(composed)}])'
        r'|(?<=\p{M})(?=\p{M})'
        f'(?:(?<![{_ranges(inner)}])|(?![{_ranges(later)}]))'
    )


def _ranges(codes):
    """Codes as the inside of a class of characters."""
    found, codes = [], sorted(codes)
    for code in codes:
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return ''.join(chr(a) if a == b else f'{chr(a)}-{chr(b)}' for a, b in found)
