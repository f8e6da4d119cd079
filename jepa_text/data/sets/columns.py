"""CoNLL files: one word per line in columns, sentences separated by blank lines.

    EU      NNP  B-NP  B-ORG        word in the first column, tag in the last
    rejects VBZ  B-VP  O

    Germany ...

Columns are separated by tabs or, in lines without a tab, by spaces, never by others such
as no-break spaces. A line before a sentence that begins with # is a comment if it has no
tab where other lines have some; in a file without tabs, if no other line has as many
columns, or if # is a word by itself and its tag does not occur with other words. So a
hashtag is a word. A -DOCSTART- line marks the beginning of a document. In CoNLL-U, where
the first column numbers the words, ranges (1-2) and empty nodes (2.1) are no words.
"""

import re
from typing import NamedTuple

from jepa_text.data.corpora import reading

_DOCUMENT = '-DOCSTART-'
_NO_WORD = re.compile(r'\d+[-.]\d+')


class Sentence(NamedTuple):
    """`where` locates it in messages: 'FILE, line N' of its first word."""

    where: str
    words: list
    tags: list


def sentences(path, words=0, tags=-1):
    """Returns the Sentences of a file; `words` and `tags` are column numbers, from 0, or
    negative from the end.

    Raises ValueError, with the line, if a line lacks a column or has a
    different number of columns from the line before, and if `words` are only numbers.
    """
    lines = [(f'{path}, line {n}', line, _cells(line)) for n, line in reading.lines(path)]
    others = [
        (where, line, cells)
        for where, line, cells in lines
        if len(cells) > 1 and cells[0][:1] != '#' and cells[0] != _DOCUMENT
    ]
    has_tabs = any('\t' in line for _, line, _ in others)
    known = {_cell(cells, tags, where, 'tags') for where, _, cells in others}
    widths = {len(cells) for *_, cells in others}

    def is_comment(line, cells):
        if cells[0][:1] != '#':
            return cells[0] == _DOCUMENT
        if has_tabs:
            return '\t' not in line
        return len(cells) not in widths or cells[0] == '#' and cells[tags] not in known

    made, rows = [], []
    for where, line, cells in [*lines, ('', '', [])]:
        if not cells or (not rows and is_comment(line, cells)):
            if rows:
                made.append(_sentence(rows, words, tags))
            rows = []
            continue
        if rows and len(cells) != len(rows[-1][1]):
            raise ValueError(
                f'{where} has {len(cells)} columns, but the line before it '
                f'{len(rows[-1][1])}: all lines of a sentence need the same number; a '
                'blank line ends a sentence.'
            )
        rows.append((where, cells))
    if made and all(_are_numbers(one.words) for one in made):
        raise ValueError(
            f'{path}: column {words} only numbers the words. Give the column of the '
            'words themselves, such as words=1.'
        )
    if made and all('*' in tag for one in made for tag in one.tags):
        raise ValueError(
            f'{path} has bracketed tags such as {made[0].tags[0]!r}. Convert them to '
            'IOB2, where the first word of an entity has B- and its type, others I-.'
        )
    return made


def _sentence(rows, words, tags):
    if words % len(rows[0][1]) and _are_numbers([cells[0] for _, cells in rows]):
        rows = [row for row in rows if not _NO_WORD.fullmatch(row[1][0])]
    cells = (
        [_cell(cells, column, where, content) for where, cells in rows]
        for column, content in ((words, 'words'), (tags, 'tags'))
    )
    return Sentence(rows[0][0], *cells)


def _are_numbers(words):
    """Whether these are 1, 2, ... with ranges and empty nodes between them."""
    numbers = [word for word in words if not _NO_WORD.fullmatch(word)]
    return numbers == [str(n) for n in range(1, len(numbers) + 1)] != []


def _cells(line):
    if not line.strip():
        return []
    return line.split('\t') if '\t' in line else re.findall('[^ ]+', line)


def _cell(cells, column, where, content):
    if not -len(cells) <= column < len(cells) or (content == 'tags' and len(cells) < 2):
        raise ValueError(
            f'{where} has {len(cells)} columns, but the {content} should be in column '
            f'{column}, counted from 0, or from -1 at the end. A line needs at least a '
            'word and its tag.'
        )
    return cells[column].strip(' ')
