"""Plain text corpora: a .txt file, also compressed, or a folder of them, in UTF-8.

config.prepare.source = dict(name='text', path='books/', documents='file')
"""

import functools
import itertools
import os

from jepa_text.data.corpora import corpus, invalid_text, reading
from jepa_text.settings import resolve

SUFFIXES = tuple(f'.txt{end}' for end in reading.ENDS)
DOCUMENTS = ('blank_line', 'file')


def make(split, path, documents='blank_line', heldout_every=100):
    """Returns the documents of a split: dicts of text and title (the file name).

    A document is a block between blank lines, or with documents='file' a whole file.
    About one in `heldout_every` is held out, by its text (corpora/reading.py). Files are
    read line by line; a document that is not UTF-8 is an invalid_text.Bad. Raises
    FileNotFoundError for a missing path; when read, ValueError for a document of more
    than reading.LONGEST characters.
    """
    resolve.check_choice('text: documents', documents, DOCUMENTS)
    if documents == 'file':
        read, cut = _file, corpus.whole
    else:
        read, cut = _blocks, functools.partial(corpus.cut_lines, blank=True)
    return corpus.of_files(path, SUFFIXES, read, split, heldout_every, cut=cut)


def _file(piece):
    """The document of a whole file, without leading and trailing blank lines."""
    document = _document(_lines(piece), piece)
    if isinstance(document, invalid_text.Bad):
        return [document]
    text = document['text'].strip()
    return [document | {'text': text}]


def _blocks(piece):
    blocks = itertools.groupby(
        _lines(piece),
        key=lambda line: isinstance(line, invalid_text.Bad) or bool(line.strip()),
    )
    return (_document(block, piece) for has_text, block in blocks if has_text)


def _lines(piece):
    return (line for _, line in reading.lines(*piece.extent, strict=False))


def _document(lines, piece):
    """Returns the document of some lines, or the first invalid one as a Bad."""
    texts, size, bad = [], 0, None
    for line in lines:
        if isinstance(line, invalid_text.Bad):
            bad = bad or line
            continue
        size += len(line)
        if size > reading.LONGEST:
            raise ValueError(
                f'{piece.path} has a document of more than {reading.LONGEST:,} '
                f'characters, which begins with {"".join(texts[:1])[:60]!r}. With '
                "documents='blank_line' a document ends at a blank line: insert some, or "
                'make each document a line of a .jsonl file.'
            )
        texts.append(line)
    return bad or {'text': '\n'.join(texts), 'title': os.path.basename(piece.path)}
