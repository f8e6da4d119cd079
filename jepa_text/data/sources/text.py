"""Plain text: .txt files, also .gz and .zst, one or a folder of them, in UTF-8.

config.prepare.source = dict(name='text', path='books/', documents='file')
"""

import functools
import itertools
import os

from jepa_text.data.corpora import corpus, reading

SUFFIXES = tuple(f'.txt{end}' for end in reading.ENDS)
DOCUMENTS = ('blank_line', 'file')


def make(split, path, documents='blank_line', heldout_every=100):
    """The documents of a split: dicts of text and title (the file's name).

    A document is what lies between blank lines, or a whole file (`documents='file'`).
    About one in `heldout_every` is held out, by its text (corpora/reading.py). Files
    are read line by line. Raises FileNotFoundError for a missing path, ValueError for
    bytes that are not UTF-8.
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
    text = '\n'.join(line for _, line in reading.lines(*piece.place)).strip()
    return [_document(text, piece)] if text else []


def _blocks(piece):
    lines = (line for _, line in reading.lines(*piece.place))
    blocks = itertools.groupby(lines, key=lambda line: bool(line.strip()))
    return (_document('\n'.join(block), piece) for has_text, block in blocks if has_text)


def _document(text, piece):
    return {'text': text, 'title': os.path.basename(piece.path)}
