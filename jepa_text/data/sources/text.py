"""Plain text: a .txt or .txt.gz file, or a folder of such files, in UTF-8.

config.prepare.source = dict(name='text', path='books/', documents='file')
"""

import functools
import itertools

from jepa_text.data import finding, reading

SUFFIXES = ('.txt', '.txt.gz')
DOCUMENTS = ('blank_line', 'file')


def make(split, path, documents='blank_line', heldout_every=100):
    """The documents of a split: dicts of text and title (the file's name).

    A document is what lies between blank lines, or a whole file (`documents='file'`).
    About one in `heldout_every` is held out, by its text (see data/reading.py). Files
    are read line by line. Raises FileNotFoundError for a missing path, ValueError for
    bytes that are not UTF-8.
    """
    if documents not in DOCUMENTS:
        raise ValueError(
            f'text: documents={documents!r} is not one of {DOCUMENTS}: blank lines lie '
            'between documents, or every file is one.'
        )
    read = functools.partial(_documents, whole=documents == 'file')
    return finding.corpus(path, SUFFIXES, read, split, heldout_every)


def _documents(file, whole):
    """Blocks of lines; a whole file without the blank lines around it is one, too."""
    lines = (line for _, line in reading.lines(file))
    if whole:
        texts = ['\n'.join(lines).strip()]
    else:
        blocks = itertools.groupby(lines, key=lambda line: bool(line.strip()))
        texts = ('\n'.join(block) for has_text, block in blocks if has_text)
    for text in filter(None, texts):
        yield {'text': text, 'title': file.name}
