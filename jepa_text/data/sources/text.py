"""Plain text: .txt files, also .gz and .zst, one or a folder of them, in UTF-8.

config.prepare.source = dict(name='text', path='books/', documents='file')
"""

import functools
import itertools
import os

from jepa_text.data.corpora import corpus, invalid_text, reading

SUFFIXES = tuple(f'.txt{end}' for end in reading.ENDS)
DOCUMENTS = ('blank_line', 'file')


def make(split, path, documents='blank_line', heldout_every=100):
    """The documents of a split: dicts of text and title (the file's name).

    A document is what lies between blank lines, or a whole file (`documents='file'`).
    About one in `heldout_every` is held out, by its text (corpora/reading.py). Files
    are read line by line; one with bytes that are not UTF-8 is bad. Raises
    FileNotFoundError for a missing path; when read, ValueError for a document of more
    than reading.LONGEST characters.
    """
    if documents not in DOCUMENTS:
        raise ValueError(
            f'text: documents={documents!r} is not one of {DOCUMENTS}: blank lines lie '
            'between documents, or every file is one.'
        )
    if documents == 'file':
        read, cut = _file, corpus.whole
    else:
        read, cut = _blocks, functools.partial(corpus.cut_lines, blank=True)
    return corpus.of_files(path, SUFFIXES, read, split, heldout_every, cut)


def _file(piece):
    """A whole file, without the blank lines around it."""
    found = _document(_lines(piece), piece)
    if isinstance(found, invalid_text.Bad):
        return [found]
    text = found['text'].strip()
    return [found | {'text': text}] if text else []


def _blocks(piece):
    blocks = itertools.groupby(_lines(piece), key=_has_text)
    return (_document(block, piece) for has_text, block in blocks if has_text)


def _lines(piece):
    return (line for _, line in reading.lines(*piece.place, strict=False))


def _has_text(line):
    return isinstance(line, invalid_text.Bad) or bool(line.strip())


def _document(lines, piece):
    """The document of some lines, or the first that is bad."""
    held, size, bad = [], 0, None
    for line in lines:
        if isinstance(line, invalid_text.Bad):
            bad = bad or line
            continue
        size += len(line)
        if size > reading.LONGEST:
            raise ValueError(_too_long(piece, held[0] if held else line))
        held.append(line)
    if bad is not None:
        return bad
    return {'text': '\n'.join(held), 'title': os.path.basename(piece.path)}


def _too_long(piece, line):
    return (
        f'{piece.path} has a document of more than {reading.LONGEST:,} characters, that '
        f"begins with {line[:60]!r}. With documents='blank_line' a document ends at a "
        'blank line: put some in; or make each a line of a .jsonl file.'
    )
