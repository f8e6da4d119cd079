"""CoNLL files: one word per line in columns, sentences separated by blank lines.

    EU      NNP  B-NP  B-ORG        word in the first column, tag in the last
    rejects VBZ  B-VP  O

    Germany ...

Columns are separated by tabs or, in lines without a tab, by spaces. A line before a
sentence that begins with # is a comment, unless the word is # itself with a tag that also
occurs with other words; a -DOCSTART- line marks the beginning of a document.
"""

import re
from typing import NamedTuple

from jepa_text.data.corpora import reading

_BRACKETS = re.compile(r'(\(([^()*]+))?\*(\))?')


class Sentence(NamedTuple):
    """`where` locates it in messages: 'FILE, line N' of its first word."""

    where: str
    words: list
    tags: list


def sentences(path, words=0, tags=-1):
    """Returns the Sentences of a file; `words` and `tags` are column numbers, from 0, or
    negative from the end.

    Bracketed entity tags as in the OntoNotes files, '(ORG*', '*', '*)', become B-ORG,
    I-ORG, I-ORG. Raises ValueError, with the line, if a line lacks a column or has a
    different number of columns from the line before.
    """
    lines = [(f'{path}, line {n}', _cells(line)) for n, line in reading.lines(path)]
    known_tags = {
        _cell(cells, tags, where, 'tags')
        for where, cells in lines
        if len(cells) > 1 and cells[0][:1] != '#'
    }
    found, width = [], 0
    for where, cells in lines:
        if not cells or (not width and _is_comment(cells, tags, known_tags)):
            width = 0
            continue
        if not width:
            found.append(Sentence(where, [], []))
        elif len(cells) != width:
            raise ValueError(
                f'{where} has {len(cells)} columns, but the line before it {width}: all '
                'lines of a sentence need the same number; a blank line ends a sentence.'
            )
        width = len(cells)
        found[-1].words.append(_cell(cells, words, where, 'words'))
        found[-1].tags.append(_cell(cells, tags, where, 'tags'))
    if all('*' in tag for one in found for tag in one.tags):
        return [one._replace(tags=_unbracketed(one.tags, one.where)) for one in found]
    return found


def _cells(line):
    if not line.strip():
        return []
    return line.split('\t') if '\t' in line else line.split()


def _is_comment(cells, tags, known_tags):
    if cells[0] == '-DOCSTART-':
        return True
    is_word = (
        cells[0] == '#' and -len(cells) <= tags < len(cells) and cells[tags] in known_tags
    )
    return cells[0].startswith('#') and not is_word


def _cell(cells, column, where, content):
    if not -len(cells) <= column < len(cells) or (content == 'tags' and len(cells) < 2):
        raise ValueError(
            f'{where} has {len(cells)} columns, but the {content} should be in column '
            f'{column}, counted from 0, or from -1 at the end. A line needs at least a '
            'word and its tag.'
        )
    return cells[column].strip()


def _unbracketed(tags, where):
    """Converts tags such as '(ORG*', '*', '*)' and '(DATE)' or '(DATE*)' to IOB2."""
    found, inside = [], ''
    for tag in tags:
        parts = _BRACKETS.fullmatch(tag)
        if (
            parts is None
            or (parts[2] and inside)
            or (parts[3] and not (inside or parts[2]))
        ):
            raise ValueError(
                f'{where}: the sentence has the tag {tag!r}, but (TYPE*, *, *) or '
                '(TYPE*) is expected here: entities must not overlap or end before they '
                'begin.'
            )
        found.append(f'B-{parts[2]}' if parts[2] else f'I-{inside}' if inside else 'O')
        inside = '' if parts[3] else parts[2] or inside
    if inside:
        raise ValueError(f'{where}: the entity {inside} does not end in its sentence.')
    return found
