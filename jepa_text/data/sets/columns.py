"""Files of columns, a word a line and a blank line between sentences, as of CoNLL.

    EU      NNP  B-NP  B-ORG        word in the first column, tag in the last
    rejects VBZ  B-VP  O

    Germany ...

Columns are apart by tabs, or where a line has none, by spaces. A line before a sentence
that begins with # says something of it, but for the word # itself, which has a tag that
other words have, too; -DOCSTART- says that a document begins.
"""

import re
from typing import NamedTuple

from jepa_text.data.corpora import reading

_BRACKETS = re.compile(r'(\(([^()*]+))?\*(\))?')


class Sentence(NamedTuple):
    """`where` it is, for messages: 'FILE, line N' of its first word."""

    where: str
    words: list
    tags: list


def sentences(path, words=0, tags=-1):
    """The Sentences of a file; `words` and `tags` are the numbers of the columns, from 0,
    or from -1 down from the last.

    Tags of entities in brackets, '(ORG*', '*', '*)', as in the files of OntoNotes, become
    B-ORG, I-ORG, I-ORG. Raises ValueError, with the line, where a line has no such column
    or not as many as the line before.
    """
    lines = [(f'{path}, line {n}', _cells(line)) for n, line in reading.lines(path)]
    usual = {
        _cell(cells, tags, where, 'tags')
        for where, cells in lines
        if len(cells) > 1 and cells[0][:1] != '#'
    }
    found, width = [], 0
    for where, cells in lines:
        if not cells or (not width and _is_about(cells, tags, usual)):
            width = 0
            continue
        if not width:
            found.append(Sentence(where, [], []))
        elif len(cells) != width:
            raise ValueError(
                f'{where} has {len(cells)} columns, the line before it {width}: each '
                'line of a sentence has as many, and a blank line ends it.'
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


def _is_about(cells, tags, usual):
    if cells[0] == '-DOCSTART-':
        return True
    is_word = (
        cells[0] == '#' and -len(cells) <= tags < len(cells) and cells[tags] in usual
    )
    return cells[0].startswith('#') and not is_word


def _cell(cells, column, where, what):
    if not -len(cells) <= column < len(cells) or (what == 'tags' and len(cells) < 2):
        raise ValueError(
            f'{where} has {len(cells)} columns, but the {what} are asked for in column '
            f'{column}, counted from 0, or from -1 at the end. A line has a word and its '
            'tag at least.'
        )
    return cells[column].strip()


def _unbracketed(tags, where):
    """IOB2 of tags such as '(ORG*', '*', '*)' and '(DATE)' written '(DATE*)'."""
    made, inside = [], ''
    for tag in tags:
        parts = _BRACKETS.fullmatch(tag)
        if (
            parts is None
            or (parts[2] and inside)
            or (parts[3] and not (inside or parts[2]))
        ):
            raise ValueError(
                f'{where}: the sentence has the tag {tag!r}, where one of (TYPE*, *, *) '
                'and (TYPE*) fits: entities neither overlap nor end before they begin.'
            )
        made.append(f'B-{parts[2]}' if parts[2] else f'I-{inside}' if inside else 'O')
        inside = '' if parts[3] else parts[2] or inside
    if inside:
        raise ValueError(f'{where}: an entity {inside} does not end with its sentence.')
    return made
