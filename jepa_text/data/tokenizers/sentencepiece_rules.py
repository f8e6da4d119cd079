r"""Conversion of SentencePiece's normalization to normalizers of `tokenizers`.

SentencePiece replaces, from left to right, the longest sequence of characters in its
rules (`precompiled_charsmap`). The library's `Precompiled` processes a grapheme cluster,
a letter with its marks, and drops what follows the first character that has a rule. So

    each character is replaced by itself   by Precompiled, after separating all
    letters and marks are composed         by NFC, after separating what no rule composes

because the rules of several characters are those of NFKC: they compose a letter and the
marks of one precomposed character. NFC does more, which must be prevented: it reorders
marks, and composes precomposed characters with further marks. Remaining differences: two
marks on a letter that NFC composes only with the second (a, cedilla, acute), and control
characters between the parts of a Korean syllable.
"""

import functools
import sys
import unicodedata

# Rules that compose as NFKC does.
COMPOSING = ('nmt_nfkc', 'nfkc', 'nmt_nfkc_cf', 'nfkc_cf')
SPACE = '▁'
# Separators: unassigned, ignorable characters that end a cluster and occur in no text.
APART, KEPT_APART = '\ufff8', '\ufff7'
# Positions within a cluster; an unassigned character may be a mark in a newer Unicode.
# Not at the beginning of a text, where an insertion makes the library's next step fail.
CLUSTERED = r'\Y|(?!\A)(?=\p{Cn})'
SYLLABLES, LAST_JAMO = range(0xAC00, 0xD7A4), r'\u11a8-\u11c2'


def normalizers(charsmap, name, strips, prefix):
    """Returns the normalizers as in a tokenizer.json.

    charsmap   the rules in base64, '' for none
    name       the name of the rules
    strips     whether spaces at the ends are removed and runs of spaces collapsed
    prefix     whether a space is added at the beginning of a text
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
    """Returns a `Replace` step, for normalizers and decoders."""
    return {'type': 'Replace', 'pattern': pattern, 'content': content}


@functools.cache
def _uncomposed():
    """Patterns of the positions before a mark that no rule composes with what precedes:
    after a character that normalizes to several or none, and after others."""
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
    """Codes as the inside of a regular expression's character class."""
    found, codes = [], sorted(codes)
    for code in codes:
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return ''.join(chr(a) if a == b else f'{chr(a)}-{chr(b)}' for a, b in found)
